#include "machine.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <vector>

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace eratos::device {

namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// "32768K" -> 33554432.
std::int64_t size_of(const std::string& text) {
  char* unit = nullptr;
  const double n = std::strtod(text.c_str(), &unit);
  double times = 1;
  if (*unit == 'K') times = 1024;
  if (*unit == 'M') times = 1024.0 * 1024;
  return static_cast<std::int64_t>(n * times);
}

// Value of `key` in a file of "key : value" lines; "" when there is none.
std::string value_in(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::string output_of(const std::string& command) {
  std::string out;
  FILE* from = ::popen(command.c_str(), "r");
  if (from == nullptr) return out;
  std::array<char, 4096> part{};
  while (const std::size_t n = std::fread(part.data(), 1, part.size(), from)) {
    out.append(part.data(), n);
  }
  return ::pclose(from) == 0 ? out : "";
}

std::vector<std::string> columns_of(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line);
  std::string part;
  while (std::getline(in, part, ',')) {
    const std::size_t begin = part.find_first_not_of(' ');
    out.push_back(begin == std::string::npos ? "" : part.substr(begin));
  }
  return out;
}

double number_or_less(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() ? -1 : value;
}

// The word behind `key` in rocm-smi's flat JSON of one card: "Card Series": "AMD Instinct MI300X".
std::string word_behind(const std::string& json, const std::string& key) {
  const std::size_t at = json.find('"' + key);
  if (at == std::string::npos) return "";
  const std::size_t colon = json.find("\":", at);
  const std::size_t begin = colon == std::string::npos ? colon : json.find('"', colon + 2);
  const std::size_t end = begin == std::string::npos ? begin : json.find('"', begin + 1);
  return end == std::string::npos ? "" : json.substr(begin + 1, end - begin - 1);
}

Gpu from_nvidia(const std::string& which) {
  Gpu out;
  const std::string text = output_of(
      "nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw,"
      "clocks_throttle_reasons.active --format=csv,noheader,nounits -i " +
      which + " 2>/dev/null");
  const std::vector<std::string> c = columns_of(text.substr(0, text.find('\n')));
  if (c.size() < 7) return out;
  out.name = c[0];
  out.driver = c[1];
  const double mhz = number_or_less(c[2]);
  const double memory_mhz = number_or_less(c[3]);
  if (mhz > 0) out.state.clock_hz = mhz * 1e6;
  if (memory_mhz > 0) out.state.memory_clock_hz = memory_mhz * 1e6;
  out.state.temperature_c = number_or_less(c[4]);
  out.state.power_w = number_or_less(c[5]);
  out.state.throttle = c[6];
  return out;
}

Gpu from_amd(const std::string& which) {
  Gpu out;
  const std::string text =
      output_of("rocm-smi -d " + which +
                " --showproductname --showdriverversion --showclocks --showtemp "
                "--showpower --json 2>/dev/null");
  if (text.find('{') == std::string::npos) return out;
  out.name = word_behind(text, "Card Series");
  out.driver = word_behind(text, "Driver version");
  const std::string sclk = word_behind(text, "sclk clock speed");  // "(2100Mhz)"
  const std::string mclk = word_behind(text, "mclk clock speed");
  if (sclk.size() > 1) out.state.clock_hz = number_or_less(sclk.substr(1)) * 1e6;
  if (mclk.size() > 1) out.state.memory_clock_hz = number_or_less(mclk.substr(1)) * 1e6;
  out.state.temperature_c = number_or_less(word_behind(text, "Temperature (Sensor junction)"));
  out.state.power_w = number_or_less(word_behind(text, "Current Socket Graphics Package Power"));
  return out;
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string cpu_name() {
  const std::string name = value_in("/proc/cpuinfo", "model name");
  return name.empty() ? value_in("/proc/cpuinfo", "Processor") : name;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

int processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

double load_1min() { return number_or_less(first_line("/proc/loadavg")); }

long involuntary_switches() {
  rusage used{};
  return ::getrusage(RUSAGE_SELF, &used) == 0 ? used.ru_nivcsw : 0;
}

std::int64_t last_level_cache_bytes() {
  std::int64_t most = 0;
  for (int i = 0; i < 8; ++i) {
    const std::string at = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i);
    most = std::max(most, size_of(first_line(at + "/size")));
  }
  return most;
}

std::int64_t available_bytes() {
  std::int64_t least = -1;
  const auto bound = [&](std::int64_t bytes) {
    if (bytes >= 0 && (least < 0 || bytes < least)) least = bytes;
  };
  const std::string available = value_in("/proc/meminfo", "MemAvailable");
  if (!available.empty()) bound(static_cast<std::int64_t>(number_or_less(available) * 1024));
  const std::string group = first_line("/sys/fs/cgroup/memory.max");
  if (!group.empty() && group != "max") {
    bound(static_cast<std::int64_t>(number_or_less(group) -
                                    number_or_less(first_line("/sys/fs/cgroup/memory.current"))));
  }
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    const double pages = number_or_less(first_line("/proc/self/statm"));
    bound(static_cast<std::int64_t>(static_cast<double>(space.rlim_cur) -
                                    pages * static_cast<double>(::sysconf(_SC_PAGESIZE))));
  }
  return least;
}

State cpu_state() {
  State out;
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    if (line.compare(0, 7, "cpu MHz") != 0) continue;
    out.clock_hz = std::max(out.clock_hz, number_or_less(line.substr(line.find(':') + 1)) * 1e6);
  }
  for (int i = 0; i < 32; ++i) {
    const std::string zone = "/sys/class/thermal/thermal_zone" + std::to_string(i) + "/temp";
    const std::string text = first_line(zone);  // thousandths of a degree
    if (!text.empty()) out.temperature_c = std::max(out.temperature_c, number_or_less(text) / 1000);
  }
  return out;
}

Gpu gpu_state(int index) {
  std::string which = std::to_string(index);
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}) {
    const char* visible = std::getenv(name);
    if (visible == nullptr) continue;
    const std::vector<std::string> devices = columns_of(visible);
    if (static_cast<std::size_t>(index) < devices.size())
      which = devices[static_cast<std::size_t>(index)];
  }
  if (which.find_first_not_of("0123456789abcdefABCDEF-GPUMIG/") != std::string::npos) return {};
  Gpu out = from_nvidia(which);
  return out.name.empty() ? from_amd(which) : out;
}

}  // namespace eratos::device
