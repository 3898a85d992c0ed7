#include "session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "faults.h"
#include "journal.h"
#include "machine.h"
#include "ranks.h"
#include "record.h"
#include "statistics.h"
#include "timing.h"

namespace eratos::device {

namespace {

using Clock = std::chrono::steady_clock;

// Two medians that are this far apart are not the same to us (kNarrow on each, and some room).
constexpr double kNoise = 0.05;

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

class Session {
 public:
  Session(const Options& options, const Plan& plan, Device& device, int ranks)
      : options_(options),
        plan_(plan),
        device_(device),
        ranks_(ranks),
        key_(device.kind() + ' ' + device.name() + ", " + std::to_string(device.threads()) +
             " threads, libtorch " + device.libtorch() + ", plan " + plan.digest),
        journal_(options.output, key_, options.resume, options.force),
        start_(Clock::now()),
        load_(load_1min()),
        first_(state()) {
    most_ = first_;
    gather_groups();
  }

  // Three rounds, as far as the budget goes: every piece; every piece once more, in new buffers and
  // minutes later, as a median can be sure of itself and yet not come again; what is still unsure.
  int run() {
    compute_ = device_.reference(Reference::compute);
    memory_ = device_.reference(Reference::memory);
    watch_device();
    round(todo_, 1);
    std::vector<std::size_t> timed;
    for (const auto& kept : kept_) timed.push_back(kept.first);
    std::stable_partition(timed.begin(), timed.end(), [&](std::size_t g) { return unsure(g); });
    round(timed, 2);
    timed.erase(
        std::remove_if(timed.begin(), timed.end(), [&](std::size_t g) { return !unsure(g); }),
        timed.end());
    round(timed, 3);
    compute_.reset();
    memory_.reset();
    device_.dismiss();
    return finish();
  }

 private:
  void gather_groups() {
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
      const auto& known = journal_.pieces();
      const bool done =
          std::all_of(plan_.groups[g].begin(), plan_.groups[g].end(),
                      [&](std::size_t i) { return known.count(plan_.pieces[i].id) != 0; });
      if (!done) todo_.push_back(g);
    }
    if (options_.resume) {
      std::fprintf(stderr, "resumed: %zu of %zu pieces are there already\n", journal_.taken_over(),
                   plan_.pieces.size());
    }
  }

  double spent() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  double left() const { return options_.budget_s - spent(); }

  State state() const { return device_.kind() == "cpu" ? cpu_state() : gpu_state(0).state; }

  // A small product and a large copy: do they take as long as a while ago?
  void watch_device() {
    look(*compute_, computes_);
    look(*memory_, copies_);
    last_ = state();
    most_.temperature_c = std::max(most_.temperature_c, last_.temperature_c);
    most_.power_w = std::max(most_.power_w, last_.power_w);
    if (!last_.throttle.empty()) most_.throttle = last_.throttle;
  }

  static void look(Work& reference, std::vector<double>& took) {
    std::vector<std::vector<double>> samples(1);
    if (took.empty()) reference.sample(1, 10, samples);  // warm up
    samples[0].clear();
    reference.sample(1, took.empty() ? 10 : 3, samples);
    took.push_back(summarise(samples[0]).minimum);
  }

  // By how much a share of the looks exceeded the usual one, which is their median.
  static double excess(std::vector<double> took, double share) {
    std::sort(took.begin(), took.end());
    const auto at = static_cast<std::size_t>(share * static_cast<double>(took.size() - 1));
    return took[at] / took[took.size() / 2] - 1;
  }
  static bool slower_than_usual(const std::vector<double>& took) {
    std::vector<double> sorted = took;
    std::sort(sorted.begin(), sorted.end());
    return took.back() > (1 + kNoise) * sorted[sorted.size() / 2];
  }

  void say_progress(std::size_t at, std::size_t of, const std::string& id, int round) {
    if (!options_.progress) return;
    const double now = spent();
    if (said_at_ >= 0 && now - said_at_ < 0.2) return;
    said_at_ = now;
    std::fprintf(stderr, "progress %zu/%zu %s%s %.0f s left\n", at, of, id.c_str(),
                 round > 1 ? " again" : "", std::max(0.0, left()));
  }

  void round(const std::vector<std::size_t>& groups, int round) {
    for (std::size_t at = 0; at < groups.size(); ++at) {
      const std::size_t g = groups[at];
      const std::string& id = plan_.pieces[plan_.groups[g].front()].id;
      if (interrupted() || left() <= 0) {
        if (round == 1) why_[g] = interrupted() ? "interrupted" : "the budget was spent";
        continue;
      }
      say_progress(at + 1, groups.size(), id, round);
      try {
        one(g, left() / static_cast<double>(groups.size() - at), round);
      } catch (const CannotMeasure& e) {
        if (round == 1) why_[g] = e.what();
      }
      device_.release();
    }
  }

