#include "eratos/base/secret.h"

#include <concepts>
#include <ostream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace eratos {
namespace {

template <class T>
concept Streams = requires(std::ostream& out, const T& value) {
  out << value;
};
template <class T>
concept Compares = requires(const T& value) {
  value == value;
};

static_assert(!Streams<Secret>);
static_assert(!Compares<Secret>);
static_assert(!fmt::is_formattable<Secret>::value);
static_assert(!std::convertible_to<Secret, std::string>);
static_assert(!std::convertible_to<Secret, std::string_view>);
static_assert(!std::convertible_to<std::string, Secret>);

TEST(Secret, TheWorkedExample) {
  const Secret key("sk-abcdefgh12345");
  EXPECT_EQ(key.scrub("bad key sk-abcdefgh12345!"), "bad key [key]!");
  EXPECT_EQ(key.scrub("bad key sk-abcde..."), "bad key [key]...");
  EXPECT_EQ(key.scrub("sk-abcdefgh12345sk-abcdefgh12345"), "[key]");
  EXPECT_EQ(key.scrub("sk-abcd is 7 bytes of it"), "sk-abcd is 7 bytes of it");
  EXPECT_EQ(key.scrub("def sk-abcdefgh12345 gh12345 defgh1234"), "def [key] gh12345 [key]");
}

TEST(Secret, ShortOnesAreWords) {
  EXPECT_EQ(Secret("EMPTY").scrub("the list is EMPTY"), "the list is EMPTY");
  EXPECT_FALSE(Secret().is_set());
  EXPECT_EQ(Secret().scrub("text"), "text");
}

}  // namespace
}  // namespace eratos
