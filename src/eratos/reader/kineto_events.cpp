#include "eratos/reader/kineto_events.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace eratos::reader {

namespace {

using projection::Nanoseconds;

// Bytes of a source one by one, with the place of the next.
class Stream {
 public:
  Stream(TraceSource& source, const TraceLimits& limits) : source_(source), limits_(limits) {}

  bool at_end() {
    if (!refused_.empty()) return true;
    if (at_ < size_) return false;
    size_ = source_.read(buffer_.data(), buffer_.size());
    at_ = 0;
    if (size_ == 0) refused_ = source_.failure();
    return size_ == 0;
  }
  char peek() const { return buffer_[at_]; }
  void next() {
    const char c = buffer_[at_++];
    ++bytes_;
    if (c == '\n') {
      ++line_;
      column_ = 1;
    } else {
      ++column_;
    }
    if (bytes_ > limits_.bytes) {
      refused_ = fmt::format("larger than {} bytes", limits_.bytes);
    } else if (bytes_ - value_began_ > limits_.value_bytes) {
      refused_ = fmt::format("a value of more than {} bytes", limits_.value_bytes);
    }
  }
  void value_ends() { value_began_ = bytes_; }
  std::uint64_t bytes() const { return bytes_; }
  int line() const { return line_; }
  int column() const { return column_; }
  // Why there is nothing more, where that is no proper end.
  const std::string& refused() const { return refused_; }

 private:
  TraceSource& source_;
  const TraceLimits& limits_;
  std::array<char, 1 << 16> buffer_{};
  std::size_t at_ = 0;
  std::size_t size_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t value_began_ = 0;
  int line_ = 1;
  int column_ = 1;
  std::string refused_;
};

// What nlohmann's parser reads from.
class Bytes {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  Bytes() = default;
  explicit Bytes(Stream* stream) : stream_(stream) {}
  char operator*() const { return stream_->peek(); }
  Bytes& operator++() {
    stream_->next();
    return *this;
  }
  Bytes operator++(int) {
    const Bytes before = *this;
    stream_->next();
    return before;
  }
  friend bool operator==(const Bytes& a, const Bytes& b) { return a.ended() == b.ended(); }
  friend bool operator!=(const Bytes& a, const Bytes& b) { return !(a == b); }

