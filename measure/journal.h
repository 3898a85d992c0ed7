// What has been measured, on disk: a line a piece as each ends, the whole file at the end.
//
// Beside FILE stand FILE.lock while a run writes to it (it holds that run's process id and dies
// with it) and FILE.partial, the journal: a header line, then a JSON object a line, each flushed to
// the disk before the next piece begins. FILE itself is written under another name and renamed, so
// it is never half there. Its pieces stand a line each as well, so that a later run can take them
// over without taking JSON apart: `"id"` is the first key of each line.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace eratos::device {

class Journal {
 public:
  // Takes the lock. `key` says what the pieces depend on (device and plan): with `resume`, pieces
  // of the journal and of FILE that were measured under the same key are taken over; under another
  // one nothing is, and the run stops. Errors, as Fault: kEnvironment where another run holds the
  // lock or the folder cannot be written; kUsage where FILE or its journal exists and neither
  // `resume` nor `force` says what to do.
  Journal(const std::string& file, const std::string& key, bool resume, bool force);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // id -> its JSON object. A later line of one id replaces an earlier one.
  const std::map<std::string, std::string>& pieces() const { return pieces_; }
  std::size_t taken_over() const { return taken_over_; }

  // One more piece. On return it is on the disk. Errors: Fault kEnvironment (full disk); the
  // journal then ends with the last whole line.
  void add(const std::string& id, const std::string& json);

  // FILE, whole; the journal is gone afterwards. Errors: Fault kEnvironment, and the journal stays.
  void finish(const std::string& text);

  const std::string& partial() const { return partial_; }

 private:
  void lock();
  void take_over(const std::string& path, bool is_journal);

  std::string file_;
  std::string partial_;
  std::string key_;
  std::map<std::string, std::string> pieces_;
  std::size_t taken_over_ = 0;
  int lock_ = -1;
  int journal_ = -1;
  long good_ = 0;  // bytes of the journal that are whole lines
};

// The line of FILE that says under which key its pieces were measured.
std::string key_line(const std::string& key);

}  // namespace eratos::device
