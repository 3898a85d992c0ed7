// What a tuning run leaves on disk, and how it goes on after a crash.
//
// A folder holds
//   run.json       what the run was asked: a resumed one must be asked the same
//   trials.jsonl   a line a trial, appended and flushed to the disk before anyone sees the trial
//   notes.jsonl    a line a note
//   paid.jsonl     a line a measurement or run that was paid for, written before its trial
// A run is a pure function of what it was asked and of what its oracles answered. So a resumed one
// goes through the same steps again, takes each trial from the records while they last, and arrives
// where it was; a last line that a crash has torn off is dropped. Where the steps differ all the
// same (another version of eratos), the rest of the old trials is set aside, but never a
// measurement: paid.jsonl answers by job, whatever the order.
//
// Worked example: killed while trial 17 was written, whose measurement had come back: 16 whole
// lines and half of one are read, trial 17 is made again and its measurement found in paid.jsonl.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "eratos/agent/trial.h"
#include "eratos/base/diagnostic.h"
#include "eratos/text/tree.h"

namespace eratos::agent {

text::Node node_of(const Trial& trial);
Result<Trial> trial_of(const text::Node& node);
text::Node node_of(const Measured& measured);  // null: what was not stated
Result<Measured> measured_of(const text::Node& node);

// Appends whole lines to one file, each on the disk before append() returns.
class Journal {
 public:
  Journal() = default;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();
  // Keeps the lines that are whole and drops a torn one. Errors: cannot be opened or read.
  Result<std::vector<std::string>> open(const std::string& path);
  Result<void> append(const std::string& line);
  // Drops all but the first `lines`.
  Result<void> keep(std::size_t lines);

 private:
  std::string path_;
  int file_ = -1;
  std::vector<std::size_t> ends_;  // of each line
};

enum class Folder : std::uint8_t {
  fresh,   // must be new or empty of a run
  resume,  // goes on with the run that is there, or begins where there is none
  force,   // what a run has left there is replaced
};

// What a run has left there, whole or begun.
bool holds_run(const std::string& folder);

class Records {
 public:
  // Without a folder: nothing is written (tests, dry runs).
  Records() = default;

  // `asked` is compared with that of the run that is there. Errors: the folder holds another run,
  // or is used by another process; it cannot be made, read or written.
  Result<void> open(const std::string& folder, Folder how, const text::Node& asked);

  // The trial that this number had when the run was made before; null beyond those.
  const Trial* before(int number) const;
  // A measurement or run of the job that was paid for; null where there is none.
  const Measured* paid(const std::string& digest, Fidelity fidelity) const;

  // A measurement that an earlier run made: it costs this one nothing.
  void remember(const std::string& digest, const Measured& measured);
  const Measured* remembered(const std::string& digest) const;

  void pay(const std::string& digest, Fidelity fidelity, const Measured& measured);
  void add(const Trial& trial);  // does nothing where before(number) is the same
  void add_note(int number, const std::string& text);

  // A whole file of the folder, replaced at once. Errors: cannot be written.
  Result<void> write(const std::string& name, const std::string& text);

  // Set once the disk refused something: nothing is written any more, and the run should end.
  const std::optional<Diagnostic>& trouble() const { return trouble_; }
  const std::string& folder() const { return folder_; }
  std::size_t resumed() const { return before_.size(); }  // trials of the run before

 private:
  void take(const Result<void>& written);

  std::string folder_;
  Journal trials_;
  Journal notes_;
  Journal payments_;
  std::vector<Trial> before_;
  std::size_t old_notes_ = 0;
  std::size_t notes_seen_ = 0;
  std::map<std::pair<std::string, Fidelity>, Measured> paid_;
  std::map<std::string, Measured> remembered_;
  std::optional<Diagnostic> trouble_;
};

}  // namespace eratos::agent
