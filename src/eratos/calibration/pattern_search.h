// The least of a function of a few positive numbers, by steps in their logarithms.
//
// Answers "which constants describe these measurements best?" without derivatives: prices have
// ceilings and minima in them. One number after the other is multiplied or divided by a factor that
// grows where that helps and shrinks where it does not, until no step above a thousandth helps.
// The same input gives the same result.
// Source: R. Hooke, T. A. Jeeves, "Direct Search" Solution of Numerical and Statistical Problems,
// Journal of the ACM 8(2), 1961 (without its pattern moves).
//
// Worked example: the least of (x-3)^2 + (y-5)^2 from (1, 1), both within 0.1 and 10, is (3, 5) to
// three digits.
#pragma once

#include <functional>
#include <vector>

namespace eratos::calibration {

// One number that may be moved.
struct Searched {
  double value = 1;  // where the search starts
  double low = 1e-12;
  double high = 1e12;
};

// Numbers in the order given. Errors: none; a start outside its bounds is moved inside.
std::vector<double> pattern_search(const std::vector<Searched>& start,
                                   const std::function<double(const std::vector<double>&)>& cost);

// What a fit pays for one measurement: its relative error, by whose mean a fit is judged, and 0.3 of
// the square of ln(price / measured), so that a price of nearly nothing is not cheap. 100 for none.
double misfit(double price, double measured);

}  // namespace eratos::calibration
