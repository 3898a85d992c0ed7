// Which model gave an answer? A digest of the core's sources, of the compiler and of its flags,
// taken as eratos is built (cmake/model_fingerprint.cmake). Any change of the model is another one;
// so is a change of a comment, which costs a search and no more.
//
// Data are not in it: what a search reads of them lies in its job, cluster, profile and
// calibration, and is part of its keys there.
#pragma once

#include <string_view>

namespace eratos::store {

// 64 hexadecimal digits.
std::string_view model_fingerprint();

}  // namespace eratos::store
