#include "eratos/reader/times.h"

#include <cstdio>
#include <fstream>

#include <gtest/gtest.h>

#include "eratos/text/json.h"
#include "expect.h"

namespace eratos::reader {
namespace {

// A file of that name with that text, gone at the end of the test.
class File {
 public:
  File(const std::string& name, const std::string& text) : path_(testing::TempDir() + name) {
    std::ofstream(path_) << text;
  }
  ~File() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string csv_faults(const std::string& text) {
  const File file("times.csv", text);
  std::string out = faults_of(read_times(file.path()));
  for (std::size_t at; (at = out.find(file.path())) != std::string::npos;) {
    out.replace(at, file.path().size(), "t.csv");
  }
  return out;
}

std::string faults_in(const std::string& text) { return faults_of(decode_times(yaml(text))); }

void expect_has(const std::string& all, const std::string& part) {
  EXPECT_NE(all.find(part), std::string::npos) << part << "\nis not in\n" << all;
}

TEST(Times, UnitsAtTheValueInTheKeyAndDeclared) {
  const Times a = good(decode_times(
      yaml("- {forward: 12.1ms, backward: 24 ms, send: 300us, held: 1.5GiB, kept: 512 MiB}\n")));
  ASSERT_EQ(a.stages.size(), 1U);
  EXPECT_EQ(a.stages[0].forward, 12'100'000'000);
  EXPECT_EQ(a.stages[0].backward, 24'000'000'000);
  EXPECT_EQ(a.stages[0].send_forward, 300'000'000);
  EXPECT_EQ(a.stages[0].send_backward, 300'000'000);
  EXPECT_EQ(a.stages[0].held, std::int64_t{3} << 29);
  EXPECT_EQ(a.stages[0].kept, std::int64_t{1} << 29);
  EXPECT_TRUE(a.bytes);
  EXPECT_TRUE(a.kept);
  EXPECT_TRUE(a.sends);
  EXPECT_FALSE(a.split);

  const Times b = good(decode_times(
      yaml("- {forward_ms: 12.1, backward_s: 0.024, send_us: 300, held_gib: 1.5, kept_mib: 512}")));
  EXPECT_EQ(b.stages[0].forward, a.stages[0].forward);
  EXPECT_EQ(b.stages[0].backward, a.stages[0].backward);
  EXPECT_EQ(b.stages[0].held, a.stages[0].held);
  EXPECT_EQ(b.stages[0].kept, a.stages[0].kept);

  const Times c = good(
      decode_times(yaml("time_unit: ms\nmemory_unit: GiB\nstages:\n"
                        "  - {forward: 12.1, backward: 24, send: 300us, held: 1.5, kept: 0.5}\n")));
  EXPECT_EQ(c.stages[0].forward, a.stages[0].forward);
  EXPECT_EQ(c.stages[0].send_forward, a.stages[0].send_forward);
  EXPECT_EQ(c.stages[0].kept, a.stages[0].kept);
}

TEST(Times, TheWholeBackwardIsTheSumOfItsHalvesUnlessStated) {
  const Times t = good(
      decode_times(yaml("- {forward: 1ms, input_gradient: 1ms, weight_gradient: 700us, held: 5B}\n"
                        "- {forward: 1ms, backward: 1.6ms, input_gradient: 1ms, weight_gradient: "
                        "700us, held: 5B}\n")));
  EXPECT_TRUE(t.split);
  EXPECT_EQ(t.stages[0].backward, 1'700'000'000);
  EXPECT_EQ(t.stages[1].backward, 1'600'000'000);
  EXPECT_FALSE(t.kept);
  EXPECT_EQ(t.stages[0].kept, 5);
}

TEST(Times, JsonAndCsvSayTheSame) {
  const File json(
      "times.json",
      R"([{"forward": "2ms", "backward_ms": 4e0}, {"forward": "3ms", "backward": "6ms"}])");
  const File csv("times.csv", "forward_ms,backward\n2,4ms\n3,6ms\n");
  const File other("times.yml",
                   "- {forward: 2ms, backward: 4ms}\n- {forward_ms: 3, backward: 6ms}\n");
  for (const File* file : {&json, &csv, &other}) {
    const Times t = good(read_times(file->path()), file->path());
    ASSERT_EQ(t.stages.size(), 2U);
    EXPECT_EQ(t.stages[0].forward, 2'000'000'000) << file->path();
    EXPECT_EQ(t.stages[0].backward, 4'000'000'000) << file->path();
    EXPECT_EQ(t.stages[1].backward, 6'000'000'000) << file->path();
    EXPECT_FALSE(t.bytes);
  }
}

TEST(Times, StagesMayStandInAnyOrder) {
  const Times t = good(decode_times(yaml(
      "- {stage: 1, forward: 2ms, backward: 2ms}\n- {stage: 0, forward: 1ms, backward: 1ms}\n")));
  EXPECT_EQ(t.stages[0].forward, 1'000'000'000);
  EXPECT_EQ(t.stages[1].forward, 2'000'000'000);
  EXPECT_EQ(t.ranks, 0);
}

TEST(Times, RanksAndChunksStandInTheModelAsThePlacementSays) {
  const std::string entries =
      "- {rank: 0, chunk: 0, forward: 1ms, backward: 1ms}\n"
      "- {rank: 0, chunk: 1, forward: 2ms, backward: 1ms}\n"
      "- {rank: 1, chunk: 0, forward: 3ms, backward: 1ms}\n"
      "- {rank: 1, chunk: 1, forward: 4ms, backward: 1ms}\n";
  const auto forwards = [](const Times& t) {
    std::vector<Picoseconds> out;
    for (const StageTimes& s : t.stages) out.push_back(s.forward / 1'000'000'000);
    return out;
  };
  const Times looped = good(decode_times(yaml(entries)));
  EXPECT_EQ(forwards(looped), (std::vector<Picoseconds>{1, 3, 2, 4}));
  EXPECT_EQ(looped.ranks, 2);
  const Times vee = good(decode_times(yaml("placement: vee\nstages:\n" + entries)));
  EXPECT_EQ(forwards(vee), (std::vector<Picoseconds>{1, 3, 4, 2}));
}

TEST(Times, AllFaultsAtOnceEachWithItsPlace) {
  const std::string all = faults_in(
      "- {forward: -1ms, backward: 2ms}\n"                               // 1
      "- {forward: .nan, backward: 2ms}\n"                               // 2
      "- {forwrad: 1ms, backward: 2ms}\n"                                // 3
      "- {forward: 1ms, backward: 2 weeks}\n"                            // 4
      "- {forward: 1ms, backward: 2}\n"                                  // 5
      "- {forward: 1ms, backward: 2e9s}\n"                               // 6
      "- {forward: 1ms}\n"                                               // 7
      "- {forward: 1ms, input_gradient: 1ms}\n"                          // 8
      "- {forward: 1ms, forward_ms: 1, backward: 1ms}\n"                 // 9
      "- {forward: 1ms, backward: 1ms, send: 1ms, send_forward: 1ms}\n"  // 10
      "- {forward_ms: 1s, backward: 1ms}\n"                              // 11
      "- 12\n"                                                           // 12
      "- {forward: [1ms], backward: 1ms}\n");                            // 13
  expect_has(all, "job.yaml:1:13: error: `stages.0.forward` is `-1ms`; it must be a finite number");
  expect_has(all, "job.yaml:2:13: error: `stages.1.forward` is `.nan`");
  expect_has(all, "job.yaml:3:4: error: unknown key `stages.2.forwrad`; did you mean `forward`?");
  expect_has(all, "`stages.2` has no `forward`");
  expect_has(all, "job.yaml:4:28: error: `stages.3.backward` has the unit `weeks`; known: s, ms");
  expect_has(all, "job.yaml:5:28: error: `stages.4.backward` is `2`, without a unit");
  expect_has(all,
             "job.yaml:6:28: error: `stages.5.backward` is `2e9s`, beyond what can be counted");
  expect_has(all, "job.yaml:7:3: error: `stages.6` has no `backward`; add it, or input_gradient");
  expect_has(all, "job.yaml:8:3: error: `stages.7` has no `weight_gradient`");
  expect_has(all, "job.yaml:9:18: error: `forward` is given twice");
  expect_has(all, "`stages.9` has `send` and one direction of it as well");
  expect_has(all, "`stages.10.forward_ms` is in ms, but its value says s");
  expect_has(all, "job.yaml:12:3: error: `stages.11` is the integer `12`");
  expect_has(all, "job.yaml:13:13: error: `stages.12.forward` must be a duration such as 12.1ms");
  expect_has(all, "`stages.8` has no `input_gradient`, others have");
}

TEST(Times, WhatSomeStagesHaveAllHave) {
  const std::string all =
      faults_in("- {forward: 1ms, backward: 1ms, held: 1GiB}\n- {forward: 1ms, backward: 1ms}\n");
  expect_has(all, "job.yaml:2:3: error: `stages.1` has no `held`, others have");
}

TEST(Times, KeptWithoutHeldIsOneFault) {
  const std::string all = faults_in(
      "- {forward: 1ms, backward: 1ms, held: 1GiB, kept: 1GiB}\n"
      "- {forward: 1ms, backward: 1ms, kept: 1GiB}\n");
  EXPECT_EQ(
      all,
      "job.yaml:2:3: error: `stages.1` has no `held`, others have; give it to all of them, or to "
      "none\n");
  expect_has(faults_in("- {forward: 1ms, backward: 1ms, kept: 1GiB}\n"),
             "job.yaml:1:3: error: stages have `kept` and no `held`; say both, or neither");
}

TEST(Times, NoTransferIsLeftOutWhereOthersAreStated) {
  const std::string middle = faults_in(
      "- {forward: 1ms, backward: 1ms, send: 1ms}\n- {forward: 1ms, backward: 1ms}\n"
      "- {forward: 1ms, backward: 1ms, send: 1ms}\n");
  expect_has(middle, "job.yaml:2:3: error: `stages.1` has no `send_forward`, other transfers");
  expect_has(middle, "job.yaml:2:3: error: `stages.1` has no `send_backward`, other transfers");
  // One direction alone would make the other free.
  expect_has(faults_in("- {forward: 1ms, backward: 1ms, send_forward: 1ms}\n"
                       "- {forward: 1ms, backward: 1ms, send_forward: 1ms}\n"),
             "job.yaml:2:3: error: `stages.1` has no `send_backward`, other transfers");
  // The ends of the model have one neighbour each.
  const Times ends =
      good(decode_times(yaml("- {stage: 1, forward: 1ms, backward: 1ms, send_backward: 2ms}\n"
                             "- {stage: 0, forward: 1ms, backward: 1ms, send_forward: 3ms}\n")));
  EXPECT_EQ(ends.stages[0].send_forward, 3'000'000'000);
  EXPECT_EQ(ends.stages[1].send_backward, 2'000'000'000);
}

TEST(Times, WhatPlacesAStageIsNotPassedOver) {
  expect_has(
      faults_in("- {forward: 1ms, backward: 1ms}\n- {stage: 1, forward: 1ms, backward: 1ms}\n"),
      "job.yaml:2:3: error: some entries have a `stage`, others have none");
  expect_has(faults_in("placement: vee\nstages: [{forward: 1ms, backward: 1ms}]\n"),
             "job.yaml:1:12: error: `placement` says nothing here: no entry has a rank");
}

TEST(Times, NoStageIsMissingOrThereTwice) {
  expect_has(faults_in("- {stage: 0, forward: 1ms, backward: 1ms}\n"
                       "- {stage: 0, forward: 1ms, backward: 1ms}\n"),
             "job.yaml:2:3: error: stage 0 is given twice");
  expect_has(faults_in("- {stage: 0, forward: 1ms, backward: 1ms}\n"
                       "- {stage: 2, forward: 1ms, backward: 1ms}\n"),
             "stage 2 of 2 stages; stages count from 0 without gaps");
  expect_has(faults_in("- {rank: 0, chunk: 0, forward: 1ms, backward: 1ms}\n"
                       "- {rank: 1, chunk: 1, forward: 1ms, backward: 1ms}\n"),
             "2 of 4 entries are missing: rank 1 chunk 0, rank 0 chunk 1");
  expect_has(faults_in("- {rank: 0, forward: 1ms, backward: 1ms}\n- {forward: 1ms, backward: 1ms}"),
             "some entries are told by rank and chunk, others are not");
  expect_has(faults_in("- {chunk: 0, forward: 1ms, backward: 1ms}\n"), "has a chunk and no rank");
  expect_has(faults_in("- {rank: -1, forward: 1ms, backward: 1ms}\n"), "`stages.0.rank` is -1");
  expect_has(faults_in("- {rank: 99999999, forward: 1ms, backward: 1ms}\n"), "is below 65536");
  expect_has(faults_in("[]\n"), "there are no stages");
  expect_has(faults_in("stagse: []\n"), "unknown key `stagse`; did you mean `stages`?");
  expect_has(faults_in("time_unit: weeks\nstages: [{forward: 1, backward: 1}]\n"),
             "`time_unit` is the string `weeks`; it is one of s, ms, us, ns or ps");
  expect_has(faults_in("placement: ring\nstages: [{forward: 1ms, backward: 1ms}]\n"),
             "it is looped or vee");
}

TEST(Times, FaultsOfACsvHaveLineAndColumn) {
  const std::string all = csv_faults(
      "forward_ms,backward_ms,heldd_gib\n"
      "10,20,1\n"
      "10,nan,1\n"
      "x,20,1\n"
      ",20,1\n");
  expect_has(all, "t.csv:1:24: error: unknown key `stages.0.heldd_gib`; did you mean `held_gib`?");
  expect_has(all, "t.csv:3:4: error: `stages.1.backward_ms` is `nan`");
  expect_has(all,
             "t.csv:4:1: error: `stages.2.forward_ms` is the string `x`, which is no duration");
  expect_has(all, "t.csv:5:1: error: `stages.3` has no `forward`");
  EXPECT_EQ(all.find("t.csv:2"), std::string::npos) << all;
  // Once for the column, not once for each row.
  EXPECT_EQ(all.find("heldd_gib"), all.rfind("stages.0.heldd_gib") + 9) << all;
}

TEST(Times, WordsWithUnits) {
  EXPECT_EQ(duration_of("12.1ms")->value, 12.1e-3);
  EXPECT_EQ(duration_of("3e-3 s")->value, 3e-3);
  EXPECT_EQ(size_of("1.5GiB")->value, 1.5 * kGiB);
  EXPECT_EQ(size_of("2 kB")->value, 2000);
  for (const char* word : {"", "ms", "12", "-1ms", "nanms", "1e999s", "1 week", "2e6s", "1GiB"}) {
    EXPECT_FALSE(duration_of(word).has_value()) << word;
  }
  for (const char* word : {"", "12", "-1B", "infGiB", "1e300B", "1ms"}) {
    EXPECT_FALSE(size_of(word).has_value()) << word;
  }
}

// Anything may be in a file: no input crashes, and a file that is cut somewhere is refused or read.
TEST(Times, MutilatedFilesAreRefusedOrRead) {
  const std::string text =
      "time_unit: ms\nplacement: vee\nstages:\n"
      "  - {rank: 0, chunk: 0, forward: 12.1, input_gradient: 1ms, weight_gradient: 2us, held: "
      "1B}\n"
      "  - {rank: 0, chunk: 1, forward_s: 1, input_gradient: 1ms, weight_gradient: 2us, held: "
      "1B}\n";
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string cut = text;
    cut.erase(i, 1);
    const auto tree = text::parse_yaml(cut, "job.yaml");
    if (!tree) continue;
    const auto read = decode_times(*tree);
    if (read) {
      EXPECT_EQ(read->stages.size(), 2U) << cut;
    } else {
      EXPECT_FALSE(read.error().empty());
    }
    const auto short_tree = text::parse_yaml(text.substr(0, i), "job.yaml");
    if (short_tree) (void)decode_times(*short_tree);
  }
}

}  // namespace
}  // namespace eratos::reader
