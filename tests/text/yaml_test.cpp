#include "eratos/text/yaml.h"

#include <sys/resource.h>

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "eratos/text/dump.h"
#include "support.h"

namespace eratos::text {
namespace {

std::string json_of(const std::string& text) {
  const auto root = parse_yaml(text, "f.yaml");
  return root ? to_json(*root, 0) : faults_of(root);
}

std::string at(const Location& l) {
  return std::to_string(l.line) + ":" + std::to_string(l.column);
}

std::string repeated(const std::string& piece, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += piece;
  return all;
}

TEST(Yaml, EveryNodeKnowsItsLineAndColumn) {
  const auto root = parse_yaml(
      "# a comment\n"
      "parallel:\n"
      "  tp: 8   # tensor\n"
      "  \"pp\":  [1, two]\n"
      "note: |\n"
      "  text\n"
      "none:\n"
      "caf\xC3\xA9: x\n",
      "job.yaml");
  ASSERT_TRUE(root) << faults_of(root);
  EXPECT_EQ(root->where().file, "job.yaml");
  EXPECT_EQ(at(root->where()), "2:1");
  EXPECT_EQ(at(root->find_entry("parallel")->key_location()), "2:1");
  EXPECT_EQ(at(find_at(*root, "parallel")->where()), "3:3");
  EXPECT_EQ(at(find_at(*root, "parallel.tp")->where()), "3:7");
  EXPECT_EQ(at(find_at(*root, "parallel")->find_entry("pp")->key_location()), "4:3");
  EXPECT_EQ(at(find_at(*root, "parallel.pp")->where()), "4:10");
  EXPECT_EQ(at(find_at(*root, "parallel.pp.1")->where()), "4:14");
  EXPECT_EQ(at(find_at(*root, "note")->where()), "5:7");
  EXPECT_EQ(at(find_at(*root, "none")->where()), "7:1");         // nothing written: its key's place
  EXPECT_EQ(at(find_at(*root, "caf\xC3\xA9")->where()), "8:8");  // columns count bytes
}

TEST(Yaml, CrlfByteOrderMarkAndNoFinalLineFeed) {
  EXPECT_EQ(json_of("a:\r\n  b: 1\r\n  c: |\r\n    x\r\n    y\r\n"),
            R"({"a":{"b":1,"c":"x\ny\n"}})");
  const auto root = parse_yaml("a: 1\r\nb: [2,\r\n 3]\r\n", "f.yaml");
  ASSERT_TRUE(root);
  EXPECT_EQ(at(find_at(*root, "b.1")->where()), "3:2");
  EXPECT_EQ(json_of("\xEF\xBB\xBF"
                    "a: 1"),
            R"({"a":1})");
}

TEST(Yaml, EmptyDocumentsAreNull) {
  for (const char* text : {"", "\n", "# only a comment\n", "---\n", "---\n...\n"}) {
    EXPECT_EQ(json_of(text), "null") << text;
  }
}

TEST(Yaml, QuotesMakeStrings) {
  EXPECT_EQ(json_of(R"(a: "8"
b: '1.5'
c: "null"
d: ''
e: '""'
f: "x\ty"
g: 8
h: it's
i: 'it''s'
)"),
            R"({"a":"8","b":"1.5","c":"null","d":"","e":"\"\"","f":"x\ty","g":8,"h":"it's",)"
            R"("i":"it's"})");
  const auto root = parse_yaml("a: '8'\nb: 8", "f");
  EXPECT_TRUE(root->find("a")->is_quoted());
  EXPECT_FALSE(root->find("b")->is_quoted());
}

TEST(Yaml, PlainWordsFollowPyYaml) {
  EXPECT_EQ(json_of("[1e-5, 1.0e-5, 010, 0x10, yes, 1_000, 12:30, .5, \"8\", ~, off, y, 08]"),
            R"(["1e-5",1e-05,8,16,true,1000,750,0.5,"8",null,false,"y","08"])");
}

TEST(Yaml, TagsStateTheKindOrAreRefused) {
  EXPECT_EQ(json_of("[!!str 8, !!float 1, !!float 1e-5, !!int \"8\", !!bool 'yes', !!null ~, "
                    "!!seq [1], !!map {a: 1}]"),
            R"(["8",1.0,1e-05,8,true,null,[1],{"a":1}])");
  EXPECT_EQ(json_of("a: !!int x\n"),
            "f.yaml:1:4: error: tag `!!int` does not fit the value `x`; remove the tag");
  EXPECT_EQ(json_of("a: 1\nb: !env TP\n"),
            "f.yaml:2:4: error: tag `!env` does not fit the value `TP`; remove the tag");
  EXPECT_EQ(json_of("a: !!python/object:os.system {}\n"),
            "f.yaml:1:4: error: tag `!!python/object:os.system` is not understood here; "
            "remove the tag");
}

TEST(Yaml, DuplicateKeysNameBothLinesAllAtOnce) {
  EXPECT_EQ(json_of("tp: 1\npp: 2\ntp: 3\nmoe:\n  ep: 1\n  \"ep\": 2\npp: 4\n"),
            "f.yaml:6:3: error: key `ep` is given twice, at line 5 and line 6; keep one of them\n"
            "f.yaml:7:1: error: key `pp` is given twice, at line 2 and line 7; keep one of them\n"
            "f.yaml:3:1: error: key `tp` is given twice, at line 1 and line 3; keep one of them");
  EXPECT_EQ(json_of("{a: 1, b: {a: 1}}"), R"({"a":1,"b":{"a":1}})");
}

TEST(Yaml, AliasesCopyTheAnchoredValue) {
  EXPECT_EQ(json_of("a: &x {k: [1, 2]}\nb: *x\nc: [*x]\nd: &y word\ne: *y\n"),
            R"({"a":{"k":[1,2]},"b":{"k":[1,2]},"c":[{"k":[1,2]}],"d":"word","e":"word"})");
  EXPECT_EQ(json_of("a: &x 1\nb: &x 2\nc: *x\n"), R"({"a":1,"b":2,"c":2})");
  EXPECT_EQ(
      json_of("a: *missing\n"),
      "f.yaml:1:4: error: not valid YAML: the referenced anchor is not defined; define it with "
      "`&` earlier in the file, or quote a text that begins with `*`");
  EXPECT_EQ(
      json_of("a: &x [1, *x]\n"),
      "f.yaml:1:11: error: alias `*x` is inside the value it stands for; write the value out");
  const auto root = parse_yaml("a: &x {k: 1}\nb: *x\n", "f.yaml");
  EXPECT_EQ(at(find_at(*root, "b.k")->where()), "1:11");
}

TEST(Yaml, MergeKeysFollowPyYaml) {
  // Expected texts are json.dumps(yaml.safe_load(...)) of PyYAML 6.0, order of keys included.
  EXPECT_EQ(json_of("b: &b {x: 1, y: 2}\nz:\n  y: 3\n  <<: *b\n  w: 4\n"),
            R"({"b":{"x":1,"y":2},"z":{"x":1,"y":3,"w":4}})");
  EXPECT_EQ(json_of("a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {<<: [*a, *b], z: 9}\n"),
            R"({"a":{"x":1,"y":1},"b":{"y":2,"z":2},"c":{"y":1,"z":9,"x":1}})");
  EXPECT_EQ(json_of("a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b}\n"),
            R"({"a":{"x":1},"b":{"x":1,"y":2},"c":{"x":1,"y":2}})");
  EXPECT_EQ(json_of("a: {\"<<\": {x: 1}}\n"), R"({"a":{"<<":{"x":1}}})");
  EXPECT_EQ(json_of("a: {<<: 5}\n"),
            "f.yaml:1:9: error: `<<` merges mappings, found the integer `5`; "
            "give a mapping or a sequence of mappings");
  EXPECT_EQ(json_of("a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a\n"),
            "f.yaml:4:3: error: `<<` is given twice, at line 3 and line 4; "
            "list the sources: `<<: [*a, *b]`");
}

TEST(Yaml, SyntaxFaultsHavePlaceAndCure) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a: 1\nb:\n\tc: 2\n",
       "f.yaml:3:3: error: not valid YAML: illegal map value; "
       "indent with spaces: line 3 is indented with a tab"},
      {"a: b: c\n",
       "f.yaml:1:5: error: not valid YAML: illegal map value; "
       "quote a value that contains `: `, and check the indentation here"},
      {"a: [1, 2\nb: 3\n",
       "f.yaml:2:2: error: not valid YAML: end of sequence flow not found; "
       "close the `[` before this place with `]`"},
      {"a: @x\n",
       "f.yaml:1:4: error: not valid YAML: unknown token; "
       "quote a value that begins with a special character"},
      {"a: {b: 1}}\n",
       "f.yaml:1:10: error: not valid YAML: illegal flow end; correct the YAML here or just above"},
      {"a: 1\nb: \"x\nc: 3\n", "f.yaml:2:4: error: this quote is never closed; close it"},
      {"a: 1\nb: 'x''\n", "f.yaml:2:4: error: this quote is never closed; close it"},
      {"a: 1\nlast\n", "f.yaml:2:1: error: expected `:` after the key `last`; write `last: VALUE`"},
      {"a: [1, , 2]\n",
       "f.yaml:1:8: error: an item is missing before this comma; remove the comma"},
      {"? [a]\n: 1\n",
       "f.yaml:1:3: error: a key must be a single word, found a sequence; "
       "put a key before the colon"},
      {": 1\n",
       "f.yaml:1:1: error: a key must be a single word, found null; put a key before the colon"},
      {"a: 1\n---\nb: 2\n",
       "f.yaml:2:1: error: a second YAML document begins here; keep one document a file"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(json_of(text), expected) << text;
}

TEST(Yaml, WhatLooksUnfinishedButIsNot) {
  EXPECT_EQ(json_of("? a\n? b\n"), R"({"a":null,"b":null})");
  EXPECT_EQ(json_of("{a, b: 1}"), R"({"a":null,"b":1})");
  EXPECT_EQ(json_of("'k' : \n\"l\":"), R"({"k":null,"l":null})");
  EXPECT_EQ(json_of("&x k: \nb: '\"'\n"), R"({"k":null,"b":"\""})");
  EXPECT_EQ(json_of("caf\xC3\xA9:\nb: # c\n"), "{\"caf\xC3\xA9\":null,\"b\":null}");
  EXPECT_EQ(json_of("a: &x k\n*x :\n"), R"({"a":"k","k":null})");
}

