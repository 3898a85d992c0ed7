#include "eratos/reader/truth_layout.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "eratos/reader/layout.h"

namespace eratos::reader {

namespace {

// They stand with the output where no layout says otherwise.
int predictions(const job::JobSpec& spec) { return spec.mtp ? spec.model.mtp_layers : 0; }

}  // namespace

std::optional<job::LayoutSpec> layout_in(const std::string& notes) {
  constexpr std::string_view kWord = "layout E";
  const std::size_t at = notes.find(kWord);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t begin = at + kWord.size() - 1;
  Result<job::LayoutSpec> parsed = parse_layout(notes.substr(begin, notes.find(';', at) - begin));
  if (!parsed) return std::nullopt;
  return *std::move(parsed);
}

job::LayoutSpec redistributed(const job::JobSpec& spec) {
  const int layers = spec.model.layers();
  const int others = spec.parallel.pp - 1;
  job::LayoutSpec out;
  if (others < 1) return out;
  const double output = spec.model.vocab / (12 * spec.model.hidden + 2.0 * spec.batch.sequence);
  const auto largest_other = [&](int last) { return (layers - last + others - 1) / others; };
  const auto largest = [&](int last) {
    return std::max<double>(largest_other(last), last + output);
  };
  int last = layers / (others + 1);
  for (int k = last - 1; k >= 0; --k) {
    if (largest(k) < largest(last)) last = k;
  }
  const int full = largest_other(last);
  int short_stages = full * others - (layers - last);  // stages with one layer less than `full`
  for (int stage = 0; stage < others; ++stage) {
    const bool is_short = short_stages > 0;
    if (is_short) --short_stages;
    out.stages.push_back({.layers = full - (is_short ? 1 : 0), .embedding = stage == 0});
  }
  out.stages.push_back({.layers = last, .mtp = predictions(spec), .output = true});
  return out;
}

job::LayoutSpec balanced(const job::JobSpec& spec) {
  const int stages = spec.parallel.pp * spec.parallel.vpp;
  const int layers = spec.model.layers();
  job::LayoutSpec out;
  const int longer = layers % stages;
  for (int stage = 0; stage < stages; ++stage) {
    // The first stage also embeds and the last has the head: they are the last to get one more.
    const bool first_too = longer == stages - 1;
    const bool more = stage > 0 ? stage <= (first_too ? longer - 1 : longer) : first_too;
    out.stages.push_back({.layers = layers / stages + (more ? 1 : 0),
                          .mtp = stage == stages - 1 ? predictions(spec) : 0,
                          .embedding = stage == 0,
                          .output = stage == stages - 1});
  }
  return out;
}

std::optional<job::LayoutSpec> rest_last(const job::JobSpec& spec) {
  const int stages = spec.parallel.pp * spec.parallel.vpp;
  const int layers = spec.model.layers();
  const int each = (layers + stages - 1) / stages;
  const int rest = layers - each * (stages - 1);
  if (rest < 1) return std::nullopt;
  job::LayoutSpec out;
  for (int stage = 0; stage < stages; ++stage) {
    const bool last = stage == stages - 1;
    out.stages.push_back({.layers = last ? rest : each,
                          .mtp = last ? predictions(spec) : 0,
                          .embedding = stage == 0,
                          .output = last});
  }
  return out;
}

}  // namespace eratos::reader
