// A value as bytes: every field counts, and what is read back is what was written.
#include "eratos/store/bytes.h"

#include <array>
#include <bit>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "eratos/base/rng.h"
#include "eratos/calibration/calibration.h"
#include "eratos/job/job.h"
#include "eratos/search/space.h"
#include "eratos/store/digest.h"
#include "search/jobs.h"

namespace eratos::store {
namespace {

struct Pair {
  std::string name;
  int pp = 0;
};
struct Nested {
  Pair pair;
  std::array<double, 2> two{};
  std::vector<Pair> many;
};

TEST(Fields, AreCountedWhateverTheyAre) {
  EXPECT_EQ(kFields<Pair>, 2U);
  EXPECT_EQ(kFields<Nested>, 3U);
  EXPECT_EQ(kFields<job::BatchSpec>, 4U);
  EXPECT_EQ(kFields<parallel::Group>, 2U);
  const Pair p{"a", 4};
  EXPECT_EQ(&std::get<1>(fields_of(p)), &p.pp);
}

TEST(Bytes, OfTheWorkedExample) {
  EXPECT_EQ(bytes_of(Pair{"a", 4}), std::string("\1\0\0\0\0\0\0\0a\4\0\0\0", 13));
}

TEST(Bytes, OfASpaceComeBack) {
  const job::JobSpec job = search::job_of("mixtral-8x7b", "h100-sxm-4x8", 256);
  const Result<search::Space> space = search::space_of(job, std::vector<std::string>{});
  ASSERT_TRUE(space);
  const std::string bytes = bytes_of(*space);
  search::Space again;
  ASSERT_TRUE(from_bytes(bytes, again));
  EXPECT_EQ(bytes_of(again), bytes);
  EXPECT_EQ(again.raw(), space->raw());
  EXPECT_EQ(again.base.model.layers(), job.model.layers());
  EXPECT_EQ(again.base.cluster.gpus(), job.cluster.gpus());
}

TEST(Bytes, CutOrMutilatedAreRefusedOrAnotherValue) {
  const std::string bytes = bytes_of(search::job_of("mixtral-8x7b", "h100-sxm-4x8", 256));
  for (std::size_t n = 0; n < bytes.size(); n += 7) {
    job::JobSpec job;
    EXPECT_FALSE(from_bytes(std::string_view(bytes).substr(0, n), job)) << n;
  }
  Rng random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string other = bytes;
    other[random.below(other.size())] ^= static_cast<char>(1U << random.below(8));
    job::JobSpec job;
    if (from_bytes(other, job)) {
      EXPECT_TRUE(bytes_of(job) != bytes) << i;
    }
  }
}

// Whatever is changed in a job, its cluster, its profile or a calibration has another digest.
TEST(Digest, ChangesWithEveryField) {
  const job::JobSpec job = search::job_of("mixtral-8x7b", "h100-sxm-4x8", 256);
  std::set<std::string> seen{std::string(digest_of(bytes_of(job)).bytes())};
  const auto is_new = [&](auto change) {
    job::JobSpec other = job;
    change(other);
    return seen.insert(std::string(digest_of(bytes_of(other)).bytes())).second;
  };
  EXPECT_TRUE(is_new([](auto& j) { j.batch.global *= 2; }));
  EXPECT_TRUE(is_new([](auto& j) { j.parallel.order[0] = Axis::dp; }));
  EXPECT_TRUE(is_new([](auto& j) { j.recompute.modules.set(3); }));
  EXPECT_TRUE(is_new([](auto& j) { j.layout.stages.push_back({.layers = 3}); }));
  EXPECT_TRUE(is_new([](auto& j) { j.model.blocks[0].norm.bias = true; }));
  EXPECT_TRUE(is_new([](auto& j) { j.model.blocks[0].mixer = std::monostate{}; }));
  EXPECT_TRUE(is_new([](auto& j) { j.cluster.levels[0].latency += Seconds{1e-9}; }));
  EXPECT_TRUE(is_new([](auto& j) { j.cluster.accelerator.peak[1] *= 1.0000001; }));
  EXPECT_TRUE(is_new([](auto& j) { j.framework.host.tp_overlap_exponent += 1; }));
  EXPECT_TRUE(is_new([](auto& j) { j.framework.memory.buckets += Bytes{1}; }));

  calibration::Calibration measured;
  const Digest before = digest_of(bytes_of(measured));
  measured.part.collectives.push_back({.kind = "all_reduce"});
  const Digest with_curve = digest_of(bytes_of(measured));
  measured.unmeasured.widening = 0.01;
  EXPECT_FALSE(before == with_curve);
  EXPECT_FALSE(with_curve == digest_of(bytes_of(measured)));
}

TEST(Digest, TellsLengthsAndOrderApart) {
  std::set<std::string> seen;
  for (std::size_t n = 0; n < 40; ++n) {
    EXPECT_TRUE(seen.emplace(digest_of(std::string(n, '\0')).bytes()).second) << n;
  }
  EXPECT_FALSE(digest_of("abcdefghijklmnop") == digest_of("ijklmnopabcdefgh"));
  // One bit of the input changes about half of the 128 of the digest.
  Rng random(2);
  double changed = 0;
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    std::string text(1 + random.below(100), '\0');
    for (char& c : text) c = static_cast<char>(random.next());
    const Digest a = digest_of(text);
    text[random.below(text.size())] ^= static_cast<char>(1U << random.below(8));
    const Digest b = digest_of(text);
    for (int w = 0; w < 2; ++w) changed += std::popcount(a.word[w] ^ b.word[w]);
  }
  EXPECT_NEAR(changed / kTries, 64, 1);
}

}  // namespace
}  // namespace eratos::store
