#include "journal.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faults.h"
#include "record.h"

namespace eratos::device {

namespace {

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

[[noreturn]] void cannot_write(const std::string& path, int why, const std::string& cure) {
  throw Fault(kEnvironment,
              "error: " + path + ": cannot be written: " + std::strerror(why) + "; " + cure);
}

// Everything of `text`, or errno.
int write_all(int to, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(to, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : ENOSPC;
    done += static_cast<std::size_t>(n);
  }
  return 0;
}

// The id of a line that begins with {"id":"..."; "" for any other.
std::string id_of(const std::string& line) {
  static const std::string begin = "{\"id\":\"";
  if (line.compare(0, begin.size(), begin) != 0) return "";
  const std::size_t end = line.find('"', begin.size());
  return end == std::string::npos ? "" : line.substr(begin.size(), end - begin.size());
}

}  // namespace

std::string key_line(const std::string& key) { return "\"key\":" + quoted(key); }

Journal::Journal(const std::string& file, const std::string& key, bool resume, bool force)
    : file_(file), partial_(file + ".partial"), key_(key) {
  struct stat status {};
  if (::stat(file.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    throw Fault(kUsage, "error: " + file + ": is a folder; name a file inside it");
  }
  lock();
  if (resume) {
    take_over(file_, false);
    take_over(partial_, true);
  } else if (!force) {
    if (exists(file_)) {
      throw Fault(kUsage, "error: " + file_ +
                              ": exists already and is left as it is; --resume adds to it, --force "
                              "replaces it, or choose another name");
    }
    if (exists(partial_)) {
      throw Fault(kUsage, "error: " + partial_ +
                              ": holds what an earlier run measured before it was ended; --resume "
                              "takes it over, --force drops it");
    }
  }
  taken_over_ = pieces_.size();
  journal_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (journal_ < 0) cannot_write(partial_, errno, "give the folder room and rights");
  std::string begin = "{\"eratos_journal\":1," + key_line(key_) + "}\n";
  for (const auto& piece : pieces_) begin += piece.second + '\n';
  const int failed = write_all(journal_, begin);
  if (failed != 0) cannot_write(partial_, failed, "free some space");
  good_ = static_cast<long>(begin.size());
}

Journal::~Journal() {
  if (journal_ >= 0) ::close(journal_);
  if (lock_ >= 0) {
    ::unlink((file_ + ".lock").c_str());
    ::close(lock_);
  }
}

// The lock is the kernel's (flock): it goes with its process, however that ends, so a file that is
// left behind locks nobody out. The number in it is for the message alone.
void Journal::lock() {
  const std::string path = file_ + ".lock";
  for (;;) {
    lock_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock_ < 0)
      cannot_write(path, errno, "does its folder exist, with the right to write there?");
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
      char pid[32] = {};
      const ssize_t n = ::read(lock_, pid, sizeof pid - 1);
      const std::string who =
          n > 0 ? " (process " + std::string(pid, static_cast<std::size_t>(n)) + ')' : "";
      ::close(lock_);
      lock_ = -1;
      throw Fault(kEnvironment, "error: " + file_ + ": another run" + who +
                                    " writes to it; wait for it, or choose another name");
    }
    // Its last holder may have removed the name between our open and our lock.
    struct stat ours {};
    struct stat named {};
    if (::fstat(lock_, &ours) == 0 && ::stat(path.c_str(), &named) == 0 &&
        ours.st_ino == named.st_ino) {
      break;
    }
    ::close(lock_);
  }
  if (::ftruncate(lock_, 0) != 0 || write_all(lock_, std::to_string(::getpid())) != 0) {
    // The lock holds without the number.
    return;
  }
}

void Journal::take_over(const std::string& path, bool is_journal) {
  std::ifstream in(path);
  if (!in) return;
  std::map<std::string, std::string> found;
  bool ours = false;
  bool same = false;
  std::string line;
  while (std::getline(in, line)) {
    if (in.eof()) break;  // no newline behind it: torn when its run was ended
    if (line.find("\"eratos_journal\"") != std::string::npos ||
        line.find("\"eratos_measured\"") != std::string::npos) {
      ours = true;
    }
    if (line.find(key_line(key_)) != std::string::npos) same = true;
    if (!line.empty() && line.back() == ',') line.pop_back();
    const std::string id = id_of(line);
    if (id.empty() || line.back() != '}' || line.find("\"why\":") != std::string::npos) continue;
    found[id] = line;
  }
  if (!ours && !is_journal) {
    throw Fault(kUsage, "error: " + path +
                            ": was not written by this program, so --resume cannot add "
                            "to it; choose another name");
  }
  if (!ours) return;  // a journal whose first line was never finished: nothing was measured
  if (!same) {
    throw Fault(kUsage, "error: " + path +
                            ": was measured on another device or for another plan, so --resume "
                            "cannot add to it; choose another name, or --force to replace it");
  }
  for (auto& one : found) pieces_[one.first] = one.second;
}

void Journal::add(const std::string& id, const std::string& json) {
  const std::string line = json + '\n';
  int failed = write_all(journal_, line);
  if (failed == 0 && ::fsync(journal_) != 0 && errno != EINVAL && errno != EROFS) failed = errno;
  if (failed != 0) {
    if (::ftruncate(journal_, good_) != 0) failed = errno;
    cannot_write(partial_, failed,
                 "what was measured before is kept there: free some space, then --resume");
  }
  good_ += static_cast<long>(line.size());
  pieces_[id] = json;
}

void Journal::finish(const std::string& text) {
  const std::string whole = file_ + ".whole";
  const std::string cure =
      "what was measured is kept in " + partial_ + ": free some space, then --resume";
  const int out = ::open(whole.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (out < 0) cannot_write(file_, errno, cure);
  int failed = write_all(out, text);
  if (failed == 0 && ::fsync(out) != 0 && errno != EINVAL && errno != EROFS) failed = errno;
  ::close(out);
  if (failed == 0 && std::rename(whole.c_str(), file_.c_str()) != 0) failed = errno;
  if (failed != 0) {
    ::unlink(whole.c_str());
    cannot_write(file_, failed, cure);
  }
  ::unlink(partial_.c_str());
}

}  // namespace eratos::device
