// Logs of nccl-tests and rccl-tests in every layout, and what is no log.
#include "eratos/reader/nccl_log.h"

#include <gtest/gtest.h>

#include "eratos/base/rng.h"
#include "eratos/reader/measured.h"

namespace eratos::reader {
namespace {

std::string ranks(int n, int hosts, const std::string& device = "NVIDIA H100 80GB HBM3") {
  std::string out = "# Using devices\n";
  for (int i = 0; i < n; ++i) {
    const int per = n / hosts;
    out += "#  Rank  " + std::to_string(i) + " Group  0 Pid  77 on node" + std::to_string(i / per) +
           " device  " + std::to_string(i % per) + " [0x1b] " + device + "\n";
  }
  return out;
}
const char* const kStart =
    "# nThread 1 nGpus 8 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 iters: 20 agg "
    "iters: "
    "1 validation: 1 graph: 0\n#\n";
const char* const kHead =
    "#\n#                                                out-of-place                in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time "
    "  "
    "algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            "
    "(us)\n";
const char* const kRows =
    "     1048576        262144     float     sum      -1    41.20   25.45   44.54      0    40.80 "
    "  "
    "25.70   44.97      0\n"
    "     2097152        524288     float     sum      -1    52.00   40.33   70.58      0    52.40 "
    "  "
    "40.02   70.04      0\n";
const char* const kEnd = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 57.5 \n#\n";

std::string log_of(const std::string& head = kHead, const std::string& rows = kRows) {
  return std::string("./build/all_reduce_perf -b 1M -e 2M -f 2 -g 8\n") + kStart + ranks(8, 1) +
         head + rows + kEnd;
}

TEST(NcclLog, HandWorkedRow) {
  const auto tables = parse_nccl_log(log_of(), "run.log");
  ASSERT_TRUE(tables) << tables.error().front().message;
  ASSERT_EQ(tables->size(), 1U);
  const NcclTable& t = tables->front();
  EXPECT_EQ(t.program, "all_reduce_perf");
  EXPECT_EQ(t.kind, ops::CollectiveKind::all_reduce);
  EXPECT_EQ(t.ranks, 8);
  EXPECT_EQ(t.hosts, 1);
  EXPECT_EQ(t.iterations, 20);
  EXPECT_EQ(t.device, "NVIDIA H100 80GB HBM3");
  ASSERT_EQ(t.rows.size(), 2U);
  EXPECT_EQ(t.rows[0].bytes, 1048576);
  EXPECT_NEAR(t.rows[0].mean_us(), 41.0, 1e-12);
  const auto points = points_of(t, "run.log", "");
  ASSERT_TRUE(points);
  EXPECT_EQ(points->front().part, "h100-sxm");
  EXPECT_NEAR(points->front().measured.value, 41e-6, 1e-15);
  const auto pieces = pieces_of(t);
  EXPECT_EQ(calibration::id_of(pieces[0].piece), "collective/all_reduce/n8/b1048576/fp32");
  ASSERT_EQ(pieces[0].samples.size(), 2U);
  EXPECT_NEAR(pieces[0].samples[0], 41.2e-6, 1e-15);
  EXPECT_NEAR(pieces[0].samples[1], 40.8e-6, 1e-15);
}

TEST(NcclLog, EveryLayoutOfColumns) {
  // Without root (before 2.11), with neither redop nor root, one set of columns, N/A in place.
  const std::string bare = "#       size    count   type   time   algbw   busbw  error\n";
  for (const char* row :
       {" 1048576 262144 float sum 41.20 25.45 44.54 1e-07 40.8 25.70 44.97 1e-07\n",
        " 1048576 262144 float 41.20 25.45 44.54 1e-07 40.8 25.70 44.97 1e-07\n",
        " 1048576 262144 float sum -1 41.20 25.45 44.54 0\n",
        " 1048576 262144 float 41.20 25.45 44.54 0\n",
        " 1048576 262144 bfloat16 none -1 41.20 25.45 44.54 0 41.3 25.4 44.4 N/A\n",
        " 1048576 262144 half sum -1 41.20 25.45 44.54 0 N/A N/A N/A N/A\n"}) {
    const auto tables = parse_nccl_log(log_of(bare, row), "run.log");
    ASSERT_TRUE(tables) << row << tables.error().front().message;
    EXPECT_EQ(tables->front().rows[0].out_of_place_us, 41.20) << row;
  }
}

TEST(NcclLog, LaunchersLibrariesAndSeveralPrograms) {
  std::string tagged;
  std::string text = log_of();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    tagged += "[1,0]<stdout>:" + text.substr(at, end - at) + "\n" +
              "[1,1]<stdout>:node0:77:99 [1] NCCL INFO Channel 00/16 : 0 1 2 3\n";
    at = end + 1;
  }
  const auto tables = parse_nccl_log(tagged, "x.log");
  ASSERT_TRUE(tables) << tables.error().front().message;
  EXPECT_EQ(tables->front().rows.size(), 2U);

