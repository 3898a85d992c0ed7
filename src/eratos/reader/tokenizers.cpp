#include "eratos/reader/tokenizers.h"

#include <cstdlib>
#include <string>

#include "eratos/catalogue_data.h"
#include "eratos/text/csv.h"

namespace eratos::reader {

double vocabulary_of(std::string_view tokenizer) {
  for (const DataFile& file : data_files()) {
    if (!file.folder.empty() || file.name != "tokenizers") continue;
    const auto table = text::parse_csv(file.text, "data/tokenizers.csv");
    if (!table) return 0;
    const auto name = table->column("tokenizer");
    const auto vocab = table->column("vocab");
    if (!name || !vocab) return 0;
    for (std::size_t row = 0; row < table->rows(); ++row) {
      if (table->cell(row, *name) == tokenizer) {
        return std::strtod(std::string(table->cell(row, *vocab)).c_str(), nullptr);
      }
    }
  }
  return 0;
}

}  // namespace eratos::reader
