#include <algorithm>
#include <cmath>
#include <string>

#include "eratos/reader/import_report.h"

namespace eratos::reader {

namespace {

bool is_set(const std::vector<std::string>& paths, std::string_view path) {
  return std::any_of(paths.begin(), paths.end(), [&](const std::string& each) {
    return each.rfind(path, 0) == 0 && (each.size() == path.size() || each[path.size()] == '.');
  });
}

// "8x8" of 64: nodes of eight, or one smaller node.
std::string shape_of(int accelerators) {
  if (accelerators <= 8) return "1x" + std::to_string(accelerators);
  if (accelerators % 8 == 0) return std::to_string(accelerators / 8) + "x8";
  return std::to_string(accelerators) + "x1";
}

void warn_once(ImportReport& report, std::string code, std::string message) {
  for (const Warning& w : report.warnings) {
    if (w.code == code) return;
  }
  report.warnings.push_back({.code = std::move(code), .message = std::move(message), .where = {}});
}

void forget(ImportReport& report, std::string_view code) {
  std::erase_if(report.warnings, [&](const Warning& w) { return w.code == code; });
}

constexpr const char* kSize = "cluster-size";

}  // namespace

Result<void> follow_cluster(JobRead& read, const std::vector<std::string>& set_paths) {
  const FollowsCluster& follows = read.follows;
  const parallel::ParallelSpec& p = read.job.parallel;
  const int world = read.has_cluster ? read.job.cluster.gpus() : follows.accelerators;
  const int slice = std::max(1, p.tp) * std::max(1, p.cp) * std::max(1, p.pp);
  const int dp = std::max(1, world / slice);
  forget(read.report, kSize);
  if (read.has_cluster && follows.accelerators > 0 && world != follows.accelerators) {
    warn_once(read.report, kSize,
              "the file's run had " + std::to_string(follows.accelerators) +
                  " accelerators, the cluster has " + std::to_string(world));
  } else if (!read.has_cluster && follows.accelerators > 0) {
    warn_once(read.report, kSize,
              "the file's run had " + std::to_string(follows.accelerators) +
                  " accelerators: name them with --cluster, such as --cluster h100-sxm-" +
                  shape_of(follows.accelerators));
  }
  const std::string ranks = "dp " + std::to_string(dp);
  auto& provenance = read.report.provenance;
  if (follows.replica_sequences > 0 && !is_set(set_paths, "batch.global")) {
    const double global = follows.replica_sequences * dp;
    Provenance& from = provenance["batch.global"];
    if (global < 1 || global != std::floor(global) || global > 1e9) {
      return fault({.where = from.where,
                    .message = "a step of " + std::to_string(global) + " sequences on " + ranks,
                    .cure = "give --set batch.global=N, or another cluster",
                    .field = "batch.global"});
    }
    read.job.batch.global = static_cast<int>(global);
    from.origin = Origin::derived;
    from.value = std::to_string(read.job.batch.global);
    std::string each = std::to_string(follows.replica_sequences);
    each.erase(each.find_last_not_of('0') + 1);
    if (each.back() == '.') each.pop_back();
    from.rule = each + " sequences a data-parallel rank x " + ranks;
    if (world == 0) {
      warn_once(read.report, kSize,
                "batch.global follows from the number of accelerators (" + each +
                    " sequences a data-parallel rank): shown for one rank, name a --cluster");
    }
  }
  if (follows.replicas > 0 && !is_set(set_paths, "sharding")) {
    const int all = dp * std::max(1, p.cp);
    if (world > 0 && all % follows.replicas != 0) {
      return fault({.where = provenance["sharding.group"].where,
                    .message = std::to_string(follows.replicas) + " replicas do not divide the " +
                               std::to_string(all) + " ranks that share parameters",
                    .cure = "choose another cluster or degree",
                    .field = "sharding.group"});
    }
    read.job.parallel.hsdp_group = std::max(1, all / follows.replicas);
    Provenance& from = provenance["sharding.group"];
    from.origin = Origin::derived;
    from.value = std::to_string(read.job.parallel.hsdp_group);
    from.rule = std::to_string(all) + " ranks / " + std::to_string(follows.replicas) + " replicas";
  }
  return {};
}

}  // namespace eratos::reader
