// The answers to a batch as bytes for a file, and back: exactly, and a third as long as they lie in
// memory.
//
// Neighbours in a walk hold the same bytes or nearly so: a column of numbers, each as its
// difference (exclusive or) from the one before, is mostly zeros once bytes of equal weight lie
// together, and zlib takes those out. A digest of the whole in front tells a byte that a disk has
// changed.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/search/evaluate.h"

namespace eratos::store {

// Of a batch. Empty when eratos was built without zlib.
std::string pack(std::span<const search::Tell> tells);
// `count` answers, or none where the bytes are not those of so many.
std::vector<search::Tell> unpack(std::string_view packed, std::size_t count);

// Of one answer: 41 bytes, as they are.
std::string pack_one(const search::Tell& tell);
std::optional<search::Tell> unpack_one(std::string_view packed);

}  // namespace eratos::store
