// `eratos-mpi`: rank 0 hands out pieces of each batch, the others answer them.
//
// Pieces shrink as a batch runs out, and each rank has at most two, so that it never waits for the
// next one and the last ones are small. Rank 0 answers pieces too. What another rank has held for
// too long it answers itself, and drops the late answer: a slow rank holds nobody up. Answers are
// put where they were asked, so nobody can see who gave them.
#include "apps/ranks.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include "apps/exit_code.h"
#include "eratos/base/check.h"
#include "eratos/search/evaluate.h"
#include "eratos/store/bytes.h"
#include "eratos/store/model.h"

namespace eratos::apps {

namespace {

using Clock = std::chrono::steady_clock;

enum Tag : int { kProblem, kPiece, kTold, kBye };

// What a rank says of itself at the beginning.
struct Rank {
  std::array<char, 64> model{};
  std::array<char, 64> host{};
  int threads = 1;
};

// Everything that answers follow from.
struct Problem {
  search::Space space;
  calibration::Calibration calibration;
  projection::Options options;
};

struct Piece {
  std::uint64_t number = 0;  // of all pieces of this process; never used twice
  std::vector<search::Ask> asks;
};
struct Told {
  std::uint64_t number = 0;
  std::vector<search::Tell> tells;
};

struct World {
  bool begun = false;  // MPI
  std::vector<Rank> ranks;
  std::uint64_t pieces = 0;  // handed out so far
  std::vector<int> held;     // pieces at each rank, answered here meanwhile or not
  struct Sending {
    MPI_Request request = MPI_REQUEST_NULL;
    std::string bytes;
  };
  std::deque<Sending> sending;
};

World& world() {
  static World the;
  return the;
}

// Sends without waiting; the bytes live until they are gone.
void send(int to, Tag tag, std::string bytes) {
  World& w = world();
  std::erase_if(w.sending, [](World::Sending& s) {
    int done = 0;
    MPI_Test(&s.request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
  World::Sending& s = w.sending.emplace_back();
  s.bytes = std::move(bytes);
  MPI_Isend(s.bytes.data(), static_cast<int>(s.bytes.size()), MPI_BYTE, to, tag, MPI_COMM_WORLD,
            &s.request);
}

struct Message {
  int from = 0;
  Tag tag = kBye;
  std::string bytes;
};

// The next message of any rank, if there is one.
std::optional<Message> receive() {
  int there = 0;
  MPI_Status status;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status);
  if (there == 0) return std::nullopt;
  int size = 0;
  MPI_Get_count(&status, MPI_BYTE, &size);
  Message out{status.MPI_SOURCE, static_cast<Tag>(status.MPI_TAG),
              std::string(static_cast<std::size_t>(size), '\0')};
  MPI_Recv(out.bytes.data(), size, MPI_BYTE, out.from, out.tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return out;
}

// Waits without a busy processor: 20 us at first, then up to a millisecond.
class Patience {
 public:
  void wait() {
    std::this_thread::sleep_for(next_);
    next_ = std::min(next_ * 2, std::chrono::microseconds(1000));
  }
  void begin_anew() { next_ = kFirst; }

 private:
  static constexpr std::chrono::microseconds kFirst{20};
  std::chrono::microseconds next_ = kFirst;
};

// Processors of this machine for each rank on it, and no more than this process may use.
int own_threads() {
  MPI_Comm neighbours = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &neighbours);
  int here = 1;
  MPI_Comm_size(neighbours, &here);
  MPI_Comm_free(&neighbours);
  const auto all = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const auto mine = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(all / here, 1, std::max(1, mine));
}

Rank this_rank() {
  Rank out;
  const std::string_view model = store::model_fingerprint();
  std::copy_n(model.begin(), std::min(model.size(), out.model.size()), out.model.begin());
  gethostname(out.host.data(), out.host.size() - 1);
  out.threads = own_threads();
  return out;
}

// Asks a thread below which a message costs more than the work.
std::size_t least_piece(search::Ask::What what) {
  switch (what) {
    case search::Ask::What::bound:
      return 4;
    case search::Ask::What::screen:
      return 16;
    case search::Ask::What::project:
      break;
  }
  return 1;
}

// "" when all ranks run the same build.
std::string unlike(const std::vector<Rank>& ranks) {
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i].model != ranks[0].model) {
      return "rank " + std::to_string(i) + " on " + ranks[i].host.data() +
             " runs another build of eratos than rank 0 on " + ranks[0].host.data() +
             "; install the same one on every machine";
    }
  }
  return "";
}

// What another rank does: answers pieces until it is let go. Returns the code it is let go with.
int serve() {
  std::signal(SIGINT, SIG_IGN);  // rank 0 says when it is over; mpirun kills who is left
  std::signal(SIGTERM, SIG_IGN);
  const int threads = world().ranks[static_cast<std::size_t>(launched_by_mpi().rank)].threads;
  std::unique_ptr<Problem> problem;
  std::unique_ptr<Answers> answers;
  Patience patience;
  for (;;) {
    const std::optional<Message> message = receive();
    if (!message) {
      patience.wait();
      continue;
    }
    patience.begin_anew();
    if (message->tag == kBye) return std::stoi(message->bytes);
    if (message->tag == kProblem) {
      answers.reset();
      problem = std::make_unique<Problem>();
      const bool good = store::from_bytes(message->bytes, *problem);
      ERATOS_CHECK(good);
      answers = answers_of_threads(problem->space, problem->calibration, problem->options, threads);
      continue;
    }
    Piece piece;
    const bool good = answers != nullptr && store::from_bytes(message->bytes, piece);
    ERATOS_CHECK(good);
    Told told{piece.number, std::vector<search::Tell>(piece.asks.size())};
    answers->answer(piece.asks, told.tells, [] {});
    send(0, kTold, store::bytes_of(told));
  }
}

class Ranks final : public Answers {
 public:
  explicit Ranks(const SearchRun& run)
      : threads_(run.threads),
        own_(answers_of_threads(run.space, run.calibration, run.options, threads_of(0))) {
    const std::string problem = store::bytes_of(Problem{run.space, run.calibration, run.options});
    for (std::size_t i = 1; i < world().ranks.size(); ++i) {
      send(static_cast<int>(i), kProblem, problem);
    }
    all_threads_ = 0;
    for (std::size_t i = 0; i < world().ranks.size(); ++i) all_threads_ += threads_of(i);
  }

