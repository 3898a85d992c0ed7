// What is remembered of a machine: kept, found by its key alone, refused where the file is
// another's.
#include "eratos/store/machine_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

namespace eratos::store {
namespace {

namespace fs = std::filesystem;

class MachineMemoryFile : public testing::Test {
 protected:
  MachineMemoryFile()
      : path_((fs::temp_directory_path() / ("eratos_memory_" + std::to_string(::getpid())))
                  .string()) {
    fs::remove(path_);
  }
  ~MachineMemoryFile() override { fs::remove(path_); }
  std::string path_;
};

TEST_F(MachineMemoryFile, KeepsTheLastOfEachModelAndMachine) {
  const MachineKey one{digest_of("model"), digest_of("machine")};
  const MachineKey other{digest_of("model"), digest_of("another machine")};
  {
    auto memory = MachineMemory::open(path_);
    if (!memory) GTEST_SKIP() << memory.error().what.message;  // built without SQLite
    EXPECT_FALSE((*memory)->last(one)->has_value());
    EXPECT_TRUE((*memory)->keep(one, {"first", "v1"}));
    EXPECT_TRUE((*memory)->keep(one, {"second \"quoted\"", "v2"}));
  }
  auto memory = MachineMemory::open(path_);
  ASSERT_TRUE(memory);
  const auto last = (*memory)->last(one);
  ASSERT_TRUE(last && last->has_value());
  EXPECT_EQ((*last)->text, "second \"quoted\"");
  EXPECT_EQ((*last)->fingerprint, "v2");
  EXPECT_FALSE((*memory)->last(other)->has_value());
}

TEST_F(MachineMemoryFile, RefusesWhatIsNotItsOwn) {
  std::ofstream(path_) << std::string(4096, 'x');
  const auto text = MachineMemory::open(path_);
  ASSERT_FALSE(text);
  fs::remove(path_);
  if (!Store::open(path_, false)) GTEST_SKIP();
  const auto store = MachineMemory::open(path_);  // a store of answers is another file
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, Trouble::Kind::bad_file);
  EXPECT_FALSE(MachineMemory::open(fs::temp_directory_path().string()));
}

}  // namespace
}  // namespace eratos::store
