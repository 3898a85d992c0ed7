#include "eratos/report/snapshot.h"

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "eratos/report/pickle.h"

namespace eratos::report {

namespace {

using projection::AllocationEvent;
using projection::AllocationTrace;
using projection::EventKind;
using projection::HeldAs;
using projection::Owner;

constexpr std::int64_t kPicosecondsPerMicrosecond = 1000000;

bool is_state(HeldAs h) {
  return h == HeldAs::weight || h == HeldAs::gradient || h == HeldAs::optimizer;
}

class Writer {
 public:
  Writer(const AllocationTrace& trace, const std::string& version)
      : trace_(trace), version_(version), stacks_(trace.owners.size(), -1) {}

  std::string write() {
    out_.begin_dict();
    out_.string("segments");
    segments();
    out_.string("device_traces");
    out_.begin_list();
    events();
    out_.end_item();
    out_.string("eratos");
    about();
    out_.end_dict();
    return out_.finish();
  }

 private:
  void number(const char* key, std::int64_t value) {
    out_.string(key);
    out_.integer(value);
  }
  void word(const char* key, std::string_view value) {
    out_.string(key);
    out_.string(value);
  }

  // One line of a stack; equal ones are written once.
  void frame(const std::string& file, std::int64_t line, std::string_view function) {
    const auto [known, fresh] = frames_.try_emplace({file, line, std::string(function)}, 0);
    if (!fresh) {
      out_.refer(known->second);
      return;
    }
    out_.begin_dict();
    word("filename", file);
    number("line", line);
    word("name", function);
    out_.end_dict();
    known->second = out_.remember();
  }

  void stack(std::int32_t owner) {
    std::int32_t& written = stacks_[static_cast<std::size_t>(owner)];
    if (written >= 0) {
      out_.refer(written);
      return;
    }
    const Owner& o = trace_.owners[static_cast<std::size_t>(owner)];
    out_.begin_list();
    // A tensor that no op writes comes from outside: op 0 of none.
    frame(fmt::format("{}/{}", ops::name_of(o.module), projection::name_of(o.held)),
          o.op < 0 ? 0 : o.op, o.tensor);
    out_.end_item();
    if (o.program[0] != '\0') {
      frame(o.program, o.block < 0 ? 0 : o.block, "block of the model");
      out_.end_item();
    }
    if (o.micro_batch >= 0) {
      frame(std::string(schedule::name_of(o.kind)), o.micro_batch, "micro-batch");
    } else {
      frame(is_state(o.held) ? "state" : "held all step", 0,
            fmt::format("pipeline rank {}", trace_.rank));
    }
    out_.end_item();
    written = out_.remember();
  }

  void no_frames() {
    out_.string("frames");
    out_.begin_list();
  }

  void segments() {
    out_.begin_list();
    for (const auto& s : trace_.allocator.segments()) {
      const auto blocks = trace_.allocator.blocks_of(s);
      std::int64_t allocated = 0;
      std::int64_t requested = 0;
      for (const auto& b : blocks) {
        if (b.requested > 0) allocated += b.bytes;
        requested += b.requested;
      }
      out_.begin_dict();
      number("device", 0);
      number("address", s.address);
      number("total_size", s.bytes);
      number("allocated_size", allocated);
      number("active_size", allocated);
      number("requested_size", requested);
      number("stream", 0);
      word("segment_type", s.small ? "small" : "large");
      out_.string("is_expandable");
      out_.boolean(false);
      no_frames();
      out_.string("blocks");
      out_.begin_list();
      for (const auto& b : blocks) {
        out_.begin_dict();
        number("address", b.address);
        number("size", b.bytes);
        number("requested_size", b.requested > 0 ? b.requested : b.bytes);
        word("state", b.requested > 0 ? "active_allocated" : "inactive");
        if (b.requested > 0) {
          out_.string("frames");
          stack(b.owner);
        } else {
          no_frames();
        }
        out_.end_dict();
        out_.end_item();
      }
      out_.end_dict();
      out_.end_item();
    }
  }

  void event(const char* action, const AllocationEvent& e) {
    out_.begin_dict();
    word("action", action);
    number("addr", e.address);
    number("size", e.bytes);
    number("stream", 0);
    number("time_us", e.time / kPicosecondsPerMicrosecond);
    if (e.owner >= 0) {
      out_.string("frames");
      stack(e.owner);
    } else {
      no_frames();
    }
    out_.end_dict();
    out_.end_item();
  }

  // A free is two events, as PyTorch records one: asked for, and done once no stream uses the
  // block.
  void events() {
    out_.begin_list();
    for (const AllocationEvent& e : trace_.events) {
      if (e.kind == EventKind::segment) event("segment_alloc", e);
      if (e.kind == EventKind::allocate) event("alloc", e);
      if (e.kind == EventKind::free) event("free_requested", e);
      if (e.kind == EventKind::free) event("free_completed", e);
    }
  }

  void about() {
    out_.begin_dict();
    word("version", version_);
    number("pipeline_rank", trace_.rank);
    number("micro_batches", trace_.micro_batches);
    number("micro_batches_traced", trace_.traced);
    number("peak_bytes", trace_.peak);
    out_.end_dict();
  }

  const AllocationTrace& trace_;
  const std::string& version_;
  Pickle out_;
  std::vector<std::int32_t> stacks_;  // by owner: its number in the memo, or -1
  std::map<std::tuple<std::string, std::int64_t, std::string>, std::int32_t> frames_;
};

}  // namespace

std::string memory_snapshot(const AllocationTrace& trace, const std::string& version) {
  return Writer(trace, version).write();
}

}  // namespace eratos::report
