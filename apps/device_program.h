// eratos-device, the program that measures: where it is, and running it with its progress shown.
//
// It is a program of its own because it links libtorch, which `eratos` must start without
// (docs/decisions/0024-device-component.md).
#pragma once

#include <string>
#include <vector>

namespace eratos::apps {

// --device-program where it is given, else beside this program, else in ../libexec/eratos of it,
// else on the path. "" where there is none that can be run.
std::string find_device_program(const std::string& given);

// Runs it and waits. What it says goes to standard error; its progress becomes one line that is
// written over, on a terminal alone. Ctrl-C is handed on: it keeps what it has measured and ends.
// Returns its exit code, or kEnvironment where it could not be started or was killed, which is
// said.
int run_device_program(const std::string& program, const std::vector<std::string>& flags);

}  // namespace eratos::apps
