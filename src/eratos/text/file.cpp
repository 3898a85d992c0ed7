#include "eratos/text/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace eratos::text {
namespace {

namespace fs = std::filesystem;

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  bool close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

tl::unexpected<Diagnostics> refuse(const std::string& path, std::string message, std::string cure) {
  return fault({{path, 0, 0}, std::move(message), std::move(cure)});
}

std::string reason(int error) { return std::generic_category().message(error); }

std::string near_name(const std::string& path) {
  const fs::path wanted(path);
  const fs::path folder = wanted.has_parent_path() ? wanted.parent_path() : fs::path(".");
  std::vector<std::string> names;
  std::error_code error;
  constexpr std::size_t kLooked = 2000;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
    if (names.size() >= kLooked) break;
  }
  std::sort(names.begin(), names.end());
  return nearest_name(wanted.filename().string(), names);
}

tl::unexpected<Diagnostics> cannot_open(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    const std::string near = near_name(path);
    return refuse(path, "no such file",
                  near.empty() ? "check the path" : "did you mean `" + near + "`?");
  }
  return refuse(path, "cannot be read: " + reason(error), "check the permissions");
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

tl::unexpected<Diagnostics> cannot_write(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    return refuse(path, "its folder does not exist", "create the folder first");
  }
  return refuse(path, "cannot be written: " + reason(error),
                "check the permissions and the free space");
}

tl::unexpected<Diagnostics> exists_already(const std::string& path) {
  return refuse(path, "exists already and is left as it is",
                "choose another name or ask for it to be overwritten");
}

// A name beside `target` that no other writer uses.
std::string name_beside(const std::string& target) {
  static std::atomic<unsigned> count{0};
  return target + ".part-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
}

// Moves `part` to `target`; 0 or errno. Without `overwrite`, EEXIST when there is a target.
int publish(const std::string& part, const std::string& target, bool overwrite) {
  if (overwrite) return ::rename(part.c_str(), target.c_str()) == 0 ? 0 : errno;
  // A hard link fails when the name exists, where rename would replace it.
  if (::link(part.c_str(), target.c_str()) == 0) {
    ::unlink(part.c_str());
    return 0;
  }
  const int error = errno;
  if (error == EEXIST || error == ENOENT) return error;
  // File systems without hard links: the name is taken first, then the content moves over it.
  const int fd = ::open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return errno;
  ::close(fd);
  return ::rename(part.c_str(), target.c_str()) == 0 ? 0 : errno;
}

}  // namespace

Diagnostic too_large(const std::string& file, std::size_t bytes, std::size_t max_bytes) {
  return {
      {file, 0, 0},
      "too large: " + std::to_string(bytes) + " bytes, the limit is " + std::to_string(max_bytes),
      "is this the right file?"};
}

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return cannot_open(path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return cannot_open(path, errno);
  if (S_ISDIR(status.st_mode)) return refuse(path, "is a folder", "name a file inside it");
  std::string bytes;
  if (S_ISREG(status.st_mode)) {
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size > max_bytes) return fault(too_large(path, size, max_bytes));
    bytes.reserve(size + 1);
  }
  // One byte more than allowed tells a file that is too large, whatever its size claimed.
  constexpr std::size_t kPiece = 65536;
  while (bytes.size() <= max_bytes) {
    const std::size_t have = bytes.size();
    const std::size_t piece = std::min(kPiece, max_bytes + 1 - have);
    bytes.resize(have + piece);
    const ssize_t n = ::read(file.get(), bytes.data() + have, piece);
    bytes.resize(have + (n > 0 ? static_cast<std::size_t>(n) : 0));
    if (n == 0) return bytes;
    if (n < 0 && errno != EINTR) return cannot_open(path, errno);
  }
  return refuse(path, "too large: more than " + std::to_string(max_bytes) + " bytes",
                "is this the right file?");
}

Result<void> write_file(const std::string& path, std::string_view text, Overwrite overwrite) {
  std::string target = path;
  mode_t mode = 0;
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return refuse(path, "is a folder", "name a file inside it");
    if (!S_ISREG(status.st_mode)) {
      Descriptor device(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
      if (device.get() < 0 || !write_all(device.get(), text)) return cannot_write(path, errno);
      return {};
    }
    if (overwrite == Overwrite::no) return exists_already(path);
    if (::access(path.c_str(), W_OK) != 0) return cannot_write(path, errno);
    mode = status.st_mode & 07777U;
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (!error) target = real.string();
  }

  const std::string part = name_beside(target);
  Descriptor file(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0) return cannot_write(path, errno);
  const bool kept_mode = mode == 0 || ::fchmod(file.get(), mode) == 0;
  int error = kept_mode && write_all(file.get(), text) ? 0 : errno;
  if (!file.close() && error == 0) error = errno;
  if (error == 0) error = publish(part, target, overwrite == Overwrite::yes);
  if (error == 0) return {};
  ::unlink(part.c_str());
  if (error == EEXIST) return exists_already(path);
  return cannot_write(path, error);
}

}  // namespace eratos::text
