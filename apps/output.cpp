#include "apps/output.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/exit_code.h"
#include "apps/ranks.h"
#include "eratos/text/file.h"

namespace eratos::apps {

namespace {

// Why a file was not written: the caller chose a name that is taken, by a file that --force would
// replace or by a folder; or the machine would not have it.
int refusal(const std::string& path, bool force) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return kEnvironment;
  if (S_ISDIR(status.st_mode)) return kUsage;
  return S_ISREG(status.st_mode) && !force ? kUsage : kEnvironment;
}

}  // namespace

int write_named(const std::string& path, const std::string& text, const Arguments& arguments) {
  const auto overwrite = arguments.has("--force") ? text::Overwrite::yes : text::Overwrite::no;
  const Result<void> written = text::write_file(path, text, overwrite);
  if (written) return kAnswered;
  report_faults(written.error());
  return refusal(path, arguments.has("--force"));
}

std::string same_file(const Arguments& arguments) {
  const char* files[] = {"--trace", "--svg", "--html", "--output", "--best", "--store", "--write-measured"};
  const auto place = [&](const char* flag) {
    std::error_code none;
    const std::filesystem::path path = std::filesystem::absolute(arguments.value(flag), none);
    const std::filesystem::path whole = std::filesystem::weakly_canonical(path, none);
    return none ? path.lexically_normal() : whole;
  };
  for (std::size_t i = 0; i < std::size(files); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (arguments.has(files[i]) && arguments.has(files[j]) &&
          place(files[i]) == place(files[j])) {
        return fmt::format("`{}` and `{}` name the same file", files[j], files[i]);
      }
    }
  }
  return "";
}

int place_fault(const std::string& path, const Arguments& arguments) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    const bool folder = S_ISDIR(status.st_mode);
    if (!folder && (arguments.has("--force") || !S_ISREG(status.st_mode))) return kAnswered;
    report_faults({{.where = {.file = path},
                    .message = folder ? "is a folder" : "exists already and is left as it is",
                    .cure = folder ? "name a file inside it"
                                   : "choose another name, or --force to replace it"}});
    return kUsage;
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code none;
  if (folder.empty() || std::filesystem::is_directory(folder, none)) return kAnswered;
  report_faults({{.where = {.file = path},
                  .message = "its folder does not exist",
                  .cure = "create the folder first"}});
  return kEnvironment;
}

int deliver(const std::string& text, const Arguments& arguments, int code) {
  if (arguments.has("--output")) {
    const int written = write_named(arguments.value("--output"), text, arguments);
    return written == kAnswered ? code : written;
  }
  const bool all = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if ((!all || std::fflush(stdout) != 0) && errno != EPIPE) {
    std::fprintf(stderr, "error: cannot write the result: %s\n", std::strerror(errno));
    return kEnvironment;
  }
  return code;
}

int report_faults(const Diagnostics& faults) {
  constexpr std::size_t kMostShown = 100;  // whoever mends these runs it again
  for (std::size_t i = 0; i < std::min(kMostShown, faults.size()); ++i) {
    std::fprintf(stderr, "%s\n", to_text(faults[i]).c_str());
  }
  if (faults.size() > kMostShown) {
    std::fprintf(stderr, "error: and %zu more\n", faults.size() - kMostShown);
  }
  return kBadInput;
}

int report_usage(std::string_view message) {
  std::fprintf(stderr, "error: %.*s\n", static_cast<int>(message.size()), message.data());
  return kUsage;
}

report::Style style_of(const Arguments& arguments) {
  const char* no_colour = std::getenv("NO_COLOR");
  const bool wanted = (no_colour == nullptr || *no_colour == '\0') && !launched_by_mpi().by_mpi;
  return {wanted && !arguments.has("--output") && isatty(STDOUT_FILENO) != 0};
}

Result<Format> format_of(const Arguments& arguments, std::string_view allowed) {
  const std::string name = arguments.value("--format", "text");
  const std::string among = ' ' + std::string(allowed) + ' ';
  if (among.find(' ' + name + ' ') != std::string::npos) {
    if (name == "json") return Format::json;
    if (name == "csv") return Format::csv;
    if (name == "markdown") return Format::markdown;
    if (name == "html") return Format::html;
    return Format::text;
  }
  for (const std::string_view known : {"csv", "markdown", "html"}) {
    if (name == known) {
      return fault({{},
                    fmt::format("`{}` has no format `{}`; it has: {}", arguments.command, name,
                                allowed)});
    }
  }
  return fault({{}, fmt::format("unknown format `{}`; known: {}", name, allowed)});
}

}  // namespace eratos::apps
