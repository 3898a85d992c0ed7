#include "eratos/text/toml.h"

#include <gtest/gtest.h>

#include <string>

#include "eratos/text/yaml.h"

namespace eratos::text {
namespace {

TEST(Toml, ValuesKnowTheirPlace) {
  const auto root = parse_toml(
      "# a comment\n[training]\nseq_len = 8_192  # tokens\nlr = 2.2e-4\n\n"
      "[quantize.linear.float8]\nfilter_fqns = [\"output\", \"router.gate\"]\nenable = true\n",
      "job.toml");
  ASSERT_TRUE(root.has_value());
  const Node* length = find_at(*root, "training.seq_len");
  ASSERT_NE(length, nullptr);
  EXPECT_EQ(length->as_int64().value(), 8192);
  EXPECT_EQ(length->where().line, 3);
  EXPECT_EQ(length->where().column, 11);
  EXPECT_EQ(length->where().file, "job.toml");
  EXPECT_DOUBLE_EQ(find_at(*root, "training.lr")->as_double().value(), 2.2e-4);
  EXPECT_EQ(find_at(*root, "quantize.linear.float8.filter_fqns")->items()[1].raw(), "router.gate");
  EXPECT_TRUE(find_at(*root, "quantize.linear.float8.enable")->as_bool().value());
}

TEST(Toml, KeysStandInTheOrderOfTheFile) {
  const auto root = parse_toml("zebra = 1\nape = 2\n", "job.toml");
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(root->entries()[0].key, "zebra");
  EXPECT_EQ(root->entries()[1].key, "ape");
  EXPECT_EQ(root->entries()[1].key_location().line, 2);
}

TEST(Toml, FaultsNameTheirPlace) {
  for (const char* bad : {"a = \n", "[x\n", "a = 1\na = 2\n", "a = 'b\n", "\x01"}) {
    const auto root = parse_toml(bad, "job.toml");
    ASSERT_FALSE(root.has_value()) << bad;
    EXPECT_EQ(root.error().front().where.file, "job.toml");
    EXPECT_GE(root.error().front().where.line, 1) << bad;
  }
}

TEST(Toml, LimitsHold) {
  std::string deep = "a = ";
  for (int i = 0; i < 240; ++i) deep += '[';
  for (int i = 0; i < 240; ++i) deep += ']';
  EXPECT_FALSE(parse_toml(deep, "job.toml").has_value());
  EXPECT_FALSE(parse_toml("a = 1\n", "job.toml", {.bytes = 3}).has_value());
  EXPECT_FALSE(parse_toml("a = [1, 2, 3]\n", "job.toml", {.nodes = 3}).has_value());
}

TEST(YamlLastKey, TheLastValueCountsAndBothLinesAreNamed) {
  Diagnostics repeated;
  const auto root = parse_yaml_last_key("a: 1\nb: 2\na: {c: 3}\n", "job.yaml", repeated);
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(find_at(*root, "a.c")->as_int64().value(), 3);
  EXPECT_EQ(root->size(), 2U);
  ASSERT_EQ(repeated.size(), 1U);
  EXPECT_EQ(repeated[0].message, "key `a` is given twice, at line 1 and line 3");
  EXPECT_FALSE(parse_yaml("a: 1\na: 2\n", "job.yaml").has_value());
}

}  // namespace
}  // namespace eratos::text