  void answer(std::span<const search::Ask> asks, std::span<search::Tell> tells,
              const std::function<void()>& beside) override {
    asks_ = asks;
    tells_ = tells;
    next_ = 0;
    out_.clear();
    least_ = least_piece(asks[0].what);
    if (asks.size() <= kTooFew * least_) {
      own_->answer(asks, tells, beside);
      return;
    }
    bool beside_done = false;
    Patience patience;
    while (next_ < asks.size() || !out_.empty()) {
      if (take_answers()) patience.begin_anew();
      hand_out();
      if (next_ < asks.size()) {
        const std::size_t n = next_piece(threads_of(0));
        const auto left = [&] {
          if (!std::exchange(beside_done, true)) beside();
        };
        own_->answer(asks.subspan(next_, n), tells.subspan(next_, n), left);
        next_ += n;
      } else if (!std::exchange(beside_done, true)) {
        beside();
      } else if (!out_.empty()) {
        if (Clock::now() - out_.front().since > kLongest) {
          answer_oldest();
        } else {
          patience.wait();
        }
      }
    }
    if (!beside_done) beside();
  }

 private:
  static constexpr std::chrono::milliseconds kLongest{20};
  static constexpr int kMostHeld = 2;
  static constexpr std::size_t kTooFew = 8;  // a millisecond of work: not worth a message

  struct Out {
    std::uint64_t number = 0;
    std::size_t first = 0;
    std::size_t count = 0;
    Clock::time_point since;
  };

  // --threads is of each rank.
  int threads_of(std::size_t rank) const {
    return threads_ > 0 ? threads_ : world().ranks[rank].threads;
  }

  // A quarter of each thread's share of what is left.
  std::size_t next_piece(int threads) const {
    const std::size_t left = asks_.size() - next_;
    const auto each = static_cast<std::size_t>(4 * all_threads_);
    const std::size_t n = std::max(least_, (left + each - 1) / each);
    return std::min(left, n * static_cast<std::size_t>(threads));
  }

