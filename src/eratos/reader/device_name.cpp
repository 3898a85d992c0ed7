#include "eratos/reader/device_name.h"

#include "eratos/reader/catalogue.h"
#include "eratos/reader/pattern_table.h"

namespace eratos::reader {

std::string part_of_device(std::string_view device) {
  static const PatternTable names("device_names");
  if (const auto row = names.find(device)) return std::string(names.cell(*row, "part"));
  // A name of the catalogue stands for itself.
  return find_file(Kind::accelerators, device) != nullptr ? std::string(device) : std::string();
}

}  // namespace eratos::reader
