// Measured times in the place of modelled ones, op by op and module by module.
//
// Answers "how long does this op take, and who says so?". Four origins, best first:
//   measured      a piece of the same id was measured; or the op stands in a module that was
//   interpolated  between two measured pieces that differ from it in one size, one above, one
//   below, at
//                 most a factor 4 apart, where the model's own curve is straight to 5 % between
//                 them: the model's time, times the two ratios' mean by that size
//   calibrated    the model's time, times its family's factor
//   modelled      the model's time
//
// Letters: x_i = ln(measured / modelled) of a family's n pieces, m their median, s their spread
// (1.48 times the median distance from m, at least 0.1), T = 0.3 how far families' medians lie from
// 0.
//   factor = exp(w m), w = n T^2 / (n T^2 + s^2);  error = sqrt(s^2 + (1 - w) T^2)
// Source: the mean and spread of a normal prior met by n normal observations (Gelman et al.,
// Bayesian Data Analysis, 3rd ed., section 2.5); 1.48 makes the median distance a deviation of a
// normal law. Assumes: T and the least spread, from what published kernels of one part and another
// differ by. Worked example: one product of bf16 at 1.2 times the model: w = 0.09 / (0.09 + 0.01) =
// 0.9, factor exp(0.9 ln 1.2) = 1.178; four of them: w = 0.973, factor 1.194.
//
// A collective of a group that was not measured takes a times the model's time of an empty message
// and b times the rest, a and b by least squares over the measured sizes of its kind and algorithm;
// of one size, both its factor as above.
//
// A measured module (span) replaces the sum of its kernels. What it takes beyond that sum, launch
// gaps and fused or missing kernels, is `unattributed`; the host's launches are inside.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "eratos/calibration/measured.h"
#include "eratos/projection/pieces.h"
#include "eratos/projection/time.h"
#include "eratos/projection/workspace.h"

namespace eratos::projection {

enum class Origin : std::uint8_t { measured, interpolated, calibrated, modelled };
inline constexpr std::size_t kOrigins = 4;
std::string_view name_of(Origin o);

struct Priced {
  double seconds = 0;
  Origin origin = Origin::modelled;
  double error = 0;  // relative deviation; of a modelled time 0: the band's own
};

// What is left of a measured time in a step: it ran by itself.
// Assumes: 3 % for modules, whose clocks and gaps are those of a step, 8 % for kernels alone.
inline constexpr double kSpanError = 0.03;
inline constexpr double kKernelError = 0.08;
inline constexpr double kLinkError = 0.08;
// Assumes: as much again as the model's own curve may bend between the two.
inline constexpr double kInterpolationError = 0.05;

struct Family {
  std::string name;  // "gemm bf16", "attention backward bf16", "elementwise norm_forward", ...
  int points = 0;
  double median = 1;  // measured / modelled
  double spread = 0;  // s
  double factor = 1;
  double error = 0;
  bool used = false;  // by some op of the job
};

// An op whose time stands between two measured ones.
struct Interpolation {
  std::string id;
  std::string below;
  std::string above;
};

// A measured module in the place of ops.
struct Span {
  std::string id;
  bool backward = false;
  std::size_t program = 0;
  std::size_t begin = 0;  // of the program's list
  std::size_t end = 0;
  bool again = false;   // recomputed ops are in it
  double measured = 0;  // s
  double kernels = 0;   // the same ops one by one
  Origin origin = Origin::measured;
  double error = 0;

  double factor() const { return kernels > 0 ? measured / kernels : 1.0; }
};

// Seconds by who says so.
struct OriginTime {
  std::array<double, kOrigins> seconds{};
  std::array<double, kOrigins> error{};  // seconds times their relative error

  void add(const Priced& p, double times);
  void add(const OriginTime& t, double times);
  double total() const;
};

// One pass of one program.
struct PassOrigin {
  OriginTime compute;
  std::array<OriginTime, 7> streams;
  double spanned = 0;  // s of compute inside measured modules
  // What the host would do for the whole pass were nothing measured.
  double kernels = 0;
  double experts = 0;
  bool whole = false;  // all of its compute is inside measured modules
};

class MeasuredPrices {
 public:
  // Of a prepared job. All references must outlive this.
  MeasuredPrices(const job::CheckedJob& job, const Pricing& model,
                 const calibration::Measured& measured, Workspace& w);

  // Of ops of a program of the job, or once-a-step ops where it is null.
  Priced price(const ops::Op& op, const ops::Program* program);
  Priced link(ops::CollectiveKind kind, Bytes bytes, const collective::GroupPlacement& placement);

  // Times of the prepared job's programs, by index, halves of backward too.
  const ProgramTime* times() const { return times_.data(); }
  const PassOrigin& origin(std::size_t program, ChunkPass pass) const {
    return origins_[program][static_cast<std::size_t>(pass)];
  }

  // Parameters that the rank at hand updates: its step's ops are priced by them.
  void own(double parameters) { owned_ = parameters; }

  const std::vector<Span>& spans() const { return spans_; }
  const std::map<std::string, Family>& families() const { return families_; }
  const std::vector<Interpolation>& interpolations() const { return interpolations_; }
  std::size_t matched() const { return matched_.size(); }  // pieces of the file that the job uses

 private:
  struct Entry {
    const calibration::MeasuredPiece* measured = nullptr;
    std::string id;
    ops::Op op;
    double modelled = 0;
    collective::GroupPlacement placement;  // of a collective
    collective::Algorithm algorithm = collective::Algorithm::none;

    double ratio() const { return measured->median.value / modelled; }
  };
  // Two measured neighbours along one size.
  struct Neighbours {
    const Entry* below = nullptr;
    const Entry* above = nullptr;
    double low = 0;
    double high = 0;
    double at = 0;
  };

  void index();
  void fit_families();
  void find_spans(const ops::Program& program, std::size_t index, const lower::ProgramId& id);
  bool add_span(const BlockPieces& b, std::size_t index, bool backward,
                const ops::Program& program);
  std::optional<Priced> block_time(const calibration::Piece& piece);
  std::optional<Priced> between_blocks(const calibration::Piece& piece);
  template <class Same, class Size>
  void narrow(double at, Same same, Size size, Neighbours& best) const;
  Neighbours neighbours_of(const calibration::Piece& piece) const;
  std::optional<Priced> between(const calibration::Piece& piece, const std::string& id,
                                double modelled);
  std::optional<Priced> calibrated(const std::string& family, double modelled);
  Priced fitted_link(const calibration::CollectivePiece& piece, collective::Algorithm algorithm,
                     const collective::GroupPlacement& placement, double modelled);
  const Span* span_of(const ops::Op& op, std::size_t program, bool backward,
                      std::size_t index) const;
  void time_one(const ops::Program& program, std::size_t index);
  void account(const ops::Program& program, std::size_t index, const std::vector<Priced>& forward,
               const std::vector<Priced>& backward);

  const job::CheckedJob& job_;
  const Pricing& model_;
  const calibration::Measured& measured_;
  double owned_ = 0;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t> kernels_;  // by id: of entries_
  std::map<std::string, const calibration::MeasuredPiece*> blocks_;
  std::map<std::string, Family> families_;
  std::vector<Span> spans_;
  std::vector<ProgramTime> times_;
  std::vector<std::array<PassOrigin, 4>> origins_;  // by program and ChunkPass
  std::vector<Interpolation> interpolations_;
  std::map<std::string, int> matched_;
};

}  // namespace eratos::projection
