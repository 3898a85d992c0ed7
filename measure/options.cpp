#include "options.h"

#include <cstdlib>

#include "faults.h"

namespace eratos::device {

namespace {

[[noreturn]] void usage(const std::string& message) {
  throw Fault(kUsage, "error: " + message + "\n`eratos-device --help` lists the flags");
}

int count(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  const long n = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || n < 1 || n > 100'000) {
    usage('`' + flag + ' ' + text + "` is no whole number of 1 or more");
  }
  return static_cast<int>(n);
}

// 120s, 2m, 90 (seconds).
double duration(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  double n = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  if (unit == "m" || unit == "min")
    n *= 60;
  else if (unit == "ms")
    n *= 1e-3;
  else if (!unit.empty() && unit != "s")
    n = -1;
  if (text.empty() || !(n > 0)) usage('`' + flag + ' ' + text + "` is no time such as 120s or 2m");
  return n;
}

// 0, 32000000, 1.5e9: bytes or a share, as a plain number.
double plain(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  const double n = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(n >= 0))
    usage('`' + flag + ' ' + text + "` is no number of 0 or more");
  return n;
}

}  // namespace

Options read_options(const std::vector<std::string>& words) {
  Options out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string flag = words[i];
    std::string value;
    const std::size_t equals = flag.find('=');
    bool joined = false;
    if (flag.compare(0, 2, "--") == 0 && equals != std::string::npos) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
      joined = true;
    }
    const auto next = [&] {
      if (joined) return value;
      if (i + 1 >= words.size()) usage('`' + flag + "` needs a value");
      return words[++i];
    };
    if (flag == "--plan")
      out.plan = next();
    else if (flag == "-o" || flag == "--output")
      out.output = next();
    else if (flag == "--device")
      out.device = next();
    else if (flag == "--commit")
      out.commit = next();
    else if (flag == "--budget")
      out.budget_s = duration(flag, next());
    else if (flag == "--ranks")
      out.ranks = count(flag, next());
    else if (flag == "--threads")
      out.threads = count(flag, next());
    else if (flag == "--cache")
      out.cache_bytes = plain(flag, next());
    else if (flag == "--tolerance")
      out.tolerance = plain(flag, next());
    else if (flag == "--resume")
      out.resume = true;
    else if (flag == "--force")
      out.force = true;
    else if (flag == "--progress")
      out.progress = true;
    else if (flag == "--probe")
      out.probe = true;
    else if (flag == "--help" || flag == "-h")
      out.help = true;
    else
      usage("unknown flag `" + flag + '`');
  }
  if (out.help) return out;
  if (out.device != "cpu" && out.device != "cuda") {
    usage("`--device " + out.device + "` is neither cpu nor cuda (ROCm is cuda)");
  }
  if (out.probe) return out;
  if (out.plan.empty()) usage("`--plan FILE` is missing");
  if (out.output.empty()) usage("`-o FILE` is missing");
  return out;
}

std::string help_text() {
  return "usage: eratos-device --plan FILE -o MEASURED.json [FLAGS]\n\n"
         "Measures the pieces of work of a plan on this machine; `eratos measure` calls it.\n\n"
         "  --plan FILE        what to measure (eratos measure JOB --plan --format plan)\n"
         "  -o, --output FILE  where to write; FILE.partial holds what is done meanwhile\n"
         "  --device NAME      cpu or cuda; ROCm is cuda (cpu)\n"
         "  --ranks N          start N ranks here, for collectives; or start this program by\n"
         "                     torchrun, mpirun or srun\n"
         "  --threads N        of a rank on a processor (all, divided among the ranks)\n"
         "  --budget TIME      120s, 2m (120s)\n"
         "  --resume           add to FILE and FILE.partial, measured here for the same plan\n"
         "  --force            replace them\n"
         "  --tolerance SHARE  of a result against its reference (by number format)\n"
         "  --cache BYTES      what rotated buffers must exceed twice (the last-level cache)\n"
         "  --commit TEXT      of the checkout, for the provenance\n"
         "  --progress         a line on standard error a second\n"
         "  --probe            name the device and end\n";
}

}  // namespace eratos::device
