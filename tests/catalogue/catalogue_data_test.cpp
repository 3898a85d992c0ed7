#include "eratos/catalogue_data.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace eratos {
namespace {

namespace fs = std::filesystem;

const fs::path kData = fs::path(ERATOS_SOURCE_DIR) / "data";

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST(CatalogueData, HoldsEveryDataFileUnchanged) {
  std::set<std::string> expected;
  for (const auto& entry : fs::recursive_directory_iterator(kData)) {
    const fs::path extension = entry.path().extension();
    if (extension == ".yaml" || extension == ".csv") {
      expected.insert(fs::relative(entry.path(), kData).string());
    }
  }
  ASSERT_FALSE(expected.empty());

  std::set<std::string> embedded;
  for (const DataFile& file : data_files()) {
    const fs::path base = fs::path(file.folder) / file.name;
    fs::path path = base;
    path += ".yaml";
    if (!expected.contains(path.string())) {
      path = base;
      path += ".csv";
    }
    embedded.insert(path.string());
    EXPECT_EQ(read(kData / path), file.text) << path;
  }
  EXPECT_EQ(embedded, expected);
}

TEST(CatalogueData, IsSortedByFolderThenName) {
  for (std::size_t i = 1; i < data_files().size(); ++i) {
    const DataFile& a = data_files()[i - 1];
    const DataFile& b = data_files()[i];
    EXPECT_LT(std::pair(a.folder, a.name), std::pair(b.folder, b.name));
  }
}

}  // namespace
}  // namespace eratos