  void one(std::size_t g, double share, int round) {
    const std::vector<std::size_t>& group = plan_.groups[g];
    if (plan_.pieces[group.front()].kind == "memory") return phases(group);
    const std::unique_ptr<Work> work = device_.make(plan_, group);
    const double error = round == 1 ? checked(*work, g) : kept_[g].front().error;
    const Timing timing = time_work(*work, group.size(), share, [] { return interrupted(); });
    if (timing.samples[0].empty()) {
      if (round == 1) why_[g] = "interrupted";
      return;
    }
    watch_device();
    const bool disturbed =
        timing.disturbed || slower_than_usual(computes_) || slower_than_usual(copies_);
    std::vector<Measured>& kept = kept_[g];
    if (round > 1 && disturbed && !kept.front().disturbed) return;
    const bool alone = kept.empty() || (kept.front().disturbed && !disturbed);
    if (alone) kept.assign(group.size(), {});
    for (std::size_t p = 0; p < group.size(); ++p) {
      Measured& m = kept[p];
      m.samples.insert(m.samples.end(), timing.samples[p].begin(), timing.samples[p].end());
      m.warm_up = timing.warm_up;
      m.calls = timing.calls;
      m.error = error;
      m.disturbed = disturbed;
      m.notes = work->notes();
      keep(group[p], m);
    }
  }

  void phases(const std::vector<std::size_t>& group) {
    const std::vector<MemoryPhase> found = device_.memory(plan_, group);
    for (std::size_t p = 0; p < group.size(); ++p) {
      Measured m;
      m.bytes_peak = found[p].peak;
      m.bytes_reserved = found[p].reserved;
      m.bytes_live = found[p].live;
      keep(group[p], m);
    }
  }

  double checked(Work& work, std::size_t g) {
    double allowed = 0;
    const double error = work.check(allowed);
    if (options_.tolerance >= 0) allowed = options_.tolerance;
    if (error <= allowed) return error;
    ++wrong_;
    char text[160];
    std::snprintf(text, sizeof text,
                  "the result is wrong: %.3g from the reference in double precision, where %.3g is "
                  "allowed",
                  error, allowed);
    why_[g] = text;
    throw CannotMeasure(text);
  }

  double interval(std::size_t g) const {
    double widest = 0;
    for (const Measured& m : kept_.at(g)) widest = std::max(widest, summarise(m.samples).interval);
    return widest;
  }
  bool unsure(std::size_t g) const {
    return kept_.at(g).front().disturbed || interval(g) > kNarrow;
  }

  void keep(std::size_t piece, const Measured& m) {
    journal_.add(plan_.pieces[piece].id, piece_json(plan_.pieces[piece], m));
  }

  // What made the run noisy, in words; empty where nothing did.
  std::vector<std::string> noise() const {
    std::vector<std::string> out;
    for (const auto* looks : {&computes_, &copies_}) {
      const double slow = excess(*looks, 0.9);
      const double fast = -excess(*looks, 0.1);
      if (std::max(slow, fast) <= kNoise) continue;
      out.push_back("the machine's speed changes: a " +
                    std::string(looks == &computes_ ? "product" : "copy") +
                    " that is timed between the pieces takes " + percent(fast) + " less to " +
                    percent(slow) +
                    " more than usual, a tenth of the looks on either side left out");
    }
    std::size_t disturbed = 0;
    std::size_t wide = 0;
    for (const auto& kept : kept_) {
      disturbed += kept.second.front().disturbed ? 1 : 0;
      wide += interval(kept.first) > kNoise / 2 ? 1 : 0;
    }
    const std::string of = " of " + std::to_string(kept_.size()) + " runs";
    if (10 * disturbed > kept_.size()) {
      out.push_back("something else ran on the machine during " + std::to_string(disturbed) + of);
    }
    if (wide > 0) {
      out.push_back("the median is not sure to " + percent(kNoise / 2) + " in " +
                    std::to_string(wide) + of + ": more budget, or a quieter machine, would help");
    }
    return out;
  }

  static std::string mhz(double hz) { return number(hz > 0 ? hz * 1e-6 : 0); }

