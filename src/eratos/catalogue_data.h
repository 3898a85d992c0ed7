// The files of data/, compiled into the program: the catalogue needs no file at run time.
//
// Answers "what is the text of data/models/llama3.1-70b.yaml?". Shell only: the core is handed
// values, never text.
//
// Worked example: data/models/llama3.1-70b.yaml is {"models", "llama3.1-70b", "..."} and
// data/families.csv is {"", "families", "..."}.
#pragma once

#include <span>
#include <string_view>

namespace eratos {

struct DataFile {
  std::string_view folder;  // below data/, "" for a file of data/ itself
  std::string_view name;    // of the file, without its extension
  std::string_view text;    // the bytes of the file, unchanged
};

// Every *.yaml and *.csv below data/, sorted by folder, then name.
std::span<const DataFile> data_files();

}  // namespace eratos
