#include "eratos/store/stored_answers.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "eratos/store/bytes.h"
#include "eratos/store/model.h"
#include "eratos/store/tells.h"

namespace eratos::store {

namespace {

struct Part {
  Digest Identity::*digest;
  std::string_view name;
};
constexpr std::array<Part, 7> kParts{{
    {&Identity::model, "eratos itself (another build)"},
    {&Identity::job, "job"},
    {&Identity::framework, "framework profile"},
    {&Identity::cluster, "cluster"},
    {&Identity::axes, "axes"},
    {&Identity::calibration, "calibration"},
    {&Identity::options, "memory margin"},
}};

template <class T>
Digest digest_of_value(const T& value) {
  return digest_of(bytes_of(value));
}

std::vector<search::Ask> screens_of(std::span<const search::Ask> asks) {
  std::vector<search::Ask> out;
  for (const search::Ask& ask : asks) {
    if (ask.what != search::Ask::What::project) out.push_back(ask);
  }
  return out;
}

}  // namespace

Identity identity_of(const search::Space& space, const calibration::Calibration& calibration,
                     const projection::Options& options) {
  search::Space bare = space;
  bare.base.framework = {};
  bare.base.cluster = {};
  Identity out;
  out.model = digest_of(model_fingerprint());
  out.job = digest_of_value(bare.base);
  out.framework = digest_of_value(space.base.framework);
  // What running a cluster costs changes no answer of the model.
  hardware::ClusterSpec cluster = space.base.cluster;
  cluster.running = {};
  out.cluster = digest_of_value(cluster);
  out.calibration = digest_of_value(calibration);
  out.options = digest_of_value(options);
  bare.base = {};
  out.axes = digest_of_value(bare);
  return out;
}

std::string differences(const Identity& identity, const std::vector<SearchRecord>& records) {
  std::size_t fewest = kParts.size() + 1;
  std::string out;
  for (const SearchRecord& record : records) {
    std::size_t n = 0;
    std::string names;
    for (const Part& part : kParts) {
      if (record.identity.*part.digest == identity.*part.digest) continue;
      ++n;
      names += (names.empty() ? "" : ", ") + std::string(part.name);
    }
    if (n >= fewest) continue;
    fewest = n;
    out = names.empty() ? "" : "the nearest there differs in " + names;
  }
  return out;
}

StoredAnswers::StoredAnswers(Store& store, const search::Space& space,
                             const calibration::Calibration& calibration,
                             const projection::Options& options)
    : store_(store), space_(space), job_(space.base) {
  const Identity all = identity_of(space, calibration, options);
  for (const Digest& d : {all.model, all.calibration, all.options}) world_ += d.bytes();
  search_ = digest_of_value(all).bytes();
  job_.cluster.running = {};
  search::apply(space_, at_, job_);
}

Digest StoredAnswers::key_of_screens(const std::vector<search::Ask>& asks) const {
  return digest_of(search_ + bytes_of(asks));
}

Digest StoredAnswers::key_of_projection(const search::Candidate& at) {
  search::apply(space_, at, job_);
  return digest_of(world_ + bytes_of(job_));
}

std::vector<std::size_t> StoredAnswers::find(std::span<const search::Ask> asks,
                                             std::span<search::Tell> tells) {
  std::vector<std::size_t> missing;
  const std::vector<search::Ask> screens = screens_of(asks);
  std::vector<search::Tell> known;
  screens_missing_ = false;
  if (!screens.empty()) {
    screens_key_ = key_of_screens(screens);
    if (const auto packed = store_.screens(screens_key_)) {
      known = unpack(*packed, screens.size());
      if (known.empty()) damaged_ += screens.size();
    }
    screens_missing_ = known.empty();
  }
  projections_missing_.clear();
  std::size_t screen = 0;
  for (std::size_t i = 0; i < asks.size(); ++i) {
    if (asks[i].what != search::Ask::What::project) {
      if (screens_missing_) {
        missing.push_back(i);
      } else {
        tells[i] = known[screen++];
      }
      continue;
    }
    const Digest key = key_of_projection(asks[i].at);
    if (const auto packed = store_.projection(key)) {
      if (const auto tell = unpack_one(*packed)) {
        tells[i] = *tell;
        continue;
      }
      ++damaged_;
    }
    missing.push_back(i);
    projections_missing_.emplace_back(i, key);
  }
  asked_ += asks.size();
  found_ += asks.size() - missing.size();
  return missing;
}

void StoredAnswers::keep(std::span<const search::Ask> asks, std::span<const search::Tell> tells) {
  if (screens_missing_) {
    std::vector<search::Tell> screens;
    for (std::size_t i = 0; i < asks.size(); ++i) {
      if (asks[i].what != search::Ask::What::project) screens.push_back(tells[i]);
    }
    store_.keep_screens(screens_key_, pack(screens));
  }
  for (const auto& [i, key] : projections_missing_) {
    store_.keep_projection(key, pack_one(tells[i]));
  }
  store_.flush(false);
}

}  // namespace eratos::store
