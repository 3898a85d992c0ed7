// Which values of a search's axes can the framework's own file say?
//
// A winner that cannot be written down cannot be run. Every default value of an axis is put into a
// plain job, written for the framework and read again; a value that comes back as another is left
// out of the axis. Axes that the user named are left alone. What a file cannot say of several axes
// at once is a rule of legality (Space::FileLimits), which is counted and gives its reason.
//
// Worked example: torchtitan's file has no optimizer on the host, so that axis keeps 0 alone;
// Megatron-LM has no option that recomputes rotary embeddings.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "eratos/framework/profile.h"
#include "eratos/job/job.h"
#include "eratos/search/layer_plans.h"
#include "eratos/search/space.h"

namespace eratos::reader {

// The writer of export_targets() whose files this framework runs; "" where there is none.
std::string_view target_of(const framework::FrameworkProfile& framework);

// Does pieces of work 0 to n - 1, each once, in any order and on any threads.
using EachOf = std::function<void(std::size_t n, const std::function<void(std::size_t)>& one)>;
void one_by_one(std::size_t n, const std::function<void(std::size_t)>& one);

// Drops the values, and notes them in space.left_out. Values are tried one a piece.
void keep_sayable(search::Space& space, const EachOf& each_of = one_by_one);

// Can the framework's own file keep the optimizer on the host? Yes where there is no writer.
bool says_offload(const job::JobSpec& job);

// Can a target's file say any set of recomputed layers, and any split of layers? Everything where
// there is no writer.
search::LayerFreedom layer_freedom(const search::Space& space, std::string_view target);

}  // namespace eratos::reader