  void hand_out() {
    World& w = world();
    for (int held = 0; held < kMostHeld; ++held) {
      for (std::size_t rank = 1; rank < w.ranks.size() && next_ < asks_.size(); ++rank) {
        if (w.held[rank] > held) continue;
        const std::size_t n = next_piece(threads_of(rank));
        const auto asks = asks_.subspan(next_, n);
        send(static_cast<int>(rank), kPiece,
             store::bytes_of(Piece{++w.pieces, {asks.begin(), asks.end()}}));
        out_.push_back({w.pieces, next_, n, Clock::now()});
        ++w.held[rank];
        next_ += n;
      }
    }
  }

  bool take_answers() {
    bool any = false;
    while (const std::optional<Message> message = receive()) {
      any = true;
      --world().held[static_cast<std::size_t>(message->from)];
      Told told;
      const bool good = store::from_bytes(message->bytes, told);
      ERATOS_CHECK(good);
      const auto at = std::find_if(out_.begin(), out_.end(),
                                   [&](const Out& o) { return o.number == told.number; });
      if (at == out_.end()) continue;  // answered here meanwhile
      ERATOS_CHECK(told.tells.size() == at->count);
      std::copy(told.tells.begin(), told.tells.end(),
                tells_.begin() + static_cast<std::ptrdiff_t>(at->first));
      out_.erase(at);
    }
    return any;
  }

  void answer_oldest() {
    const Out oldest = out_.front();
    out_.pop_front();
    own_->answer(asks_.subspan(oldest.first, oldest.count),
                 tells_.subspan(oldest.first, oldest.count), [] {});
  }

  int threads_;
  int all_threads_ = 1;
  std::unique_ptr<Answers> own_;
  std::span<const search::Ask> asks_;
  std::span<search::Tell> tells_;
  std::size_t next_ = 0;   // the first ask that nobody has
  std::size_t least_ = 1;  // asks a thread in a piece
  std::deque<Out> out_;    // at other ranks, the oldest first
};

}  // namespace

std::optional<int> begin_ranks(int argc, char** argv) {
  const Launched launched = launched_by_mpi();
  if (launched.ranks == 1) return std::nullopt;
  World& w = world();
  MPI_Init(&argc, &argv);
  w.begun = true;
  int size = 1;
  int rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (size != launched.ranks) {
    if (launched.rank == 0) {
      std::fprintf(
          stderr,
          "error: the launcher of these %d processes is not of the MPI that eratos-mpi was built "
          "with; start them with that one's mpirun\n",
          launched.ranks);
    }
    MPI_Finalize();
    return kEnvironment;
  }
  const Rank own = this_rank();
  w.ranks.resize(static_cast<std::size_t>(size));
  w.held.resize(static_cast<std::size_t>(size));
  MPI_Allgather(&own, sizeof own, MPI_BYTE, w.ranks.data(), sizeof own, MPI_BYTE, MPI_COMM_WORLD);
  if (const std::string why = unlike(w.ranks); !why.empty()) {
    if (rank == 0) std::fprintf(stderr, "error: %s\n", why.c_str());
    MPI_Finalize();
    return kEnvironment;
  }
  if (rank == 0) return std::nullopt;
  const int code = serve();
  MPI_Finalize();
  return code;
}

int end_ranks(int code) {
  World& w = world();
  if (!w.begun) return code;
  // Late answers are taken off the wire, or their senders would wait for it.
  Patience patience;
  while (std::any_of(w.held.begin(), w.held.end(), [](int n) { return n > 0; })) {
    if (const std::optional<Message> message = receive()) {
      --w.held[static_cast<std::size_t>(message->from)];
    } else {
      patience.wait();
    }
  }
  for (std::size_t i = 1; i < w.ranks.size(); ++i) {
    send(static_cast<int>(i), kBye, std::to_string(code));
  }
  for (World::Sending& s : w.sending) MPI_Wait(&s.request, MPI_STATUS_IGNORE);
  MPI_Finalize();
  return code;
}

bool leads_ranks() { return world().ranks.size() > 1; }

std::unique_ptr<Answers> answers_of_ranks(const SearchRun& run) {
  return leads_ranks() ? std::make_unique<Ranks>(run) : nullptr;
}

}  // namespace eratos::apps
