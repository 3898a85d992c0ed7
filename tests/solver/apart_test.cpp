#include "eratos/solver/apart.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <thread>

namespace eratos::solver {
namespace {

TEST(RunApart, BringsBackWhatWasComputed) {
  std::vector<double> numbers(300'000);  // more than a pipe holds
  std::iota(numbers.begin(), numbers.end(), 0.5);
  int touched = 0;
  const auto result = run_apart(
      [&] {
        touched = 1;
        return numbers;
      },
      60);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(*result, numbers);
  EXPECT_EQ(touched, 0);
}

TEST(RunApart, CrashesAndExceptionsAreNoAnswer) {
  EXPECT_FALSE(run_apart(
                   [] {
                     signal(SIGTERM, SIG_DFL);
                     raise(SIGTERM);
                     return std::vector<double>{1};
                   },
                   60)
                   .has_value());
  EXPECT_FALSE(
      run_apart([]() -> std::vector<double> { throw std::runtime_error("no"); }, 60).has_value());
}

TEST(RunApart, IsKilledInTime) {
  const auto begin = std::chrono::steady_clock::now();
  const auto result = run_apart(
      [] {
        for (volatile bool go = true; go;) {
        }
        return std::vector<double>{};
      },
      0.2);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_FALSE(result.has_value());
  EXPECT_GE(seconds, 0.2);
  EXPECT_LT(seconds, 5);
}

TEST(RunApart, EndsWhenToldTo) {
  int asked = 0;
  const auto begin = std::chrono::steady_clock::now();
  const auto result = run_apart(
      [] {
        std::this_thread::sleep_for(std::chrono::seconds(60));
        return std::vector<double>{1};
      },
      60, [&] { return ++asked < 3; });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_FALSE(result.has_value());
  EXPECT_EQ(asked, 3);
  EXPECT_LT(seconds, 5);
}

TEST(RunApart, PrintsNothing) {
  testing::internal::CaptureStdout();
  const auto result = run_apart(
      [] {
        std::puts("chatter");
        std::fflush(stdout);
        return std::vector<double>{2};
      },
      60);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  ASSERT_TRUE(result.has_value());
}

}  // namespace
}  // namespace eratos::solver
