// How far a projection may be off: the errors that runs like it showed.
//
// A class holds the errors of measured runs that share what errors depend on: the software, the
// architecture of the accelerator, dense layers or experts, and how much of the step the
// accelerators compute (what is left is host, links and waiting, which are harder to foresee). An
// error is the one that the run would have, had its group not been seen (docs/MODEL.md, bands).
// Classes stand from the most to the least specific; a job takes the first that holds it, so one
// that is unlike anything measured takes the errors of a wider class, down to those of all runs.
// data/residuals.csv holds them; scripts/residuals.py counts them out.
//
// error = projected / measured - 1. A band is the 10th and 90th percentile, by the order statistic
// of rank q (n + 1), which holds the next run of the class with probability 0.8 whatever the
// distribution. Source: the split-conformal interval, arXiv 1604.04173, section 2.
//
// Worked example: errors from -0.06 to 0.10 put the measured step between 1 / 1.10 and 1 / 0.94 of
// the projected one.
#pragma once

#include <string>
#include <vector>

namespace eratos::calibration {

// What the errors of a job are likely to depend on.
struct Likeness {
  std::string framework;     // the profile's name, without its generation
  std::string architecture;  // of the accelerator: "sm90"
  bool experts = false;      // routed ones
  double busy = 0;           // share of the step in which the critical rank computes, 0 to 1
  double gpus = 1;
  double parameters = 0;  // active ones
};

enum class Quantity { step, peak };

// Which jobs a class of runs may stand for.
enum class Mixture { any, dense, experts };

struct Span {
  double from = 0;
  double to = 0;  // included
  bool holds(double x) const { return from <= x && x <= to; }
};

struct ErrorClass {
  Quantity quantity = Quantity::step;
  std::string framework;     // "": any
  std::string architecture;  // "": any
  Mixture mixture = Mixture::any;
  Span busy{0, 1};
  // The sizes that were measured, a factor of two beyond them included.
  Span gpus;
  Span parameters;
  int rows = 0;
  int sources = 0;
  double low = 0;   // 10th percentile of the error
  double high = 0;  // 90th

  bool holds(const Likeness& job) const;
};

// The first class of `quantity` that holds the job; nullptr where none does.
const ErrorClass* most_alike(const std::vector<ErrorClass>& classes, Quantity quantity,
                             const Likeness& job);

// "223 runs of megatron on sm90, dense, 3 sources": what a band rests on.
std::string basis_of(const ErrorClass& c);

}  // namespace eratos::calibration
