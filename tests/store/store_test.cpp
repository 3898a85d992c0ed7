// A file of answers: what was kept is found again to the bit, and what is wrong with a file is
// said.
#include "eratos/store/store.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "eratos/base/rng.h"
#include "eratos/calibration/calibration.h"
#include "eratos/reader/catalogue.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/exhaustive.h"
#include "eratos/search/space.h"
#include "eratos/store/model.h"
#include "eratos/store/stored_answers.h"
#include "eratos/store/tells.h"
#include "search/jobs.h"

namespace eratos::store {
namespace {

namespace fs = std::filesystem;

bool equal(const search::Tell& a, const search::Tell& b) {
  return a.fits == b.fits && a.least_peak == b.least_peak && a.device_peak == b.device_peak &&
         a.figure == b.figure && a.busy == b.busy && a.per_token == b.per_token &&
         a.along == b.along;
}

class StoreFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "eratos_store_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    file_ = (folder_ / "a.db").string();
    const auto first = Store::open(file_, false);
    if (!first && first.error().kind == Trouble::Kind::environment) {
      GTEST_SKIP() << to_text(first.error().what);
    }
    ASSERT_TRUE(first);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Store> open() {
    auto out = Store::open(file_, true);
    EXPECT_TRUE(out) << to_text(out.error().what);
    return out ? *std::move(out) : nullptr;
  }
  Trouble::Kind refused(const std::string& file, bool must_exist = false) {
    const auto out = Store::open(file, must_exist);
    EXPECT_FALSE(out);
    return out ? Trouble::Kind::usage : out.error().kind;
  }

  fs::path folder_;
  std::string file_;
};

TEST(Tells, ComeBackToTheBit) {
  Rng random(1);
  std::vector<search::Tell> tells;
  for (int i = 0; i < 300; ++i) {
    tells.push_back({random.below(2) == 1, Bytes{random.uniform() * 1e11},
                     Bytes{random.uniform() * 1e11}, random.uniform() * 1e-5,
                     random.uniform() * 1e-5});
  }
  tells.push_back({true, Bytes{0}, Bytes{-0.0}, std::numeric_limits<double>::infinity()});
  for (search::Tell& tell : tells) search::make_plain(tell);
  const std::string packed = pack(tells);
  if (packed.empty()) GTEST_SKIP() << "built without zlib";
  const std::vector<search::Tell> again = unpack(packed, tells.size());
  ASSERT_EQ(again.size(), tells.size());
  for (std::size_t i = 0; i < tells.size(); ++i) {
    EXPECT_TRUE(equal(again[i], tells[i])) << i;
    EXPECT_TRUE(equal(*unpack_one(pack_one(tells[i])), tells[i])) << i;
  }
  EXPECT_TRUE(unpack(packed, tells.size() + 1).empty());
  for (std::size_t at = 0; at < packed.size(); at += 13) {
    std::string bad = packed;
    bad[at] ^= 4;
    EXPECT_TRUE(unpack(bad, tells.size()).empty()) << at;
  }
  std::string one = pack_one(tells[0]);
  EXPECT_EQ(one.size(), 41U);
  one[20] ^= 1;
  EXPECT_FALSE(unpack_one(one));
  EXPECT_FALSE(unpack_one(""));
}

TEST(Model, HasADigestOf64Digits) {
  EXPECT_EQ(model_fingerprint().size(), 64U);
  EXPECT_EQ(model_fingerprint().find_first_not_of("0123456789abcdef"), std::string_view::npos);
}

TEST_F(StoreFile, FindsWhatWasKeptAfterItWasClosed) {
  const Digest key = digest_of("a");
  {
    const auto store = open();
    EXPECT_FALSE(store->screens(key));
    store->keep_screens(key, "some");
    store->keep_projection(key, "one");
    EXPECT_FALSE(store->screens(key));  // still waits
  }
  const auto store = open();
  EXPECT_EQ(store->screens(key), "some");
  EXPECT_EQ(store->projection(key), "one");
  EXPECT_FALSE(store->projection(digest_of("b")));
}

TEST_F(StoreFile, ServesTwoAtOnce) {
  const auto a = open();
  const auto b = open();
  for (int i = 0; i < 50; ++i) {
    a->keep_projection(digest_of("a" + std::to_string(i)), "x");
    b->keep_projection(digest_of("b" + std::to_string(i)), "y");
    b->keep_projection(digest_of("a" + std::to_string(i)),
                       "x");  // the same question, answered twice
    a->flush(true);
    b->flush(true);
  }
  EXPECT_FALSE(a->trouble());
  EXPECT_FALSE(b->trouble());
  EXPECT_EQ(a->projection(digest_of("b49")), "y");
  EXPECT_EQ(b->projection(digest_of("a0")), "x");
}

TEST_F(StoreFile, SaysWhatIsWrongWithAFile) {
  EXPECT_EQ(refused((folder_ / "none.db").string(), true), Trouble::Kind::bad_file);
  EXPECT_EQ(refused((folder_ / "no" / "none.db").string()), Trouble::Kind::environment);
  EXPECT_EQ(refused(folder_.string()), Trouble::Kind::usage);
  const std::string text = (folder_ / "text").string();
  std::ofstream(text) << std::string(200, 'x');
  EXPECT_EQ(refused(text), Trouble::Kind::bad_file);
  std::ifstream in(text);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), std::string(200, 'x'));
  fs::resize_file(file_, 3000);  // the second page is gone
  EXPECT_EQ(refused(file_), Trouble::Kind::bad_file);
}

