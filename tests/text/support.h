// What the tests of room text share: one line of all faults, a scratch folder, a stop watch.
#pragma once

#include <chrono>
#include <ctime>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "eratos/base/diagnostic.h"

namespace eratos::text {

template <class T>
std::string faults_of(const Result<T>& result) {
  std::string all;
  if (result) return "(no fault)";
  for (const Diagnostic& d : result.error()) {
    if (!all.empty()) all += '\n';
    all += to_text(d);
  }
  return all;
}

// A folder of this test alone, gone when the test is over.
class Scratch {
 public:
  Scratch() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("eratos-") + test->test_suite_name() + "-" + test->name() + "-" +
               std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + "-" +
               std::to_string(std::chrono::steady_clock::now().time_since_epoch().count()));
    std::filesystem::create_directories(folder_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::size_t files() const {
    std::size_t n = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder_))
      n += file.exists() ? 1 : 0;
    return n;
  }

 private:
  std::filesystem::path folder_;
};

// Processor time of this process: a busy machine is no fault of the parser.
class StopWatch {
 public:
  double seconds() const {
    return static_cast<double>(std::clock() - start_) / static_cast<double>(CLOCKS_PER_SEC);
  }

 private:
  std::clock_t start_ = std::clock();
};

}  // namespace eratos::text
