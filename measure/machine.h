// The machine as it is while we measure: who it is, how warm, how fast its clock, how busy.
//
// What a system does not tell stays out (empty text, negative number): nothing here is guessed.
#pragma once

#include <cstdint>
#include <string>

namespace eratos::device {

std::string host_name();
std::string cpu_name();       // "model name" of /proc/cpuinfo
std::string utc_now();        // 2026-01-31T12:00:00Z
int processors();             // that this process may run on
double load_1min();           // /proc/loadavg
long involuntary_switches();  // of this process's threads, since it began

// Size of the processor's last-level cache. Source: Linux, Documentation/ABI/testing/sysfs-devices-
// system-cpu, cache/index*/size.
std::int64_t last_level_cache_bytes();
// What may still be allocated: the least of MemAvailable, the control group's limit and the rest of
// the address space that `ulimit -v` allows; < 0 where none of them says.
std::int64_t available_bytes();

struct State {
  double clock_hz = -1;
  double memory_clock_hz = -1;
  double temperature_c = -1;
  double power_w = -1;
  std::string throttle;  // why a GPU's clock is held down, in its driver's words
};
State cpu_state();

struct Gpu {
  std::string name;
  std::string driver;
  State state;
};
// Asks nvidia-smi, else rocm-smi, for the `index`-th visible device. Empty where neither answers.
Gpu gpu_state(int index);

}  // namespace eratos::device