// A page in the middle that a disk has lost is found when it is read; the search is told, and goes
// on.
TEST_F(StoreFile, GoesOutOfUseWhereItTurnsOutDamaged) {
  {
    const auto store = open();
    for (int i = 0; i < 2000; ++i) {
      store->keep_projection(digest_of(std::to_string(i)), std::string(33, 'x'));
    }
  }
  {
    std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
    for (std::uintmax_t at = 5 * 4096; at + 4096 < fs::file_size(file_); at += 4096) {
      file.seekp(static_cast<std::streamoff>(at));
      file << std::string(4096, '\xff');
    }
  }
  const auto store = open();
  ASSERT_NE(store, nullptr);
  for (int i = 0; i < 2000 && !store->trouble(); ++i)
    store->projection(digest_of(std::to_string(i)));
  ASSERT_TRUE(store->trouble());
  EXPECT_EQ(store->trouble()->kind, Trouble::Kind::bad_file);
  EXPECT_FALSE(store->projection(digest_of("0")));
  store->keep_projection(digest_of("0"), "x");
  store->flush(true);
}

const std::vector<std::string> kAxes{"tp=1..8",       "pp=1..4", "mbs=1,2", "recompute=none,full",
                                     "sp=true,false", "rest=job"};

struct Ran {
  search::Outcome outcome;
  std::size_t evaluated = 0;
  std::uint64_t damaged = 0;
};

// An exhaustive search in small batches that ends after `most` of them.
Ran run(Store& store, const search::Space& space, const calibration::Calibration& calibration,
        const projection::Options& options, std::size_t top = 5, int most = 1'000'000) {
  Ran out;
  StoredAnswers answers(store, space, calibration, options);
  search::Evaluator evaluator(space, calibration, options);
  search::Exhaustive method(space, {top, false}, {.screens = 16, .projections = 4});
  std::vector<search::Tell> tells;
  for (int i = 0; i < most; ++i) {
    const std::span<const search::Ask> asks = method.ask();
    if (asks.empty()) break;
    tells.resize(asks.size());
    for (const std::size_t at : answers.find(asks, tells)) {
      tells[at] = evaluator.answer(asks[at]);
      ++out.evaluated;
    }
    answers.keep(asks, tells);
    method.tell(tells);
  }
  store.flush(true);
  out.outcome = method.outcome();
  out.damaged = answers.damaged();
  return out;
}

void expect_same(const search::Outcome& a, const search::Outcome& b) {
  EXPECT_EQ(a.proof.simulated, b.proof.simulated);
  EXPECT_EQ(a.proof.too_big, b.proof.too_big);
  EXPECT_EQ(a.proof.cut_by_bound, b.proof.cut_by_bound);
  EXPECT_EQ(a.proof.illegal, b.proof.illegal);
  EXPECT_EQ(a.proof.proven, b.proof.proven);
  ASSERT_EQ(a.top.size(), b.top.size());
  for (std::size_t i = 0; i < a.top.size(); ++i) {
    EXPECT_EQ(a.top[i].at, b.top[i].at);
    EXPECT_EQ(a.top[i].figure, b.top[i].figure);
  }
}

