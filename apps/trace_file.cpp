#include "apps/trace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "eratos/text/file.h"

#ifdef ERATOS_ZLIB
#include <zlib.h>
#endif

namespace eratos::apps {

namespace {

// Bytes of the file as they are, and how many of them are read.
class FileBytes {
 public:
  FileBytes(int fd, std::uint64_t size, bool progress)
      : fd_(fd), size_(size), progress_(progress && isatty(STDERR_FILENO) != 0) {}
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  ~FileBytes() {
    if (shown_) std::fprintf(stderr, "\r\033[K");
    ::close(fd_);
  }

  std::size_t read(char* to, std::size_t most) {
    ssize_t n = 0;
    do {
      n = ::read(fd_, to, most);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
      failure_ = "cannot be read on: " + std::generic_category().message(errno);
      return 0;
    }
    done_ += static_cast<std::uint64_t>(n);
    if (progress_) show();
    return static_cast<std::size_t>(n);
  }
  const std::string& failure() const { return failure_; }

 private:
  void show() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(250) || now - began_ < std::chrono::seconds(1)) {
      return;
    }
    last_ = now;
    shown_ = true;
    if (size_ > 0) {
      std::fprintf(stderr, "\r\033[Kread %.0f%% of %.1f MB",
                   100.0 * static_cast<double>(done_) / static_cast<double>(size_),
                   static_cast<double>(size_) / 1e6);
    } else {
      std::fprintf(stderr, "\r\033[Kread %.1f MB", static_cast<double>(done_) / 1e6);
    }
  }

  int fd_;
  std::uint64_t size_;
  bool progress_;
  bool shown_ = false;
  std::uint64_t done_ = 0;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_ = began_;
  std::string failure_;
};

class PlainTrace final : public reader::TraceSource {
 public:
  explicit PlainTrace(std::unique_ptr<FileBytes> bytes) : bytes_(std::move(bytes)) {}
  std::size_t read(char* to, std::size_t most) override { return bytes_->read(to, most); }
  std::string failure() const override { return bytes_->failure(); }

 private:
  std::unique_ptr<FileBytes> bytes_;
};

#ifdef ERATOS_ZLIB
// Archives of one or more members, as gzip writes them.
class PackedTrace final : public reader::TraceSource {
 public:
  explicit PackedTrace(std::unique_ptr<FileBytes> bytes) : bytes_(std::move(bytes)) {
    open_ = inflateInit2(&stream_, 15 + 16) == Z_OK;  // the largest window, a gzip header
    if (!open_) failure_ = "cannot be unpacked: no memory";
  }
  ~PackedTrace() override {
    if (open_) inflateEnd(&stream_);
  }

  std::size_t read(char* to, std::size_t most) override {
    if (!open_ || !failure_.empty() || ended_) return 0;
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(most, 1U << 30));
    const uInt room = stream_.avail_out;
    while (stream_.avail_out == room) {
      if (stream_.avail_in == 0) {
        const std::size_t n = bytes_->read(buffer_.data(), buffer_.size());
        if (n == 0) {
          if (!between_members_) failure_ = "the archive ends before its end";
          if (!bytes_->failure().empty()) failure_ = bytes_->failure();
          ended_ = true;
          break;
        }
        stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
        stream_.avail_in = static_cast<uInt>(n);
      }
      if (between_members_) {
        inflateReset(&stream_);
        between_members_ = false;
      }
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) {
        between_members_ = true;
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        failure_ = fmt::format("the archive is damaged: {}",
                               stream_.msg != nullptr ? stream_.msg : "not gzip");
        break;
      }
    }
    return room - stream_.avail_out;
  }
  std::string failure() const override { return failure_; }

 private:
  std::unique_ptr<FileBytes> bytes_;
  z_stream stream_{};
  std::array<char, 1 << 16> buffer_{};
  bool open_ = false;
  bool between_members_ = false;
  bool ended_ = false;
  std::string failure_;
};
#endif

tl::unexpected<Diagnostics> refuse(const std::string& path, std::string message, std::string cure) {
  return fault({{path, 0, 0}, std::move(message), std::move(cure), {}});
}

}  // namespace

Result<std::unique_ptr<reader::TraceSource>> open_trace(const std::string& path, bool progress,
                                                        bool& lacks_zlib) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    // The text room knows how to say it, near names included.
    const Result<std::string> said = text::read_file(path, 1);
    if (!said) return faults(said.error());
    return refuse(path, "cannot be read", "check the permissions");
  }
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0;
  if (known && S_ISDIR(status.st_mode)) {
    ::close(fd);
    return refuse(path, "is a folder", "name the trace inside it");
  }
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(fd);
    return refuse(path, "is no regular file", "a trace is read twice: write it to a file first");
  }
  std::array<unsigned char, 2> magic{};
  const bool packed =
      ::pread(fd, magic.data(), magic.size(), 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
  auto bytes =
      std::make_unique<FileBytes>(fd, static_cast<std::uint64_t>(status.st_size), progress);
  if (!packed) return std::make_unique<PlainTrace>(std::move(bytes));
#ifdef ERATOS_ZLIB
  lacks_zlib = false;
  return std::make_unique<PackedTrace>(std::move(bytes));
#else
  lacks_zlib = true;
  return refuse(path, "is a gzip archive, and this eratos was built without zlib",
                "unpack it first, or build where zlib is (Debian: zlib1g-dev)");
#endif
}

}  // namespace eratos::apps
