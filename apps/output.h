// Where results and messages go.
#pragma once

#include <string>
#include <string_view>

#include "apps/arguments.h"
#include "eratos/base/diagnostic.h"
#include "eratos/report/table.h"

namespace eratos::apps {

// The result: to the file of --output, else to standard output. A reader of the pipe who left is
// no error. Returns `code`, or kEnvironment / kBadInput when the text could not be written.
int deliver(const std::string& text, const Arguments& arguments, int code);

// One more file that a flag names, by the rules of --output and --force. Returns kAnswered, kUsage
// when a file is in the way, or kEnvironment.
int write_named(const std::string& path, const std::string& text, const Arguments& arguments);

// Wrong use of the flags that name files: two that name the same one. "" when there is none.
std::string same_file(const Arguments& arguments);

// Before long work: could write_named() write there? kAnswered, or what is in the way, which has been
// said.
int place_fault(const std::string& path, const Arguments& arguments);

// Standard error, a line each. Returns kBadInput.
int report_faults(const Diagnostics& faults);
// Returns kUsage.
int report_usage(std::string_view message);

// Colour only on a terminal, without NO_COLOR, --output and mpirun.
report::Style style_of(const Arguments& arguments);

enum class Format { text, json, csv, markdown, html };
// What `project`, `memory` and `compare` can be printed as.
inline constexpr std::string_view kAnswerFormats = "text json csv markdown html";
// The value of --format. Errors: not among `allowed` ("text json"); those of a later version say
// so.
Result<Format> format_of(const Arguments& arguments, std::string_view allowed);

}  // namespace eratos::apps