class Searched : public StoreFile {
 protected:
  job::JobSpec job_ = search::job_of("llama3.1-8b", "h100-sxm-2x8", 128);
  calibration::Calibration calibration_ = *reader::load_calibration("h100-sxm");
  projection::Options options_;
  search::Space space_ = *search::space_of(job_, kAxes);
};

TEST_F(Searched, GoesOnWhereItWasLeftAndFindsTheSame) {
  fs::path other = folder_ / "b.db";
  const auto plain = Store::open(other.string(), false);
  const Ran whole = run(**plain, space_, calibration_, options_);
  ASSERT_TRUE(whole.outcome.proof.proven);
  std::size_t evaluated = 0;
  for (const int batches : {1, 3, 7, 1'000'000}) {
    const Ran part = run(*open(), space_, calibration_, options_, 5, batches);
    evaluated += part.evaluated;
    if (batches == 1'000'000) expect_same(part.outcome, whole.outcome);
  }
  EXPECT_EQ(evaluated, whole.evaluated);
}

TEST_F(Searched, AsksNothingTwiceWhateverIsAsked) {
  const Ran cold = run(*open(), space_, calibration_, options_);
  EXPECT_GT(cold.evaluated, 0U);
  EXPECT_EQ(run(*open(), space_, calibration_, options_).evaluated, 0U);
  // A longer list of answers asks for the same screens.
  const fs::path other = folder_ / "b.db";
  const Ran alone = run(**Store::open(other.string(), false), space_, calibration_, options_, 9);
  const Ran warm = run(*open(), space_, calibration_, options_, 9);
  expect_same(warm.outcome, alone.outcome);
  EXPECT_LT(warm.evaluated, alone.evaluated - cold.evaluated / 4);
}

TEST_F(Searched, AnotherSpaceFindsTheProjectionsOfTheSameJobs) {
  run(*open(), space_, calibration_, options_);
  job_.parallel.tp = 2;  // says nothing: tp is an axis
  std::vector<std::string> axes = kAxes;
  axes[1] = "pp=1,2,4,8";
  const search::Space wider = *search::space_of(job_, axes);
  const fs::path other = folder_ / "b.db";
  const Ran alone = run(**Store::open(other.string(), false), wider, calibration_, options_);
  const Ran warm = run(*open(), wider, calibration_, options_);
  expect_same(warm.outcome, alone.outcome);
  EXPECT_LT(warm.evaluated, alone.evaluated);
}

TEST_F(Searched, AnotherModelOfTheWorldFindsNothing) {
  const Ran cold = run(*open(), space_, calibration_, options_);
  const auto none_found = [&](const search::Space& space, const calibration::Calibration& c,
                              const projection::Options& o) {
    const Ran again = run(*open(), space, c, o);
    return again.evaluated >= cold.evaluated / 2 && again.outcome.proof.proven;
  };
  calibration::Calibration calibration = calibration_;
  calibration.part.network.share *= 0.9;
  EXPECT_TRUE(none_found(space_, calibration, options_));
  EXPECT_TRUE(none_found(space_, calibration_, {.memory_margin = 0.1}));
  search::Space slower = space_;
  slower.base.cluster.levels[0].bandwidth *= 0.5;
  EXPECT_TRUE(none_found(slower, calibration_, options_));
  search::Space other_profile = space_;
  other_profile.base.framework.host.per_layer += Seconds{1e-6};
  EXPECT_TRUE(none_found(other_profile, calibration_, options_));
}

TEST_F(Searched, NamesWhatKeepsASearchFromBeingResumed) {
  const Identity now = identity_of(space_, calibration_, options_);
  EXPECT_EQ(differences(now, {{now, ""}}), "");
  Identity other = now;
  other.options = digest_of("x");
  other.model = digest_of("y");
  Identity nearer = now;
  nearer.calibration = digest_of("z");
  EXPECT_EQ(differences(now, {{other, ""}, {nearer, ""}}),
            "the nearest there differs in calibration");
  EXPECT_EQ(differences(now, {{other, ""}}),
            "the nearest there differs in eratos itself (another build), memory margin");
  const auto store = open();
  store->add({now, "search job"});
  store->add({now, "search job"});
  const auto there = store->searches();
  ASSERT_EQ(there.size(), 1U);
  EXPECT_EQ(there[0].identity, now);
  EXPECT_EQ(there[0].said, "search job");
}

}  // namespace
}  // namespace eratos::store