TEST(Yaml, BinaryJunkIsRefusedWithItsOffset) {
  EXPECT_EQ(json_of(std::string("a: 1\nb: \0x\n", 11)),
            "f.yaml:2:4: error: not a text file: byte 0x00 at offset 8 is a control character; "
            "give a text file in UTF-8");
  EXPECT_EQ(json_of("a: \xFF\xFE"),
            "f.yaml:1:4: error: not a text file: byte 0xFF at offset 3 is not UTF-8; "
            "give a text file in UTF-8");
  EXPECT_EQ(json_of("a: \x1B[0m"),
            "f.yaml:1:4: error: not a text file: byte 0x1B at offset 3 is a control character; "
            "give a text file in UTF-8");
  EXPECT_EQ(json_of("a: \xC2\x90"),
            "f.yaml:1:4: error: not a text file: byte 0xC2 at offset 3 is a control character; "
            "give a text file in UTF-8");
  // Overlong, surrogate, beyond U+10FFFF, cut off.
  for (const char* bytes : {"\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82"}) {
    EXPECT_FALSE(parse_yaml(bytes, "f.yaml")) << bytes;
  }
}

// `levels` anchors, each a list of ten times the one before: 10^levels values.
std::string billion_laughs(int levels) {
  std::string text = "l0: &l0 [" + repeated("lol, ", 9) + "lol]\n";
  for (int i = 1; i < levels; ++i) {
    const std::string alias = "*l" + std::to_string(i - 1);
    text += "l" + std::to_string(i) + ": &l" + std::to_string(i) + " [" +
            repeated(alias + ", ", 9) + alias + "]\n";
  }
  return text;
}

