#include "apps/sizes.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "eratos/hardware/cluster.h"

namespace eratos::apps {

namespace {

int number(std::string_view s) {
  int n = 0;
  const auto [at, error] = std::from_chars(s.data(), s.data() + s.size(), n);
  return error == std::errc() && at == s.data() + s.size() ? n : 0;
}

std::vector<std::string> pieces_of(std::string_view text) {
  std::vector<std::string> out;
  for (;;) {
    const std::size_t comma = text.find(',');
    out.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

// Empty when it is none of the three.
std::vector<int> nodes_of(const std::string& text) {
  std::vector<int> out;
  for (const std::string& piece : pieces_of(text)) {
    const std::size_t dots = piece.find("..");
    const std::string_view all(piece);
    const int from = number(all.substr(0, dots));
    const int to = dots == std::string::npos ? from : number(all.substr(dots + 2));
    if (from < 1 || to < from || to > hardware::kMostAccelerators) return {};
    for (long long n = from; n <= to; n *= 2) out.push_back(static_cast<int>(n));
  }
  return out;
}

}  // namespace

Result<std::vector<Size>> sizes_of(const Arguments& arguments) {
  std::vector<int> nodes{0};
  if (arguments.has("--nodes")) {
    nodes = nodes_of(arguments.value("--nodes"));
    if (nodes.empty()) {
      return fault({.message = fmt::format("`--nodes {}` is no number of nodes, no range such as "
                                           "4..64 and no list such as 4,6,8",
                                           arguments.value("--nodes"))});
    }
  }
  std::vector<std::string> clusters;
  for (const std::string& text : arguments.values("--cluster")) {
    for (std::string& piece : pieces_of(text)) clusters.push_back(std::move(piece));
  }
  if (clusters.empty()) clusters.emplace_back();
  std::vector<Size> out;
  for (const std::string& cluster : clusters) {
    if (cluster.empty() && clusters.size() > 1) {
      return fault({.message = "`--cluster` has an empty name between its commas"});
    }
    for (const int n : nodes) {
      const bool there = std::any_of(out.begin(), out.end(), [&](const Size& s) {
        return s.cluster == cluster && s.nodes == n;
      });
      if (there) {
        return fault({.message = fmt::format("`{}`{} is given twice", cluster,
                                             n > 0 ? fmt::format(" with {} nodes", n) : "")});
      }
      out.push_back({cluster, n});
    }
  }
  return out;
}

Arguments at_size(const Arguments& arguments, const Size& size) {
  Arguments out = arguments;
  if (!size.cluster.empty()) out.flags["--cluster"] = {size.cluster};
  if (size.nodes > 0) out.flags["--nodes"] = {std::to_string(size.nodes)};
  return out;
}

}  // namespace eratos::apps