  std::string second = log_of();
  const std::size_t at = second.find("all_reduce");
  second.replace(at, 10, "alltoall");
  const auto both = parse_nccl_log(text + second, "x.log");
  ASSERT_TRUE(both);
  ASSERT_EQ(both->size(), 2U);
  EXPECT_EQ((*both)[1].kind, ops::CollectiveKind::all_to_all);
}

TEST(NcclLog, TheNewerVersionsNameTheTestThemselves) {
  const std::string text =
      "# nccl-tests version 2.17.1\n# Collective test starting: reduce_scatter_perf\n" +
      std::string(kStart) + ranks(16, 2, "AMD Instinct MI300X") + kHead + kRows + kEnd +
      "# Collective test concluded: reduce_scatter_perf\n";
  const auto tables = parse_nccl_log(text, "x.log");
  ASSERT_TRUE(tables) << tables.error().front().message;
  EXPECT_EQ(tables->front().kind, ops::CollectiveKind::reduce_scatter);
  EXPECT_EQ(tables->front().hosts, 2);
  const auto points = points_of(tables->front(), "x.log", "");
  ASSERT_TRUE(points);
  EXPECT_EQ(points->front().part, "mi300x");
  EXPECT_EQ(points->front().group, "mi300x-2x8: reduce_scatter");
}

TEST(NcclLog, TheFilesNameIsAskedLast) {
  std::string text = log_of();
  text.erase(0, text.find('\n') + 1);
  EXPECT_EQ(parse_nccl_log(text, "logs/all_gather-1x8.log")->front().kind,
            ops::CollectiveKind::all_gather);
  const auto nameless = parse_nccl_log(text, "run.log");
  ASSERT_FALSE(nameless);
  EXPECT_EQ(nameless.error().front().message, "the log does not say which collective this is");
}

std::string fault_of(const std::string& text) {
  const auto read = parse_nccl_log(text, "all_reduce.log");
  return read ? "" : read.error().front().message;
}

TEST(NcclLog, FaultsWithTheirPlace) {
  const std::string cut = log_of();
  const auto read = parse_nccl_log(cut.substr(0, cut.find("52.40")), "all_reduce.log");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().front().message, "a row of 9 columns in a table of 13");
  EXPECT_EQ(fault_of("hello\n"), "no table of nccl-tests or rccl-tests with a row in it");
  EXPECT_EQ(fault_of(std::string(kStart) + kHead + kRows),
            "the log does not say which ranks took part");
  EXPECT_EQ(fault_of(kStart + ranks(1, 1) + kHead + kRows), "one rank alone exchanges nothing");
  EXPECT_EQ(fault_of(kStart + ranks(2, 1, "A") + ranks(1, 1, "B") + kHead + kRows),
            "ranks on different devices: A; B");
}

TEST(NcclLog, WrongResultsAreNotUsed) {
  std::string wrong = kRows;
  wrong.replace(wrong.find("44.54      0"), 12, "44.54      7");
  const auto tables = parse_nccl_log(log_of(kHead, wrong), "x.log");
  ASSERT_TRUE(tables);
  EXPECT_EQ(tables->front().rows[0].out_of_place_us, 0);
  EXPECT_EQ(tables->front().notes.size(), 1U);
  std::string failed = log_of();
  failed.replace(failed.find("0 OK"), 4, "3 FAILED");
  EXPECT_EQ(parse_nccl_log(failed, "x.log")->front().skipped,
            "all_reduce_perf: its results were out of bounds");
  std::string other = log_of();
  other.replace(other.find("all_reduce"), 10, "broadcast");
  EXPECT_EQ(parse_nccl_log(other, "x.log")->front().skipped,
            "broadcast_perf: a collective that is not modelled");
}

TEST(NcclLog, UnknownDevicesAskForACluster) {
  const std::string text =
      std::string("all_reduce_perf\n") + kStart + ranks(4, 1, "Some Card") + kHead + kRows;
  const auto tables = parse_nccl_log(text, "x.log");
  ASSERT_TRUE(tables);
  const auto points = points_of(tables->front(), "x.log", "");
  ASSERT_FALSE(points);
  EXPECT_EQ(points.error().front().message, "`Some Card` is no accelerator of the catalogue");
  EXPECT_EQ(points_of(tables->front(), "x.log", "l40s-1x4")->front().part, "l40s");
  EXPECT_FALSE(points_of(tables->front(), "x.log", "l40s-1x2"));
}

TEST(NcclLog, PiecesAreAFileOfMeasurements) {
  calibration::Measured measured;
  measured.provenance.device = "NVIDIA H100 80GB HBM3";
  measured.provenance.device_kind = "cuda";
  measured.provenance.source = "nccl-tests";
  measured.pieces = pieces_of(parse_nccl_log(log_of(), "x.log")->front());
  const auto back = parse_measured(measured_json(measured), "MEASURED.json");
  ASSERT_TRUE(back) << to_text(back.error().front());
  ASSERT_EQ(back->pieces.size(), 2U);
  EXPECT_EQ(back->pieces[0].samples, measured.pieces[0].samples);
}

TEST(NcclLog, MutilatedLogsAreRefusedOrRead) {
  const std::string text = log_of();
  for (std::size_t n = 0; n < text.size(); n += 11) {
    const auto read = parse_nccl_log(text.substr(0, n), "all_reduce.log");
    ASSERT_TRUE(read || !read.error().empty());
  }
  Rng rng(3);
  for (int round = 0; round < 500; ++round) {
    std::string damaged = text;
    for (int i = 0; i < 5; ++i) {
      damaged[rng.below(damaged.size())] = static_cast<char>(rng.below(256));
    }
    const auto read = parse_nccl_log(damaged, "all_reduce.log");
    ASSERT_TRUE(read || !read.error().empty());
  }
}

}  // namespace
}  // namespace eratos::reader
