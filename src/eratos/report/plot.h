// Points in a plane, as a picture that loads nothing and as lines of characters.
//
// Worked example: two points (1, 10) and (2, 20) of one series in 20 by 4 cells of characters stand
// in opposite corners; axes are labelled with the least and the most of either.
#pragma once

#include <string>
#include <vector>

#include "eratos/report/page.h"

namespace eratos::report {

struct PlotPoint {
  double x = 0;
  double y = 0;
  std::string title;  // shown when pointed at
};

struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;
  bool line = false;  // joined by steps, as an incumbent is
  char mark = '*';    // in characters
};

struct Plot {
  std::string x;  // what the axes say, with the unit
  std::string y;
  std::vector<PlotSeries> series;
  double limit_x = 0;  // a vertical line there; 0: none
  std::string limit;   // what it is
};

// Nothing to draw gives nothing.
Drawing draw(const Plot& plot);

}  // namespace eratos::report
