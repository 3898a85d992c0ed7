#include "eratos/base/diagnostic.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace eratos {
namespace {

TEST(Diagnostic, TextHasPlaceMessageAndCure) {
  const Diagnostic d{{"job.yaml", 3, 9}, "unknown key `tpp`", "did you mean `tp`?"};
  EXPECT_EQ(to_text(d), "job.yaml:3:9: error: unknown key `tpp`; did you mean `tp`?");
}

TEST(Diagnostic, TextLeavesOutWhatIsNotKnown) {
  EXPECT_EQ(to_text({{"job.yaml", 3, 0}, "tp is 0", "use 1"}), "job.yaml:3: error: tp is 0; use 1");
  EXPECT_EQ(to_text({{"job.yaml", 0, 0}, "is empty", ""}), "job.yaml: error: is empty");
  EXPECT_EQ(to_text({{"job.yaml", 0, 7}, "is empty", ""}), "job.yaml: error: is empty");
  EXPECT_EQ(to_text({{}, "tp 3 does not divide heads 32", ""}),
            "error: tp 3 does not divide heads 32");
}

Result<int> half(int n) {
  if (n % 2 != 0) return fault({{}, std::to_string(n) + " is odd", "use an even number"});
  return n / 2;
}

TEST(Diagnostic, ResultIsAValueOrEveryFault) {
  ASSERT_TRUE(half(8).has_value());
  EXPECT_EQ(half(8).value(), 4);
  const Result<int> bad = half(7);
  ASSERT_FALSE(bad.has_value());
  ASSERT_EQ(bad.error().size(), 1u);
  EXPECT_EQ(bad.error()[0].message, "7 is odd");

  const Result<int> many = faults({{{}, "first", ""}, {{}, "second", ""}});
  ASSERT_EQ(many.error().size(), 2u);
  EXPECT_EQ(many.error()[1].message, "second");
}

TEST(NearestName, OneEditInAShortWord) {
  const std::vector<std::string> known{"tp", "cp", "pp", "vpp", "sequence_parallel"};
  EXPECT_EQ(nearest_name("tpp", known), "tp");  // first of tp, vpp at distance 1
  EXPECT_EQ(nearest_name("sequense_paralel", known), "sequence_parallel");
}

TEST(NearestName, AtMostAThirdOfTheWordAndThreeEdits) {
  EXPECT_EQ(nearest_name("hidden", {"hiden"}), "hiden");            // 1 edit, limit 2
  EXPECT_EQ(nearest_name("hidden", {"hxddxx"}), "");                // 3 edits, limit 2
  EXPECT_EQ(nearest_name("zz", {"tp", "cp"}), "");                  // 2 edits, limit 1
  EXPECT_EQ(nearest_name("abcdefghijklmno", {"abcdefghijk"}), "");  // 4 edits, limit 3
  EXPECT_EQ(nearest_name("abcdefghijklmno", {"abcdefghijkl"}), "abcdefghijkl");
}

TEST(NearestName, ExactNearestAndNothingKnown) {
  EXPECT_EQ(nearest_name("micro", {"micros", "micro", "macro"}), "micro");
  EXPECT_EQ(nearest_name("micro", {}), "");
  EXPECT_EQ(nearest_name("", {"a"}), "a");
}

TEST(Diagnostic, AValueOfMegabytesIsCut) {
  Diagnostic d;
  d.where.file = std::string(5000, 'f');
  d.message = std::string(3000, 'a') + "end";
  const std::string text = to_text(d);
  EXPECT_LT(text.size(), 4200u);
  EXPECT_NE(text.find(std::string(2000, 'a') + "... (1003 bytes more)"), std::string::npos);
  // Not inside a character.
  d.message = std::string(1999, 'a') + "\u20ac" + "b";
  EXPECT_NE(to_text(d).find("\u20ac... (1 bytes more)"), std::string::npos) << to_text(d);
}

}  // namespace
}  // namespace eratos
