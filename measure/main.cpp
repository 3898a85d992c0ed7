// eratos-device: read the plan, open the device, measure piece after piece, write the file.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "faults.h"
#include "options.h"
#include "plan.h"
#include "ranks.h"
#include "session.h"
#include "work.h"

namespace {

using namespace eratos::device;

// The words again, less --ranks: for the ranks themselves.
std::vector<std::string> without_ranks(const std::vector<std::string>& words) {
  std::vector<std::string> out{"eratos-device"};
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].compare(0, 8, "--ranks=") == 0) continue;
    if (words[i] == "--ranks") {
      ++i;
      continue;
    }
    out.push_back(words[i]);
  }
  return out;
}

int run(const std::vector<std::string>& words) {
  const Options options = read_options(words);
  if (options.help) {
    std::fputs(help_text().c_str(), stdout);
    return kAnswered;
  }
  catch_interrupts();
  const Rank rank = rank_of_environment();
  if (options.ranks > 1 && rank.ranks > 1) {
    throw Fault(kUsage,
                "error: `--ranks` starts ranks, and " + rank.by + " has started some already");
  }
  if (options.probe) {
    const auto device = open_device(options.device, options.threads, options.cache_bytes, Rank{});
    std::printf("%s\n", device->name().c_str());
    return kAnswered;
  }
  const Plan plan = read_plan(options.plan);
  if (options.ranks > 1) return run_ranks(options.ranks, without_ranks(words));

  const auto device = open_device(options.device, options.threads, options.cache_bytes, rank);
  if (rank.rank != 0) {
    device->follow(plan);
    return kAnswered;
  }
  return measure(options, plan, *device, rank.ranks);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const eratos::device::Fault& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return e.code;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: this is a bug of eratos-device: %s\n", e.what());
    return eratos::device::kBug;
  }
}
