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

  int run() {
    reference_work_ = device_.reference();
    watch_device();
    pass(todo_, false);
    // What was disturbed or is unsure gets a second try from what is left of the budget.
    std::vector<std::size_t> again;
    for (const std::size_t g : unsure_) {
      if (wrong_.count(g) == 0) again.push_back(g);
    }
    pass(again, true);
    reference_work_.reset();
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

  // A small product, as long ago: its median against that of the whole run says whether the machine
  // is the same.
  void watch_device() {
    std::vector<std::vector<double>> took(1);
    reference_work_->sample(1, references_.empty() ? 20 : 5, took);
    if (references_.empty()) took[0].erase(took[0].begin(), took[0].begin() + 10);
    references_.push_back(summarise(took[0]).minimum);
    const State now = state();
    last_ = now;
    most_.temperature_c = std::max(most_.temperature_c, now.temperature_c);
    most_.power_w = std::max(most_.power_w, now.power_w);
    if (!now.throttle.empty()) most_.throttle = now.throttle;
  }

  // Did the reference take longer after this group than in the run at its best?
  bool slower_than_usual() const {
    const double best = *std::min_element(references_.begin(), references_.end());
    return references_.back() > (1 + kNoise) * best;
  }

  void say_progress(std::size_t at, std::size_t of, const std::string& id, bool again) {
    if (!options_.progress) return;
    const double now = spent();
    if (said_at_ >= 0 && now - said_at_ < 0.2) return;
    said_at_ = now;
    std::fprintf(stderr, "progress %zu/%zu %s%s %.0f s left\n", at, of, id.c_str(),
                 again ? " again" : "", std::max(0.0, left()));
  }

  void pass(const std::vector<std::size_t>& groups, bool again) {
    for (std::size_t at = 0; at < groups.size(); ++at) {
      const std::size_t g = groups[at];
      const std::string& id = plan_.pieces[plan_.groups[g].front()].id;
      if (interrupted() || left() <= 0) {
        if (!again) why_[g] = interrupted() ? "interrupted" : "the budget was spent";
        continue;
      }
      say_progress(at + 1, groups.size(), id, again);
      try {
        one(g, left() / static_cast<double>(groups.size() - at), again);
      } catch (const CannotMeasure& e) {
        if (!again) why_[g] = e.what();
      }
      device_.release();
    }
  }

  void one(std::size_t g, double share, bool again) {
    const std::vector<std::size_t>& group = plan_.groups[g];
    if (plan_.pieces[group.front()].kind == "memory") {
      const std::vector<MemoryPhase> phases = device_.memory(plan_, group);
      for (std::size_t p = 0; p < group.size(); ++p) {
        Measured m;
        m.bytes_peak = phases[p].peak;
        m.bytes_reserved = phases[p].reserved;
        m.bytes_live = phases[p].live;
        keep(group[p], m);
      }
      return;
    }
    const std::unique_ptr<Work> work = device_.make(plan_, group);
    double allowed = 0;
    double error = -1;
    if (!again) {
      error = work->check(allowed);
      if (options_.tolerance >= 0) allowed = options_.tolerance;
      if (!(error <= allowed)) {
        wrong_[g] = error;
        char text[160];
        std::snprintf(
            text, sizeof text,
            "the result is wrong: %.3g from the reference in double precision, where %.3g "
            "is allowed",
            error, allowed);
        throw CannotMeasure(text);
      }
    }
    Timing timing = time_work(*work, group.size(), share, [] { return interrupted(); });
    if (timing.samples[0].empty()) {
      why_[g] = "interrupted";
      return;
    }
    watch_device();
    if (slower_than_usual()) timing.disturbed = true;
    const bool unsure = timing.disturbed || !timing.narrow;
    std::vector<Measured> found;
    for (const std::vector<double>& samples : timing.samples) {
      Measured m;
      m.samples = samples;
      m.warm_up = timing.warm_up;
      m.calls = timing.calls;
      m.error = error;
      m.disturbed = timing.disturbed;
      m.notes = work->notes();
      found.push_back(std::move(m));
    }
    if (again && !better(g, timing, found)) return;
    if (!again && unsure) unsure_.push_back(g);
    if (again) {
      for (std::size_t p = 0; p < found.size(); ++p) found[p].error = kept_[g].found[p].error;
    }
    kept_[g] = {timing.narrow, timing.disturbed, found};
    for (std::size_t p = 0; p < group.size(); ++p) keep(group[p], found[p]);
  }

  // A second try replaces the first where it was left alone and the first was not, else where its
  // medians are surer.
  bool better(std::size_t g, const Timing& timing, const std::vector<Measured>& found) {
    const Kept& before = kept_[g];
    if (timing.disturbed != before.disturbed) return !timing.disturbed;
    double now = 0;
    double then = 0;
    for (std::size_t p = 0; p < found.size(); ++p) {
      now = std::max(now, summarise(found[p].samples).interval);
      then = std::max(then, summarise(before.found[p].samples).interval);
    }
    return now < then;
  }

  void keep(std::size_t piece, const Measured& m) {
    journal_.add(plan_.pieces[piece].id, piece_json(plan_.pieces[piece], m));
  }

  // What made the run noisy, in words; empty where nothing did.
  std::vector<std::string> noise() const {
    std::vector<std::string> out;
    std::vector<double> sorted = references_;
    std::sort(sorted.begin(), sorted.end());
    const double drift = sorted[(sorted.size() - 1) * 9 / 10] / sorted.front() - 1;
    if (drift > kNoise) {
      out.push_back(
          "the machine's speed changed: a product that is timed between the pieces took up to " +
          percent(drift) + " longer than at its best in nine of ten looks");
    }
    std::size_t disturbed = 0;
    std::size_t wide = 0;
    for (const auto& kept : kept_) {
      disturbed += kept.second.disturbed ? 1 : 0;
      double interval = 0;
      for (const Measured& m : kept.second.found) {
        interval = std::max(interval, summarise(m.samples).interval);
      }
      wide += interval > kNoise ? 1 : 0;
    }
    const std::string of = " of " + std::to_string(kept_.size()) + " runs";
    if (10 * disturbed > kept_.size()) {
      out.push_back("something else ran on the machine during " + std::to_string(disturbed) + of);
    }
    if (wide > 0) {
      out.push_back("the median is not sure to " + percent(kNoise) + " in " + std::to_string(wide) +
                    of + ": more budget, or a quieter machine, would help");
    }
    if (device_.kind() == "cpu" && load_ > 0.5 + static_cast<double>(processors()) / 2) {
      char text[120];
      std::snprintf(text, sizeof text, "the load was %.2f on %d processors before the run began",
                    load_, processors());
      out.emplace_back(text);
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
    std::vector<std::string> references;
    for (const double s : references_) references.push_back(number(s));
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
            {"reference_s", list(references)},
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
    if (!wrong_.empty()) {
      std::fprintf(stderr,
                   "error: %zu results are wrong: this libtorch is not to be trusted here\n",
                   wrong_.size());
      return kEnvironment;
    }
    if (lines.empty()) {
      std::fprintf(stderr, "error: no piece of the plan could be measured\n");
      return kEnvironment;
    }
    return kAnswered;
  }

  struct Kept {
    bool narrow = false;
    bool disturbed = false;
    std::vector<Measured> found;
  };

  const Options& options_;
  const Plan& plan_;
  Device& device_;
  int ranks_;
  std::string key_;
  Journal journal_;
  Clock::time_point start_;
  double load_;
  State first_, last_, most_;
  std::unique_ptr<Work> reference_work_;
  std::vector<double> references_;
  std::vector<std::size_t> todo_;
  std::vector<std::size_t> unsure_;
  std::map<std::size_t, std::string> why_;
  std::map<std::size_t, double> wrong_;
  std::map<std::size_t, Kept> kept_;
  double said_at_ = -1;
};

}  // namespace

int measure(const Options& options, const Plan& plan, Device& device, int ranks) {
  return Session(options, plan, device, ranks).run();
}

}  // namespace eratos::device