  Members provenance(const std::vector<std::string>& noise) const {
    std::vector<std::string> notes;
    for (const std::string& one : noise) notes.push_back(quoted(one));
    if (journal_.taken_over() > 0) {
      notes.push_back(quoted(std::to_string(journal_.taken_over()) +
                             " pieces were measured by an earlier run"));
    }
    if (!most_.throttle.empty() && most_.throttle.find_first_not_of("0x") != std::string::npos) {
      notes.push_back(quoted("clocks_throttle_reasons of the driver: " + most_.throttle));
    }
    const Members clock = {{"first_mhz", mhz(first_.clock_hz)},
                           {"last_mhz", mhz(last_.clock_hz)},
                           {"memory_mhz", mhz(last_.memory_clock_hz)},
                           {"most_celsius", number(std::max(0.0, most_.temperature_c))},
                           {"most_watts", number(std::max(0.0, most_.power_w))}};
    if (device_.kind() == "cpu" && load_ + device_.threads() > processors() + 0.5) {
      char text[160];
      std::snprintf(text, sizeof text, "a load of %.2f on %d processors in the minute before",
                    load_, processors());
      notes.push_back(quoted(text));
    }
    const auto seconds = [](const std::vector<double>& all) {
      std::vector<std::string> out;
      for (const double s : all) out.push_back(number(s));
      return list(out);
    };
    return {{"source", quoted("eratos-device")},
            {"device", quoted(device_.name())},
            {"device_kind", quoted(device_.kind())},
            {"driver", quoted(device_.driver())},
            {"libtorch", quoted(device_.libtorch())},
            {"compiler", quoted(ERATOS_DEVICE_COMPILER)},
            {"commit", quoted(options_.commit)},
            {"host", quoted(host_name())},
            {"date_utc", quoted(utc_now())},
            {"threads", number(device_.threads())},
            {"ranks", number(ranks_)},
            {"backend", quoted(device_.backend())},
            {"clock", object(clock)},
            {"load_1min", number(std::max(0.0, load_))},
            {"budget_s", number(options_.budget_s)},
            {"spent_s", number(spent())},
            {"product_s", seconds(computes_)},
            {"copy_s", seconds(copies_)},
            {"noisy", noise.empty() ? "false" : "true"},
            {"notes", list(notes)}};
  }

  int finish() {
    std::vector<std::string> lines;
    std::vector<Unmeasured> unmeasured;
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
      for (const std::size_t i : plan_.groups[g]) {
        const std::string& id = plan_.pieces[i].id;
        if (journal_.pieces().count(id) != 0) continue;
        const auto why = why_.find(g);
        unmeasured.push_back({id, why == why_.end() ? "not reached" : why->second});
      }
    }
    for (const Piece& piece : plan_.pieces) {
      const auto found = journal_.pieces().find(piece.id);
      if (found != journal_.pieces().end()) lines.push_back(found->second);
    }
    const std::vector<std::string> noisy = kept_.empty() ? std::vector<std::string>{} : noise();
    journal_.finish(file_json(plan_, provenance(noisy), key_, lines, unmeasured));

    for (const std::string& one : noisy) std::fprintf(stderr, "noisy: %s\n", one.c_str());
    for (const Unmeasured& u : unmeasured) {
      std::fprintf(stderr, "not measured: %s: %s\n", u.id.c_str(), u.why.c_str());
    }
    std::fprintf(stderr, "%zu of %zu pieces measured in %.0f s%s: %s\n", lines.size(),
                 plan_.pieces.size(), spent(), noisy.empty() ? "" : ", noisy",
                 options_.output.c_str());
    if (interrupted()) return kInterrupted;
    if (wrong_ > 0) {
      std::fprintf(stderr, "error: %d results are wrong: this libtorch is not to be trusted here\n",
                   wrong_);
      return kEnvironment;
    }
    if (lines.empty()) {
      std::fprintf(stderr, "error: no piece of the plan could be measured\n");
      return kEnvironment;
    }
    return kAnswered;
  }

  const Options& options_;
  const Plan& plan_;
  Device& device_;
  int ranks_;
  std::string key_;
  Journal journal_;
  Clock::time_point start_;
  double load_;
  State first_, last_, most_;
  std::unique_ptr<Work> compute_, memory_;  // references
  std::vector<double> computes_, copies_;   // seconds of each look at them
  std::vector<std::size_t> todo_;
  std::map<std::size_t, std::string> why_;
  std::map<std::size_t, std::vector<Measured>> kept_;  // of each group that was timed
  int wrong_ = 0;
  double said_at_ = -1;
};

}  // namespace

int measure(const Options& options, const Plan& plan, Device& device, int ranks) {
  return Session(options, plan, device, ranks).run();
}

}  // namespace eratos::device