 private:
  bool ended() const { return stream_ == nullptr || stream_->at_end(); }
  Stream* stream_ = nullptr;
};

// Microseconds as text to whole nanoseconds: exact for up to three decimals, whatever their size.
std::optional<Nanoseconds> nanoseconds_of(std::string_view text) {
  const bool negative = !text.empty() && text.front() == '-';
  std::string_view digits = text.substr(negative ? 1 : 0);
  constexpr Nanoseconds kMost = 4'000'000'000'000'000'000;
  if (digits.find_first_of("eE") != std::string_view::npos) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    if (!(std::abs(value) < static_cast<double>(kMost) / 1e3)) return std::nullopt;
    return static_cast<Nanoseconds>(std::llround(value * 1e3));
  }
  const std::size_t point = digits.find('.');
  const std::string_view whole = digits.substr(0, point);
  const std::string_view part =
      point == std::string_view::npos ? std::string_view() : digits.substr(point + 1);
  if (whole.empty() && part.empty()) return std::nullopt;
  Nanoseconds value = 0;
  for (const char c : whole) {
    if (c < '0' || c > '9' || value > kMost / 10) return std::nullopt;
    value = value * 10 + (c - '0');
  }
  if (value > kMost / 1000) return std::nullopt;
  for (std::size_t i = 0; i < 3; ++i) {
    const char c = i < part.size() ? part[i] : '0';
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  if (part.size() > 3 && part[3] >= '5') ++value;
  return negative ? -value : value;
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

EventKind kind_called(std::string_view category) {
  constexpr std::pair<std::string_view, EventKind> kNames[] = {
      {"kernel", EventKind::kernel},
      {"gpu_memcpy", EventKind::copy},
      {"memcpy", EventKind::copy},
      {"gpu_memset", EventKind::fill},
      {"memset", EventKind::fill},
      {"cpu_op", EventKind::host_op},
      {"operator", EventKind::host_op},
      {"cuda_runtime", EventKind::runtime},
      {"cuda_driver", EventKind::runtime},
      {"hip_runtime", EventKind::runtime},
      {"runtime", EventKind::runtime},
      {"user_annotation", EventKind::annotation},
      {"gpu_user_annotation", EventKind::device_annotation},
      {"python_function", EventKind::python}};
  for (const auto& [name, kind] : kNames) {
    if (name == category) return kind;
  }
  return EventKind::other;
}

// Thrown out of the parser by a fault of the file, for its interface has no other way.
struct Refusal {
  Diagnostic why;
};

class Handler {
 public:
  Handler(Stream& stream, const std::string& file, const TraceLimits& limits, const SeeEvent& see)
      : stream_(stream), file_(file), limits_(limits), see_(see) {}

  TraceHeader header;
  bool any_list = false;  // traceEvents, or the list itself

  // nlohmann's interface of a parser without a tree.
  bool null() { return scalar("", false); }
  bool boolean(bool value) { return scalar(value ? "true" : "false", false); }
  bool number_integer(std::int64_t value) { return scalar(std::to_string(value), true); }
  bool number_unsigned(std::uint64_t value) { return scalar(std::to_string(value), true); }
  bool number_float(double /*value*/, const std::string& text) { return scalar(text, true); }
  bool string(std::string& text) { return scalar(text, false); }
  bool binary(nlohmann::json::binary_t& /*value*/) { return true; }

  bool start_object(std::size_t /*size*/) {
    stream_.value_ends();
    if (depth_ == 0) root_object_ = true;
    enter();
    const std::size_t event = event_depth();
    if (in_events_ && depth_ == event) begin_event();
    if (in_event_ && depth_ == event + 1) in_args_ = key_ == "args";
    if (in_devices_ && depth_ == devices_depth_ + 1) device_ = {-1, ""};
    if (root_object_ && depth_ == 2 && key_ == "distributedInfo") in_distributed_ = true;
    return true;
  }
  bool end_object() {
    stream_.value_ends();
    const std::size_t event = event_depth();
    if (in_event_ && depth_ == event) end_event();
    if (in_event_ && depth_ == event + 1) in_args_ = false;
    if (in_devices_ && depth_ == devices_depth_ + 1 && device_.first >= 0) {
      if (header.devices.size() < 4096) header.devices.push_back(device_);
    }
    if (depth_ == 2) in_distributed_ = false;
    --depth_;
    return true;
  }
  bool start_array(std::size_t /*size*/) {
    stream_.value_ends();
    if (depth_ == 0) {
      header.list_form = true;
      in_events_ = true;
      any_list = true;
    }
    enter();
    if (root_object_ && depth_ == 2 && key_ == "traceEvents") {
      in_events_ = true;
      any_list = true;
    }
    if (root_object_ && depth_ == 2 && key_ == "deviceProperties") {
      in_devices_ = true;
      devices_depth_ = depth_;
    }
    if (in_args_) {
      const std::size_t level = depth_ - event_depth() - 1;  // 1: the list of inputs
      if (level == 1) list_ = key_;
      if (level == 2 && is_dims()) add_input();
    }
    return true;
  }
  bool end_array() {
    stream_.value_ends();
    if (root_object_ && depth_ == 2) {
      in_events_ = false;
      in_devices_ = false;
    }
    if (in_args_ && depth_ == event_depth() + 2) list_.clear();
    --depth_;
    return true;
  }
  bool key(std::string& text) {
    stream_.value_ends();
    key_ = text;
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& token,
                   const nlohmann::json::exception& /*error*/) {
    Diagnostic why{{file_, stream_.line(), stream_.column()}, "", "", {}};
    if (!stream_.refused().empty()) {
      why.message = stream_.refused();
      why.cure = "is this a trace of the PyTorch profiler?";
    } else if (stream_.bytes() == 0) {
      why.where = {file_, 0, 0};
      why.message = "is empty";
      why.cure = "export the trace again";
    } else if (stream_.at_end()) {
      why.message =
          fmt::format("ends after {} bytes, in the middle of {}", stream_.bytes(),
                      header.events > 0 ? fmt::format("a trace, {} events into it", header.events)
                                        : std::string("a value"));
      why.cure =
          "the program was stopped while it wrote, or the copy is not whole: export it again";
    } else {
      std::string shown;
      for (const char c : token.substr(0, 40)) {
        shown += std::isprint(static_cast<unsigned char>(c)) != 0 ? c : '?';
      }
      why.message = fmt::format("not JSON at byte {}: `{}`", stream_.bytes(), shown);
      why.cure = header.events > 0 ? "the file is damaged here: export it again"
                                   : "a trace is the JSON that export_chrome_trace writes";
    }
    throw Refusal{std::move(why)};
  }

 private:
  std::size_t event_depth() const { return header.list_form ? 2 : 3; }
  bool is_dims() const { return list_ == "Input Dims" || list_ == "Input dims"; }

  // An op of more inputs is none that has a shape here.
  static constexpr std::size_t kMostInputs = 64;
  void add_input() {
    if (event_.dims.size() < kMostInputs) event_.dims.emplace_back();
  }

  void enter() {
    if (++depth_ <= limits_.depth) return;
    throw Refusal{{{file_, stream_.line(), stream_.column()},
                   fmt::format("nested deeper than {} levels", limits_.depth),
                   "no profiler writes that: is this the right file?",
                   {}}};
  }

  void begin_event() {
    in_event_ = true;
    event_ = {};
    phase_.clear();
    process_word_.clear();
    start_.reset();
    length_.reset();
  }

  void end_event() {
    in_event_ = false;
    ++header.events;
    if (phase_ != "X") return;
    // The older profiler names no categories; its devices' work has a process of its own.
    if (event_.kind == EventKind::other && !process_word_.empty()) {
      if (process_word_.find("CUDA functions") != std::string::npos) {
        event_.kind = EventKind::kernel;
        event_.device = 0;
      } else if (process_word_.find("CPU functions") != std::string::npos) {
        event_.kind = EventKind::host_op;
      }
    }
    if (!start_) {
      ++header.untimed;
    } else if (length_.value_or(0) < 0) {
      ++header.negative;
    } else {
      event_.timed = true;
      event_.start = *start_;
      event_.end = *start_ + length_.value_or(0);
    }
    if (event_.device < 0) event_.device = event_.process;
    if (event_.stream < 0) event_.stream = event_.thread;
    see_(event_);
  }

  bool scalar(const std::string& text, bool number) {
    stream_.value_ends();
    if (in_event_) {
      const std::size_t level = depth_ - event_depth();
      if (level == 0) {
        of_event(text);
      } else if (in_args_ && level == 1) {
        of_args(text);
      } else if (in_args_ && level == 2 && list_ == "Input type") {
        if (event_.types.size() < kMostInputs) event_.types.push_back(text.substr(0, 64));
      } else if (in_args_ && level == 2 && is_dims()) {
        add_input();  // no tensor, in a form of its own
      } else if (in_args_ && level == 3 && is_dims() && number && !event_.dims.empty()) {
        // Beyond 8 axes nothing is a product or an attention.
        if (event_.dims.back().size() < 8)
          event_.dims.back().push_back(number_of(text).value_or(0));
      }
      return true;
    }
    if (in_devices_ && depth_ == devices_depth_ + 1) {
      if (key_ == "id") device_.first = whole(text);
      if (key_ == "name") device_.second = text.substr(0, 256);
    }
    if (in_distributed_ && depth_ == 2) {
      if (key_ == "rank") header.rank = whole(text);
      if (key_ == "world_size") header.world = whole(text);
    }
    return true;
  }

  static std::int64_t whole(std::string_view text) {
    const auto value = number_of(text);
    return value && std::abs(*value) < 9e15 ? static_cast<std::int64_t>(*value) : -1;
  }

  void of_event(const std::string& text) {
    constexpr std::size_t kLongestName = 4096;  // templates of templates
    if (key_ == "name") event_.name = text.substr(0, kLongestName);
    if (key_ == "ph") phase_ = text.substr(0, 4);
    if (key_ == "cat") event_.kind = kind_called(lower(text.substr(0, 64)));
    if (key_ == "ts") start_ = nanoseconds_of(text);
    if (key_ == "dur") length_ = nanoseconds_of(text);
    if (key_ == "tid") event_.thread = number_or_hash(text);
    if (key_ == "pid") {
      event_.process = number_or_hash(text);
      if (!number_of(text)) process_word_ = text.substr(0, 64);
    }
  }

  // Threads may have names; equal names are one thread.
  static std::int64_t number_or_hash(const std::string& text) {
    if (number_of(text)) return whole(text);
    std::uint64_t hash = 1469598103934665603ULL;  // FNV-1a
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    return static_cast<std::int64_t>(hash >> 2);
  }

  void of_args(const std::string& text) {
    if (key_ == "External id" || key_ == "external id") event_.external = whole(text);
    if (key_ == "correlation") event_.correlation = whole(text);
    if (key_ == "Sequence number") event_.sequence = whole(text);
    if (key_ == "stream") event_.stream = number_of(text) ? whole(text) : -1;
    if (key_ == "device") event_.device = whole(text);
    if (key_ == "Collective name") event_.collective = text.substr(0, 64);
    if (key_ == "dtype") event_.dtype = text.substr(0, 64);
    if (key_ == "In msg nelems") event_.in_elements = number_of(text).value_or(0);
    if (key_ == "Out msg nelems") event_.out_elements = number_of(text).value_or(0);
    if (key_ == "Group size") event_.group_size = number_of(text).value_or(0);
  }

  Stream& stream_;
  const std::string& file_;
  const TraceLimits& limits_;
  const SeeEvent& see_;
  std::size_t depth_ = 0;
  std::string key_;
  std::string list_;  // of args, whose items come
  bool root_object_ = false;
  bool in_events_ = false;
  bool in_event_ = false;
  bool in_args_ = false;
  bool in_devices_ = false;
  bool in_distributed_ = false;
  std::size_t devices_depth_ = 0;
  std::pair<std::int64_t, std::string> device_{-1, ""};
  TraceEvent event_;
  std::string phase_;
  std::string process_word_;
  std::optional<Nanoseconds> start_;
  std::optional<Nanoseconds> length_;
};

}  // namespace

Result<TraceHeader> read_events(TraceSource& source, const std::string& file,
                                const TraceLimits& limits, const SeeEvent& see) {
  const auto stream = std::make_unique<Stream>(source, limits);
  Handler handler(*stream, file, limits, see);
  try {
    nlohmann::json::sax_parse(Bytes(stream.get()), Bytes(), &handler);
  } catch (Refusal& refusal) {
    return fault(std::move(refusal.why));
  }
  handler.header.bytes = stream->bytes();
  if (!stream->refused().empty()) {
    return fault({{file, stream->line(), stream->column()},
                  stream->refused(),
                  "the copy is not whole: export the trace again",
                  {}});
  }
  if (!handler.any_list) {
    return fault({{file, 1, 1},
                  "JSON, but no trace: it has no `traceEvents`",
                  "hand in what torch.profiler's export_chrome_trace wrote",
                  {}});
  }
  return handler.header;
}

}  // namespace eratos::reader
