// Numbers as people read them, each with its unit.
//
// Worked examples: gib_text(Bytes{78.0 * kGiB}) is "78.0 GiB"; duration(Seconds{0.01234}) is "12.3
// ms"; count(140620634112) is "140.6 B"; thousands(226176) is "226,176".
#pragma once

#include <string>

#include "eratos/base/units.h"

namespace eratos::report {

std::string gib_text(Bytes b);    // one decimal, with the unit
std::string gib_number(Bytes b);  // the same for a column whose head names the unit
std::string duration(Seconds s);  // three or four digits in s, ms or us
std::string seconds_number(Seconds s, Seconds whole);  // decimals that suit `whole`, no unit
std::string teraflops(FlopsPerSecond r);               // "834.1 TFLOPS"
std::string count(double n);                           // 1.24 M, 8.03 B, 671.0 B, 1.01 T
std::string thousands(double n);           // rounded to a whole number, digits in groups of three
std::string percent(double share);         // one decimal: "41.5%"
std::string signed_percent(double share);  // "+4.2%"

}  // namespace eratos::report
