#include "eratos/text/json.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "eratos/text/dump.h"
#include "eratos/text/file.h"
#include "eratos/text/yaml.h"
#include "support.h"

namespace eratos::text {
namespace {

std::string json_of(const std::string& text) {
  const auto root = parse_json(text, "c.json");
  return root ? to_json(*root, 0) : faults_of(root);
}

TEST(Json, GivesTheTreeThatYamlGives) {
  const std::string text = R"({
  "model_type": "llama",
  "hidden_size": 4096,
  "rms_norm_eps": 1.0e-05,
  "tie": false, "scaling": null,
  "arch": ["A", {"b": []}, {}]
}
)";
  const auto json = parse_json(text, "c.json");
  const auto yaml = parse_yaml(text, "c.json");
  ASSERT_TRUE(json) << faults_of(json);
  ASSERT_TRUE(yaml) << faults_of(yaml);
  EXPECT_TRUE(*json == *yaml);
  for (const char* path : {"hidden_size", "tie", "scaling", "arch.1.b", "arch.2", ""}) {
    const Location a = find_at(*json, path)->where();
    const Location b = find_at(*yaml, path)->where();
    EXPECT_EQ(std::pair(a.line, a.column), std::pair(b.line, b.column)) << path;
  }
  EXPECT_EQ(json->find_entry("tie")->key_location().line, 5);
  EXPECT_EQ(json->find_entry("tie")->key_location().column, 3);
}

TEST(Json, NumbersAreIntegersUnlessTheyHaveAPointOrAnExponent) {
  EXPECT_EQ(json_of("[0, -0, 12, 1e5, 1e-5, 1E+2, 1.5, -2.5e-3]"),
            "[0,0,12,1e+05,1e-05,100.0,1.5,-0.0025]");
  const auto root = parse_json("[1e-5, 7]", "c.json");
  EXPECT_EQ(root->items()[0].scalar_kind(), ScalarKind::floating);
  EXPECT_EQ(root->items()[0].as_double(), 1e-5);
  EXPECT_EQ(root->items()[1].as_int64(), 7);
}

TEST(Json, StringsResolveEscapes) {
  const auto root =
      parse_json(R"(["a\"b\\\/\b\f\n\r\t", "\u0041\u00e9\u20AC", "\ud83d\ude00"])", "c");
  ASSERT_TRUE(root) << faults_of(root);
  EXPECT_EQ(root->items()[0].raw(), "a\"b\\/\b\f\n\r\t");
  EXPECT_EQ(root->items()[1].raw(), "A\xC3\xA9\xE2\x82\xAC");
  EXPECT_EQ(root->items()[2].raw(), "\xF0\x9F\x98\x80");
  EXPECT_TRUE(root->items()[0].is_quoted());
}

TEST(Json, FaultsSayWhatWasExpectedWhere) {
  const std::string invalid = "not valid JSON: expected ";
  const std::string cure = "; correct the JSON here";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "1:1: error: " + invalid + "a value, found the end of the file" + cure},
      {"{\"a\": 1,}", "1:9: error: " + invalid + "a key in double quotes, found `}`" + cure},
      {"{\"a\" 1}", "1:6: error: " + invalid + "`:` after the key `a`, found `1`" + cure},
      {"{\n  \"a\": 1\n  \"b\": 2}", "3:3: error: " + invalid + "`,` or `}`, found `\"`" + cure},
      {"[1 2]", "1:4: error: " + invalid + "`,` or `]`, found `2`" + cure},
      {"[1,]", "1:4: error: " + invalid + "a value, found `]`" + cure},
      {"{'a': 1}", "1:2: error: " + invalid + "a key in double quotes, found `'`" + cure},
      {"[NaN]", "1:2: error: " + invalid + "a value, found `N`" + cure},
      {"[010]",
       "1:3: error: " + invalid + "no digit after a leading zero, found `1`; remove the zero"},
      {"[1.]", "1:4: error: " + invalid + "a digit, found `]`" + cure},
      {"[-]", "1:3: error: " + invalid + "a digit, found `]`" + cure},
      {"[1e]", "1:4: error: " + invalid + "a digit, found `]`" + cure},
      {"{} x",
       "1:4: error: " + invalid + "one value and then the end of the file, found `x`" + cure},
      {"[\"a",
       "1:4: error: " + invalid + "`\"` to end the string, found the end of the file" + cure},
      {"[\"a\nb\"]",
       "1:4: error: not valid JSON: a line break or tab inside a string; "
       "end the string with `\"` or write \\n or \\t"},
      {"[\"\\x\"]", "1:4: error: " + invalid + "an escape such as \\n, found `x`" + cure},
      {"[\"\\u12g4\"]",
       "1:7: error: " + invalid + "four hexadecimal digits after \\u, found `g`" + cure},
      {"[\"\\ud800\"]",
       "1:9: error: " + invalid + "the second half of a surrogate pair, found `\"`" + cure},
      {"[// no\n1]", "1:2: error: " + invalid + "a value, found `/`" + cure},
      {"{\"a\": 1,\n \"a\": 2}",
       "2:2: error: key `a` is given twice, at line 1 and line 2; keep one of them"},
      {"[\xC3\xA9]", "1:2: error: " + invalid + "a value, found `\xC3\xA9`" + cure},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(json_of(text), "c.json:" + expected) << text;
}

TEST(Json, IsBounded) {
  const StopWatch watch;
  EXPECT_EQ(json_of(std::string(100'000, '[')),
            "c.json:1:201: error: nested more than 200 levels deep; write a flatter file");
  EXPECT_EQ(
      json_of(std::string(1'000'001, ' ')),
      "c.json: error: too large: 1000001 bytes, the limit is 1000000; is this the right file?");
  std::string many = "[";
  for (int i = 0; i < 300'000; ++i) many += "1,";
  EXPECT_EQ(json_of(many), "c.json:1:400000: error: more than 200000 values; write a smaller file");
  EXPECT_EQ(json_of(std::string("[\"\0\"]", 5)),
            "c.json:1:3: error: not a text file: byte 0x00 at offset 2 is a control character; "
            "give a text file in UTF-8");
  EXPECT_LT(watch.seconds(), 1.0);
}

TEST(Json, ConfigFilesAreReadByTheirName) {
  const Scratch scratch;
  ASSERT_TRUE(write_file(scratch.path("a.json"), "{\"a\": 1e-5}"));
  ASSERT_TRUE(write_file(scratch.path("a.yaml"), "a: 1e-5"));
  EXPECT_EQ(parse_config_file(scratch.path("a.json"))->find("a")->scalar_kind(),
            ScalarKind::floating);
  EXPECT_EQ(parse_config_file(scratch.path("a.yaml"))->find("a")->scalar_kind(),
            ScalarKind::string);
  EXPECT_EQ(faults_of(parse_config_file(scratch.path("b.json"))),
            scratch.path("b.json") + ": error: no such file; did you mean `a.json`?");
}

}  // namespace
}  // namespace eratos::text
