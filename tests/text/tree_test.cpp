#include "eratos/text/tree.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "eratos/text/yaml.h"
#include "support.h"

namespace eratos::text {
namespace {

Node yaml(const std::string& text, const std::string& file = "f.yaml") {
  auto root = parse_yaml(text, file);
  EXPECT_TRUE(root) << faults_of(root);
  return root ? *root : Node();
}

TEST(Tree, TypedAccessGivesTheValue) {
  const Node n = yaml("a: yes\nb: 0x10\nc: 1e-5\nd: 1.10\ne: \"8\"\nf: 3\n");
  EXPECT_EQ(n.find("a")->as_bool(), true);
  EXPECT_EQ(n.find("b")->as_int64(), 16);
  EXPECT_EQ(n.find("c")->as_double(), 1e-5);
  EXPECT_EQ(n.find("d")->as_string(), "1.10");
  EXPECT_EQ(n.find("e")->as_string(), "8");
  EXPECT_EQ(n.find("f")->as_double(), 3.0);
  EXPECT_EQ(n.find("c")->scalar_kind(), ScalarKind::string);
}

TEST(Tree, TypedAccessNamesPlaceValueAndCure) {
  const Node n =
      yaml("tp: \"8\"\nok: \"true\"\nx: [1]\ny:\nz: 99999999999999999999\nw: 1.0e+999\n");
  EXPECT_EQ(faults_of(n.find("tp")->as_int64("tp")),
            "f.yaml:1:5: error: `tp` must be an integer, found the string `8`; remove the quotes");
  EXPECT_EQ(faults_of(n.find("tp")->as_double("tp")),
            "f.yaml:1:5: error: `tp` must be a number, found the string `8`; remove the quotes");
  EXPECT_EQ(
      faults_of(n.find("ok")->as_bool("ok")),
      "f.yaml:2:5: error: `ok` must be a boolean, found the string `true`; remove the quotes");
  EXPECT_EQ(faults_of(n.find("x")->as_string("x")),
            "f.yaml:3:4: error: `x` must be a string, found a sequence; "
            "write a single word or a quoted text");
  EXPECT_EQ(faults_of(n.find("y")->as_int64("y")),
            "f.yaml:4:1: error: `y` must be an integer, found null; "
            "write a whole number such as 8");
  EXPECT_EQ(faults_of(n.find("z")->as_int64("z")),
            "f.yaml:5:4: error: `z` must be an integer of 64 bits, found the integer "
            "`99999999999999999999`; give a smaller value");
  EXPECT_EQ(faults_of(n.find("w")->as_double("w")),
            "f.yaml:6:4: error: `w` must be a number within double precision, found the number "
            "`1.0e+999`; give a smaller value");
  EXPECT_FALSE(Node::boolean(true).as_double());
  EXPECT_FALSE(Node::number(8.0).as_int64());
  EXPECT_FALSE(Node::plain("2001-12-14").as_double());
}

TEST(Tree, ExcerptStaysOnOneLineAndCutsBetweenCharacters) {
  EXPECT_EQ(excerpt("a\nb"), "a b");
  EXPECT_EQ(excerpt(std::string(60, 'x')), std::string(60, 'x'));
  EXPECT_EQ(excerpt(std::string(61, 'x')), std::string(60, 'x') + "...");
  EXPECT_EQ(excerpt(std::string(59, 'x') + "\xC3\xA9zz"), std::string(59, 'x') + "...");
}

TEST(Tree, NodesMadeInCodeReadLikeParsedOnes) {
  Node n = Node::mapping();
  n.set("b", Node::boolean(true));
  n.set("i", Node::integer(-5));
  n.set("d", Node::number(1e-5));
  n.set("s", Node::string("8"));
  n.set("p", Node::plain("8"));
  n.set("n", Node::plain("null"));
  n.set("l", Node::sequence({Node::integer(1), Node::null()}));
  EXPECT_TRUE(n == yaml("{b: yes, i: -5, d: 0.00001, s: '8', p: 8, n: ~, l: [1, null]}"));
  EXPECT_FALSE(n == yaml("{b: yes, i: -5, d: 0.00001, s: 8, p: 8, n: ~, l: [1, null]}"));
  n.set("i", Node::integer(6), Location{"--set i", 0, 0});
  EXPECT_EQ(n.find("i")->as_int64(), 6);
  EXPECT_EQ(n.entries()[1].key_location().file, "--set i");
  EXPECT_TRUE(n.erase("i"));
  EXPECT_FALSE(n.erase("i"));
  EXPECT_EQ(n.size(), 6u);
}

TEST(Tree, EqualityIgnoresPlaceOrderAndSpelling) {
  EXPECT_TRUE(yaml("a: 1\nb: [x, 1.50]") == yaml("\n\nb: ['x', 1.5]\na: 0x1"));
  EXPECT_FALSE(yaml("a: 1") == yaml("a: 1.0"));
  EXPECT_FALSE(yaml("a: 1") == yaml("a: '1'"));
  EXPECT_FALSE(yaml("a: 1") == yaml("b: 1"));
  EXPECT_FALSE(yaml("a: 1") == yaml("a: 1\nb: 2"));
  EXPECT_FALSE(yaml("[1, 2]") == yaml("[2, 1]"));
  EXPECT_FALSE(yaml("{}") == yaml("[]"));
  EXPECT_FALSE(yaml("a: ~") == yaml("a: ''"));
  EXPECT_TRUE(yaml(".nan") == yaml(".NaN"));
}

TEST(Tree, MergeGoesKeyByKeyAndReplacesTheRest) {
  const Node base = yaml("a: 1\nm:\n  x: 1\n  y: [1, 2]\n  z: {k: 1}\nn: 5\n", "base.yaml");
  const Node over = yaml("m:\n  y: [3]\n  z: 7\n  w: 8\nn: null\nq: 9\n", "over.yaml");
  const Node both = merge(base, over);
  EXPECT_TRUE(both == yaml("a: 1\nm: {x: 1, y: [3], z: 7, w: 8}\nn: null\nq: 9"));
  std::vector<std::string> keys;
  for (const Entry& e : both.entries()) keys.push_back(e.key);
  EXPECT_EQ(keys, (std::vector<std::string>{"a", "m", "n", "q"}));

  EXPECT_EQ(find_at(both, "m.x")->where().file, "base.yaml");
  EXPECT_EQ(find_at(both, "m.x")->where().line, 3);
  EXPECT_EQ(find_at(both, "m.y")->where().file, "over.yaml");
  EXPECT_EQ(find_at(both, "m.y")->where().line, 2);
  EXPECT_EQ(both.find_entry("n")->key_location().file, "over.yaml");
  EXPECT_TRUE(both.find("n")->is_null());

  EXPECT_TRUE(merge(yaml("a: 1"), yaml("[1]")) == yaml("[1]"));
  EXPECT_TRUE(merge(yaml("a: 1"), yaml("")).is_null());
}

TEST(Tree, MergeOfLargeMappingsIsFast) {
  Node base = Node::mapping();
  Node over = Node::mapping();
  for (int i = 0; i < 40000; ++i) {
    base.entries().push_back({"key" + std::to_string(i), {}, Node::integer(i)});
    over.entries().push_back({"key" + std::to_string(i + 20000), {}, Node::integer(-i)});
  }
  const StopWatch watch;
  const Node both = merge(base, over);
  EXPECT_LT(watch.seconds(), 1.0);
  EXPECT_EQ(both.size(), 60000u);
  EXPECT_EQ(both.entries()[20001].value.as_int64(), -1);
}

TEST(Tree, PathsAddressKeysAndItems) {
  Node root = yaml("parallel: {tp: 8}\nblocks: [{n: 1}, {n: 2}]\nempty:\n");
  EXPECT_EQ(find_at(root, "parallel.tp")->as_int64(), 8);
  EXPECT_EQ(find_at(root, "blocks.1.n")->as_int64(), 2);
  EXPECT_EQ(find_at(root, ""), &root);
  EXPECT_EQ(find_at(root, "blocks.2.n"), nullptr);
  EXPECT_EQ(find_at(root, "blocks.x"), nullptr);
  EXPECT_EQ(find_at(root, "parallel.tp.x"), nullptr);
  EXPECT_EQ(join_path(join_path("", "blocks"), std::size_t{1}), "blocks.1");

  EXPECT_TRUE(set_at(root, "parallel.tp", Node::integer(4)));
  EXPECT_TRUE(set_at(root, "blocks.0.n", Node::integer(7)));
  EXPECT_TRUE(set_at(root, "empty.a.b", Node::boolean(true)));
  EXPECT_TRUE(set_at(root, "new.c", Node::string("x")));
  EXPECT_TRUE(root == yaml("parallel: {tp: 4}\nblocks: [{n: 7}, {n: 2}]\nempty: {a: {b: true}}\n"
                           "new: {c: x}"));
  Node nothing;
  EXPECT_TRUE(set_at(nothing, "a.b", Node::integer(1)));
  EXPECT_TRUE(nothing == yaml("a: {b: 1}"));
}

TEST(Tree, SetAtSaysWhyItCannotAndChangesNothing) {
  Node root = yaml("parallel: {tp: 8}\nblocks: [1]\n");
  const Node before = root;
  const Location flag{"--set", 0, 0};
  EXPECT_EQ(faults_of(set_at(root, "parallel.tp.x", Node::integer(1, flag))),
            "--set: error: `parallel.tp.x`: `parallel.tp` is the integer `8`, not a mapping; "
            "name a key of a mapping");
  EXPECT_EQ(faults_of(set_at(root, "blocks.1", Node::integer(1, flag))),
            "--set: error: `blocks.1`: `blocks` has 1 items and no item `1`; count items from 0");
  for (const char* path : {"", ".", "a..b", ".a", "a."}) {
    EXPECT_FALSE(set_at(root, path, Node::integer(1))) << path;
  }
  EXPECT_TRUE(root == before);
}

TEST(Tree, LeavesComeInFileOrderWithTheirPaths) {
  std::string seen;
  for_each_leaf(yaml("b: 1\na: {x: [2, {y: 3}], e: {}, n: }\nl: []"),
                [&](const std::string& path, const Node& leaf) {
                  seen += path + "=" + leaf.describe() + "\n";
                });
  EXPECT_EQ(seen,
            "b=the integer `1`\na.x.0=the integer `2`\na.x.1.y=the integer `3`\na.e=a mapping\n"
            "a.n=null\nl=a sequence\n");
}

}  // namespace
}  // namespace eratos::text
