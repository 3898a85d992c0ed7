// eratos: read the command line, run one subcommand, say what happened by the exit code.
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <string_view>
#include <variant>

#include <unistd.h>

#include "apps/command_line.h"
#include "apps/exit_code.h"
#include "apps/ranks.h"

namespace {

void say(std::string_view message) {
  // write(2): the only output that a signal handler may use.
  if (write(STDERR_FILENO, message.data(), message.size()) < 0) return;
}

extern "C" void on_abort(int /*signal*/) {
  say("error: this is a bug of eratos; please report the command and its input\n");
  _exit(eratos::apps::kBug);
}

extern "C" void on_interrupt(int /*signal*/) { _exit(eratos::apps::kInterrupted); }

void handle_signals() {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that leaves early is noticed where we write
  std::signal(SIGABRT, on_abort);
  std::signal(SIGINT, on_interrupt);
}

int run(int argc, char** argv) {
  try {
    const auto parsed = eratos::apps::parse_command_line(argc, argv);
    if (const auto* said = std::get_if<eratos::apps::Said>(&parsed)) {
      std::fputs(said->out.c_str(), stdout);
      std::fputs(said->err.c_str(), stderr);
      return said->code;
    }
    const auto& call = std::get<eratos::apps::Call>(parsed);
    return call.command->run(call.arguments);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: this is a bug of eratos: %s\n", e.what());
    return eratos::apps::kBug;
  }
}

}  // namespace

int main(int argc, char** argv) {
  handle_signals();
  if (const std::optional<int> served = eratos::apps::begin_ranks(argc, argv)) return *served;
  return eratos::apps::end_ranks(run(argc, argv));
}
