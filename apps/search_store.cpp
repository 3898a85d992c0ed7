#include "apps/search_store.h"

#include <cstdio>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/exit_code.h"
#include "apps/output.h"
#include "eratos/report/quantity.h"
#include "eratos/store/stored_answers.h"

namespace eratos::apps {

namespace {

int code_of(store::Trouble::Kind kind) {
  switch (kind) {
    case store::Trouble::Kind::usage:
      return kUsage;
    case store::Trouble::Kind::bad_file:
      return kBadInput;
    case store::Trouble::Kind::environment:
      return kEnvironment;
  }
  return kBug;
}

// The command as it was typed, flags behind its words.
std::string said(const Arguments& arguments) {
  std::string out = arguments.command;
  for (const std::string& word : arguments.words) out += ' ' + word;
  for (const auto& [flag, values] : arguments.flags) {
    if (values.empty()) out += ' ' + flag;
    for (const std::string& value : values) out += ' ' + flag + (value.empty() ? "" : ' ' + value);
  }
  return out;
}

void say(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

}  // namespace

std::string store_fault(const Arguments& arguments) {
  if (arguments.has("--resume") && !arguments.has("--store")) {
    return "`--resume` goes on from a file: name it with --store FILE";
  }
  if (arguments.has("--store") && arguments.has("--explain-space")) {
    return "`--store` keeps answers of the model, and `--explain-space` asks it nothing";
  }
  return "";
}

class SearchStore::Stored final : public Answers {
 public:
  Stored(SearchStore& owner, const SearchRun& run, std::unique_ptr<Answers> others)
      : owner_(owner),
        answers_(*owner.store_, run.space, run.calibration, run.options),
        others_(std::move(others)) {}
  ~Stored() override {
    owner_.found_ += answers_.found();
    owner_.asked_ += answers_.asked();
    owner_.damaged_ += answers_.damaged();
    owner_.store_->flush(true);  // before anything is printed: who reads that may end us
    owner_.look_at_trouble();
  }
  Stored(const Stored&) = delete;
  Stored& operator=(const Stored&) = delete;

  void answer(std::span<const search::Ask> asks, std::span<search::Tell> tells,
              const std::function<void()>& beside) override {
    const std::vector<std::size_t> missing = answers_.find(asks, tells);
    if (missing.size() == asks.size()) {
      others_->answer(asks, tells, beside);
    } else if (!missing.empty()) {
      asks_.clear();
      for (const std::size_t i : missing) asks_.push_back(asks[i]);
      tells_.resize(missing.size());
      others_->answer(asks_, tells_, beside);
      for (std::size_t i = 0; i < missing.size(); ++i) tells[missing[i]] = tells_[i];
    } else {
      beside();
    }
    if (!missing.empty()) answers_.keep(asks, tells);
    owner_.look_at_trouble();
  }

 private:
  SearchStore& owner_;
  store::StoredAnswers answers_;
  std::unique_ptr<Answers> others_;
  std::vector<search::Ask> asks_;
  std::vector<search::Tell> tells_;
};

SearchStore::SearchStore(const Arguments& arguments) : arguments_(arguments) {}
SearchStore::~SearchStore() = default;

int SearchStore::report(const store::Trouble& trouble) {
  report_faults({trouble.what});
  return code_of(trouble.kind);
}

void SearchStore::look_at_trouble() {
  if (troubled_ || !store_->trouble()) return;
  troubled_ = true;
  report(*store_->trouble());
  say("search: goes on without --store");
}

int SearchStore::begin(const SearchRun& run) {
  if (!arguments_.has("--store")) return kAnswered;
  const std::string file = arguments_.value("--store");
  if (store_ == nullptr) {
    auto opened = store::Store::open(file, arguments_.has("--resume"));
    if (!opened) return report(opened.error());
    store_ = *std::move(opened);
  }
  const store::Identity identity = store::identity_of(run.space, run.calibration, run.options);
  if (arguments_.has("--resume") && !begun_) {
    const std::vector<store::SearchRecord> there = store_->searches();
    if (store_->trouble()) return report(*store_->trouble());
    const std::string other = there.empty() ? "it holds none" : store::differences(identity, there);
    if (!other.empty()) {
      return report_faults({{.where = {.file = file},
                             .message = "no search to resume: " + other,
                             .cure = "leave --resume out to begin"}});
    }
  }
  begun_ = true;
  store_->add({identity, said(arguments_)});
  return store_->trouble() ? report(*store_->trouble()) : int{kAnswered};
}

std::unique_ptr<Answers> SearchStore::before(const SearchRun& run,
                                             std::unique_ptr<Answers> others) {
  if (store_ == nullptr) return others;
  return std::make_unique<Stored>(*this, run, std::move(others));
}

int SearchStore::end(int code) {
  if (store_ == nullptr) {
    if (code == kInterrupted) {
      say("search: interrupted; with --store FILE the same command could go on from here");
    }
    return code;
  }
  store_->flush(true);
  const std::string file = arguments_.value("--store");
  const auto count = [](std::size_t n) { return report::thousands(static_cast<double>(n)); };
  if (found_ > 0) {
    say(fmt::format("search: {} of {} answers were in {}", count(found_), count(asked_), file));
  }
  if (damaged_ > 0) {
    say(fmt::format("search: {} answers in {} were damaged and have been made again",
                    count(damaged_), file));
  }
  look_at_trouble();
  if (code == kInterrupted) {
    if (!troubled_) say("search: interrupted; the same command with --resume goes on from here");
    return code;
  }
  return store_->trouble() ? code_of(store_->trouble()->kind) : code;
}

}  // namespace eratos::apps
