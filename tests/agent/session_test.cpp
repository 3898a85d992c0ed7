// One door to the oracles: what is filtered, what is repeated, what is charged, what survives.
#include "eratos/agent/session.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include "../search/jobs.h"
#include "bench_workshop.h"
#include "eratos/agent/records.h"
#include "eratos/agent/scripted.h"
#include "eratos/agent/seeds.h"
#include "eratos/text/dump.h"

namespace eratos::agent {
namespace {

namespace fs = std::filesystem;

job::JobSpec small() { return search::job_of("llama3.1-8b", "h100-sxm-2x8", 64); }

std::array<Budget, kFidelities> budgets(int measurements) {
  std::array<Budget, kFidelities> out;
  out[static_cast<std::size_t>(Fidelity::measure)].most = measurements;
  return out;
}

struct Bench {
  explicit Bench(int measurements = 2, const std::string& folder = "")
      : workshop(small(), 0.05),
        space(*workshop.space_of(
            {"rest=job", "tp=1,2,4,8", "pp=1,2,4", "mbs=1,2", "recompute=none,full"})),
        session((open(folder), workshop), space, budgets(measurements), records) {}
  void open(const std::string& folder) {
    if (folder.empty()) return;
    const Result<void> done = records.open(folder, Folder::resume, text::Node::mapping());
    EXPECT_TRUE(done);
  }
  BenchWorkshop workshop;
  search::Space space;
  Records records;
  Session session;
};

class Scratch {
 public:
  Scratch() : path_(fs::temp_directory_path() / ("eratos_session_" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
  }
  ~Scratch() { fs::remove_all(path_); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

TEST(Session, TheHeadersExample) {
  Bench b(8);
  const Patch p{"parallel.tp=2"};
  const Patch too_big{"batch.micro=4"};
  EXPECT_EQ(b.session.evaluate(p, Fidelity::measure, "t", "r").how, Answered::paid);
  EXPECT_EQ(b.workshop.measurements, 1);
  EXPECT_EQ(b.session.evaluate(p, Fidelity::measure, "t", "r").how, Answered::repeated);
  EXPECT_EQ(b.session.evaluate(p, Fidelity::simulate, "t", "r").how, Answered::repeated);
  EXPECT_EQ(b.workshop.measurements, 1);
  const Evaluation e = b.session.evaluate(too_big, Fidelity::measure, "t", "r");
  EXPECT_EQ(e.how, Answered::filtered);
  EXPECT_EQ(e.trial->verdict, Verdict::too_big);
  EXPECT_EQ(e.trial->fidelity, Fidelity::memory);
  EXPECT_EQ(b.workshop.measurements, 1);
  EXPECT_EQ(b.session.budget(Fidelity::measure).spent, 1);
  EXPECT_EQ(b.session.repeated_proposals(), 2);
}

TEST(Session, AMemoryTrialNeverBlocksWhatIsDearer) {
  Bench b;
  const Patch p{"parallel.tp=2"};
  EXPECT_EQ(b.session.evaluate(p, Fidelity::memory, "t", "r").how, Answered::paid);
  EXPECT_EQ(b.session.evaluate(p, Fidelity::simulate, "t", "r").how, Answered::paid);
  EXPECT_EQ(b.session.evaluate(p, Fidelity::measure, "t", "r").how, Answered::paid);
  EXPECT_EQ(b.session.trials().size(), 3U);
  EXPECT_EQ(b.session.known(b.session.trial(1)->digest)->number, 3);
  EXPECT_EQ(b.session.best(true)->number, 3);
}

TEST(Session, OrderAndIdleWordsOfAPatchDoNotMatter) {
  Bench b;
  const Evaluation one =
      b.session.evaluate({"parallel.tp=2", "batch.micro=1"}, Fidelity::simulate, "t", "r");
  const Evaluation two = b.session.evaluate({"parallel.tp=2"}, Fidelity::simulate, "t", "r");
  EXPECT_EQ(two.how, Answered::repeated);
  EXPECT_EQ(one.trial, two.trial);
}

TEST(Session, IllegalPatchesGetEveryFaultAndCostNothingElse) {
  Bench b;
  const Evaluation e =
      b.session.evaluate({"parallel.tp=3", "parallel.qq=1"}, Fidelity::measure, "t", "r");
  EXPECT_EQ(e.how, Answered::filtered);
  EXPECT_EQ(e.trial->verdict, Verdict::illegal);
  EXPECT_FALSE(e.trial->why.empty());
  EXPECT_EQ(b.session.illegal_proposals(), 1);
  EXPECT_EQ(b.session.budget(Fidelity::measure).spent, 0);
  EXPECT_EQ(b.session.best(), nullptr);
}

TEST(Session, BudgetsAndMissingDevicesAreSaid) {
  Bench b(1);
  b.session.evaluate({}, Fidelity::measure, "t", "r");
  const Evaluation spent = b.session.evaluate({"parallel.tp=2"}, Fidelity::measure, "t", "r");
  EXPECT_EQ(spent.how, Answered::no_budget);
  EXPECT_EQ(spent.trial, nullptr);
  Bench off(0);
  EXPECT_NE(off.session.evaluate({}, Fidelity::measure, "t", "r").message.find("off"),
            std::string::npos);
  Bench none(3);
  none.workshop.measures = false;
  EXPECT_EQ(none.session.evaluate({}, Fidelity::measure, "t", "r").how, Answered::no_oracle);
}

TEST(Session, ARunWaitsForItsLogAndIsChargedOnce) {
  BenchWorkshop workshop(small(), 0.05);
  workshop.runs = true;
  std::array<Budget, kFidelities> all = budgets(0);
  all[static_cast<std::size_t>(Fidelity::run)].most = 1;
  Records records;
  Session session(workshop, *workshop.space_of({"rest=job"}), all, records);
  const Evaluation waits = session.evaluate({}, Fidelity::run, "t", "r");
  EXPECT_EQ(waits.how, Answered::waits);
  EXPECT_EQ(session.budget(Fidelity::run).spent, 0);
  EXPECT_TRUE(session.trials().empty());
  workshop.logged = true;
  EXPECT_EQ(session.evaluate({}, Fidelity::run, "t", "r").how, Answered::paid);
  EXPECT_EQ(session.budget(Fidelity::run).spent, 1);
  ASSERT_TRUE(session.best(true)->measured);
}

TEST(Session, WhatIsRememberedIsFree) {
  Bench b(1);
  const std::string digest =
      b.session.evaluate({"parallel.tp=2"}, Fidelity::simulate, "t", "r").trial->digest;
  Measured m;
  m.step_s = 3;
  m.tokens_per_s_per_gpu = 100;
  b.records.remember(digest, m);
  const Evaluation e = b.session.evaluate({"parallel.tp=2"}, Fidelity::measure, "t", "r");
  ASSERT_NE(e.trial, nullptr);
  EXPECT_EQ(e.trial->measured->step_s, 3);
  EXPECT_EQ(b.session.budget(Fidelity::measure).spent, 0);
  EXPECT_EQ(b.workshop.measurements, 0);
}

TEST(Records, ATrialIsTheSameWhenReadBack) {
  Bench b;
  const Trial* t =
      b.session.evaluate({"parallel.tp=2"}, Fidelity::measure, "t", "why\n\"x\"").trial;
  const Result<Trial> back = trial_of(node_of(*t));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, *t);
}

TEST(Records, WhatWasPaidIsNeverPaidAgain) {
  const Scratch scratch;
  std::string trials;
  {
    Bench b(4, scratch.path());
    b.session.evaluate({}, Fidelity::simulate, "t", "r");
    b.session.evaluate({"parallel.tp=2"}, Fidelity::measure, "t", "r");
    b.session.note("a note");
    std::ifstream file(scratch.path() + "/trials.jsonl");
    trials.assign(std::istreambuf_iterator<char>(file), {});
  }
  {
    // Torn in the middle of the second line; its payment is whole.
    fs::resize_file(scratch.path() + "/trials.jsonl", trials.size() - 7);
    Bench b(4, scratch.path());
    EXPECT_EQ(b.records.resumed(), 1U);
    b.session.evaluate({}, Fidelity::simulate, "t", "r");
    const Evaluation e = b.session.evaluate({"parallel.tp=2"}, Fidelity::measure, "t", "r");
    EXPECT_EQ(e.how, Answered::paid);
    EXPECT_EQ(b.workshop.measurements, 0);
    EXPECT_EQ(b.session.budget(Fidelity::measure).spent, 1);
    std::ifstream file(scratch.path() + "/trials.jsonl");
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), trials);
  }
  {
    // Other steps than before: the rest of the trials goes, the measurement stays.
    Bench b(4, scratch.path());
    b.session.evaluate({"parallel.tp=4"}, Fidelity::simulate, "t", "r");
    b.session.evaluate({"parallel.tp=2"}, Fidelity::measure, "t", "r");
    EXPECT_EQ(b.workshop.measurements, 0);
  }
}

TEST(Records, OneFolderHasOneRunAndOneProcess) {
  const Scratch scratch;
  text::Node asked = text::Node::mapping();
  asked.set("seed_budget", text::Node::integer(3));
  Records first;
  ASSERT_TRUE(first.open(scratch.path(), Folder::fresh, asked));
  Records second;
  EXPECT_FALSE(second.open(scratch.path(), Folder::resume, asked));  // in use
  Records fresh;
  EXPECT_FALSE(fresh.open(scratch.path(), Folder::fresh, asked));
  text::Node other = text::Node::mapping();
  other.set("seed_budget", text::Node::integer(4));
  Records differs;
  const Result<void> bad = differs.open(scratch.path(), Folder::resume, other);
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error()[0].message.find("seed_budget"), std::string::npos);
}

TEST(Seeds, PlantTheProvenOptimumAndTheAxesByWhatTheyGain) {
  Bench b;
  const Seeds seeds = plant_seeds(b.session, 6);
  ASSERT_TRUE(seeds.outcome.proof.proven);
  EXPECT_LE(seeds.trials, 6);
  ASSERT_NE(b.session.best(), nullptr);
  const double optimum = 1 / (seeds.outcome.top[0].per_token * small().cluster.gpus());
  EXPECT_NEAR(b.session.best()->projected.tokens_per_s_per_gpu.value, optimum, 1e-6 * optimum);
  EXPECT_TRUE(b.session.trial(1)->patch.empty());
  // Whatever is asked for, the optimum is there.
  Bench one;
  plant_seeds(one.session, 1);
  EXPECT_NEAR(one.session.best()->projected.tokens_per_s_per_gpu.value, optimum, 1e-6 * optimum);
  Bench none;
  EXPECT_FALSE(plant_seeds(none.session, 0).searched);
  EXPECT_EQ(none.session.trials().size(), 1U);
}

TEST(Scripted, BettersAPoorStartByFreeingWhatBinds) {
  job::JobSpec poor = small();
  poor.parallel.tp = 8;
  poor.parallel.sequence_parallel = true;
  poor.recompute.granularity = job::Granularity::full;
  BenchWorkshop workshop(poor, 0.05);
  Records records;
  Session session(workshop, *workshop.space_of({"tp=8"}), budgets(0), records);
  const double before = session.evaluate({}, Fidelity::simulate, "t", "r")
                            .trial->projected.tokens_per_s_per_gpu.value;
  const Investigated i = investigate(session, {.rounds = 4, .simulations = 8, .proposals = 8});
  EXPECT_GT(session.best()->projected.tokens_per_s_per_gpu.value, before);
  EXPECT_FALSE(i.found.empty());
  EXPECT_LE(i.trials, 8);
  EXPECT_FALSE(session.notes().empty());
  // An axis that the user named stays the user's.
  for (const auto& t : session.trials()) {
    for (const std::string& set : t->patch) EXPECT_EQ(set.find("parallel.tp="), std::string::npos);
  }
}

}  // namespace
}  // namespace eratos::agent
