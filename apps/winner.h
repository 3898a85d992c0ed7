// A job written as a file that some program reads, and what that file cannot say.
#pragma once

#include <string>

#include "apps/arguments.h"
#include "eratos/job/job.h"
#include "eratos/reader/export_job.h"

namespace eratos::apps {

// On standard error, a line each.
void tell_unsaid(const reader::Exported& exported);

// Why --best and --to cannot be met, before any work is done; "" when they can.
std::string winner_fault(const Arguments& arguments);

// Writes the winner of a search where --best says: for the program of --to, else as eratos's own
// YAML. Returns `code`, or what went wrong.
int write_winner(const job::JobSpec& winner, const Arguments& arguments, int code);

}  // namespace eratos::apps