TEST(Yaml, AliasBombsAreRefusedFastAndSmall) {
  const auto peak_kb = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = peak_kb();
  const StopWatch watch;
  EXPECT_EQ(json_of(billion_laughs(9)),
            "f.yaml:5:5: error: more than 200000 values with aliases expanded; "
            "is this an alias bomb? write the values out");
  // Few values, much text: 900 kB behind one alias, fifty times.
  EXPECT_EQ(json_of("a: &a " + std::string(900'000, 'x') + "\nb: [" + repeated("*a, ", 50) + "]\n"),
            "f.yaml:2:65: error: more than 16000000 bytes of text with aliases expanded; "
            "is this an alias bomb? write the values out");
  // Anchors inside one another: every level is kept.
  std::string nested = "[" + repeated("x, ", 5000) + "]";
  for (int i = 0; i < 150; ++i) nested = "[&a" + std::to_string(i) + " " + nested + "]";
  EXPECT_FALSE(parse_yaml(nested, "f.yaml"));
  EXPECT_LT(watch.seconds(), 1.0);
  EXPECT_LT(peak_kb() - before, 300'000);

  EXPECT_TRUE(parse_yaml(billion_laughs(4), "f.yaml"));
}

TEST(Yaml, DeepNestingIsRefusedBeforeTheStackIsUsedUp) {
  const StopWatch watch;
  for (const std::string piece : {"[", "{a: ", "- ", "? ", "[\n"}) {
    const auto root = parse_yaml(repeated(piece, 100'000), "f.yaml");
    ASSERT_FALSE(root);
    EXPECT_NE(faults_of(root).find("nested more than 200 levels deep"), std::string::npos)
        << piece << faults_of(root);
  }
  EXPECT_LT(watch.seconds(), 2.0);
  EXPECT_TRUE(parse_yaml(repeated("[", 200) + repeated("]", 200), "f.yaml"));
  EXPECT_FALSE(parse_yaml(repeated("[", 201) + repeated("]", 201), "f.yaml"));
}

TEST(Yaml, OneMegabyteIsTheLimitAndAnswersWithinASecond) {
  EXPECT_EQ(
      json_of(std::string(1'000'001, ' ')),
      "f.yaml: error: too large: 1000001 bytes, the limit is 1000000; is this the right file?");
  EXPECT_EQ(json_of(std::string(1'000'000, '\n')), "null");
  for (const std::string piece : {"[a, ", "- a\n", "key: v\n", "&a ", "a b ", "{x, ", "!", "%a b\n",
                                  "\"", "'a' ", "a:\tb\n", "? a\n", "*a ", "#\n", "|\n", "---\n"}) {
    const StopWatch watch;
    const auto root = parse_yaml(repeated(piece, 1'000'000 / piece.size()), "f.yaml");
    EXPECT_LT(watch.seconds(), 1.0) << piece;
  }
}

TEST(Yaml, FilesThatCannotBeReadSayWhy) {
  const Scratch scratch;
  EXPECT_EQ(faults_of(parse_yaml_file(scratch.path("no.yaml"))),
            scratch.path("no.yaml") + ": error: no such file; check the path");
  EXPECT_EQ(faults_of(parse_yaml_file(scratch.path(""))),
            scratch.path("") + ": error: is a folder; name a file inside it");
}

}  // namespace
}  // namespace eratos::text
