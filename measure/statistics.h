// What samples of one time say: median, minimum, spread, and how sure the median is.
#pragma once

#include <vector>

namespace eratos::device {

struct Summary {
  double median = 0;
  double minimum = 0;
  double spread = 0;  // interquartile range / median
  // Half the width of the median's 95 % interval, as a share of it. With fewer than six samples the
  // whole range of them: no pair of order statistics covers 95 %.
  double interval = 0;
};

// The interval is that of order statistics, which asks nothing of the samples' distribution: of n
// independent samples, the number below the true median is binomial (n, 1/2), so the l-th from
// either end enclose it with 95 % where l = n/2 - 1.96 sqrt(n)/2, rounded down, is at least 1.
// Worked number: n 25: l = 12.5 - 4.9 = 7, the 7th and the 19th of 25.
// Source: W. J. Conover, Practical Nonparametric Statistics, 3rd edition, section 3.2.
Summary summarise(std::vector<double> samples);

}  // namespace eratos::device
