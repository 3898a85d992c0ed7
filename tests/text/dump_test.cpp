#include "eratos/text/dump.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "eratos/base/rng.h"
#include "eratos/text/json.h"
#include "eratos/text/yaml.h"
#include "support.h"

namespace eratos::text {
namespace {

TEST(Dump, CanonicalYaml) {
  const auto root = parse_yaml(
      "model: llama3.1-70b\n"
      "parallel: {tp: 0x8, layout: null, empty: {}, none: []}\n"
      "list: [1, [2, 3], {a: yes, b: 1.50}, []]\n"
      "'odd key: ': \"8\"\n"
      "lr: 1e-5\n"
      "eps: 1.0e-5\n"
      "text: \"a\\nb \\\"q\\\"\"\n"
      "on: 'yes'\n",
      "f.yaml");
  ASSERT_TRUE(root) << faults_of(root);
  EXPECT_EQ(to_yaml(*root),
            "model: llama3.1-70b\n"
            "parallel:\n"
            "  tp: 8\n"
            "  layout: null\n"
            "  empty: {}\n"
            "  none: []\n"
            "list:\n"
            "  - 1\n"
            "  - - 2\n"
            "    - 3\n"
            "  - a: true\n"
            "    b: 1.5\n"
            "  - []\n"
            "\"odd key: \": \"8\"\n"
            "lr: 1e-5\n"
            "eps: 1.0e-05\n"
            "text: \"a\\nb \\\"q\\\"\"\n"
            "\"on\": \"yes\"\n");
  EXPECT_EQ(to_yaml(Node()), "null\n");
  EXPECT_EQ(to_yaml(Node::mapping()), "{}\n");
  EXPECT_EQ(to_yaml(Node::string("")), "\"\"\n");
}

TEST(Dump, CanonicalJson) {
  const auto root = parse_yaml("a: [1, 0.5, x]\nb: {}\nc: {d: ~, e: 2001-12-14}\nf: .inf\n", "f");
  ASSERT_TRUE(root);
  EXPECT_EQ(to_json(*root, 0),
            R"({"a":[1,0.5,"x"],"b":{},"c":{"d":null,"e":"2001-12-14"},"f":null})");
  EXPECT_EQ(to_json(*root),
            "{\n"
            "  \"a\": [\n"
            "    1,\n"
            "    0.5,\n"
            "    \"x\"\n"
            "  ],\n"
            "  \"b\": {},\n"
            "  \"c\": {\n"
            "    \"d\": null,\n"
            "    \"e\": \"2001-12-14\"\n"
            "  },\n"
            "  \"f\": null\n"
            "}");
}

TEST(Dump, JsonEscapes) {
  EXPECT_EQ(json_quoted("a\"b\\c\n\r\t\x01\x7F/"), "\"a\\\"b\\\\c\\n\\r\\t\\u0001\\u007f/\"");
  EXPECT_EQ(json_quoted("\xC3\xA9"), "\"\xC3\xA9\"");
  EXPECT_EQ(json_quoted("x\xFFy"), "\"x\xEF\xBF\xBDy\"");
  EXPECT_EQ(json_quoted(std::string_view("\0", 1)), "\"\\u0000\"");
}

std::string random_text(Rng& rng) {
  static const std::vector<std::string> kPieces = {"a",
                                                   "B",
                                                   "8",
                                                   "0",
                                                   "-",
                                                   "+",
                                                   ".",
                                                   "e",
                                                   ":",
                                                   ": ",
                                                   "#",
                                                   " #",
                                                   "'",
                                                   "\"",
                                                   "\\",
                                                   "\n",
                                                   "\r",
                                                   "\t",
                                                   " ",
                                                   "{",
                                                   "}",
                                                   "[",
                                                   "]",
                                                   ",",
                                                   "&",
                                                   "*",
                                                   "!",
                                                   "|",
                                                   ">",
                                                   "%",
                                                   "@",
                                                   "`",
                                                   "~",
                                                   "?",
                                                   "? ",
                                                   "- ",
                                                   "null",
                                                   "yes",
                                                   "<<",
                                                   "=",
                                                   "_",
                                                   "/",
                                                   "---",
                                                   "...",
                                                   "\xC3\xA9",
                                                   "\xE2\x80\xA8",
                                                   "\xC2\x85",
                                                   "\xF0\x9F\x98\x80",
                                                   std::string("\0", 1),
                                                   "\x01",
                                                   "\x7F",
                                                   "\xEF\xBB\xBF",
                                                   "0x1",
                                                   "1e-5",
                                                   "12:30",
                                                   "2001-12-14"};
  std::string text;
  for (std::uint64_t n = rng.below(5); n > 0; --n) text += kPieces[rng.below(kPieces.size())];
  return text;
}

Node random_node(Rng& rng, int depth) {
  switch (rng.below(depth > 0 ? 8 : 6)) {
    case 0:
      return Node::null();
    case 1:
      return Node::boolean(rng.below(2) == 0);
    case 2:
      return Node::integer(static_cast<std::int64_t>(rng.next()) >> rng.below(64));
    case 3:
      return Node::number((rng.uniform() - 0.5) * (rng.below(2) == 0 ? 1e-12 : 1e12));
    case 4:
    case 5:
      return Node::string(random_text(rng));
    case 6: {
      Node list = Node::sequence();
      for (std::uint64_t n = rng.below(4); n > 0; --n) list.append(random_node(rng, depth - 1));
      return list;
    }
    default: {
      Node map = Node::mapping();
      for (std::uint64_t n = rng.below(4); n > 0; --n) {
        map.set(random_text(rng), random_node(rng, depth - 1));
      }
      return map;
    }
  }
}

TEST(Dump, ReadsBackEqual) {
  Rng rng(20260101);
  for (int i = 0; i < 4000; ++i) {
    const Node tree = random_node(rng, 4);
    const std::string yaml = to_yaml(tree);
    const auto from_yaml = parse_yaml(yaml, "dump.yaml");
    ASSERT_TRUE(from_yaml) << faults_of(from_yaml) << "\n" << yaml;
    ASSERT_TRUE(*from_yaml == tree) << yaml;
    ASSERT_EQ(to_yaml(*from_yaml), yaml);
    const std::string json = to_json(tree, i % 2 == 0 ? 2 : 0);
    const auto from_json = parse_json(json, "dump.json");
    ASSERT_TRUE(from_json) << faults_of(from_json) << "\n" << json;
    ASSERT_TRUE(*from_json == tree) << json;
  }
}

TEST(Dump, LongKeysReadBack) {
  Node map = Node::mapping();
  map.set(std::string(3000, 'k'), Node::integer(1));
  Node inner = Node::mapping();
  inner.set("x", Node::sequence({Node::integer(1)}));
  map.set(std::string(3000, 'm'), inner);
  const auto again = parse_yaml(to_yaml(map), "dump.yaml");
  ASSERT_TRUE(again) << faults_of(again);
  EXPECT_TRUE(*again == map);
}

}  // namespace
}  // namespace eratos::text
