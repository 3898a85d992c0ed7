// eratos man: the manual page, from the tables that --help is printed from.
#include <string>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/flags.h"
#include "apps/output.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

// Hyphens stay hyphens, and a line never starts with roff's control characters.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  if (!out.empty() && (out.front() == '.' || out.front() == '\'')) out.insert(0, "\\&");
  return out;
}

std::string flag_entry(const Flag& f) {
  std::string head;
  if (!f.letter.empty()) head = fmt::format("\\fB{}\\fR, ", roff(f.letter));
  head += fmt::format("\\fB{}\\fR", roff(f.name));
  if (!f.value.empty()) head += fmt::format(" \\fI{}\\fR", roff(f.value));
  std::string what(f.what);
  if (f.repeats) what += " (may be repeated)";
  if (!f.choices.empty()) what += fmt::format(": {}", f.choices);
  return fmt::format(".TP\n{}\n{}\n", head, roff(what));
}

}  // namespace

std::string manual_page() {
  std::string out = fmt::format(
      ".\\\" Written by `eratos man` from the tables of commands and flags.\n"
      ".TH ERATOS 1 \"\" \"eratos {}\" \"User commands\"\n"
      ".SH NAME\neratos \\- project the memory and step time of a training run without an "
      "accelerator\n"
      ".SH SYNOPSIS\n.B eratos\n\\fICOMMAND\\fR ...\n"
      ".SH DESCRIPTION\n{}\n",
      roff(kVersion), roff(kAboutJob));
  out += ".SH COMMANDS\n";
  for (const Command& c : kCommands) {
    out += fmt::format(".SS \"{} {}\"\n{}\n", c.name, roff(c.words), roff(c.what));
    for (const Flag& f : all_flags()) {
      if (!f.what.empty() && takes(c.name, f)) out += flag_entry(f);
    }
  }
  out += ".SH EXIT STATUS\n";
  for (const ExitMeaning& e : kExitMeanings) {
    out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", static_cast<int>(e.code), roff(e.what));
  }
  out += ".SH ENVIRONMENT\n.TP\n\\fBNO_COLOR\\fR\nset and not empty: no colour on a terminal\n";
  return out;
}

int run_man(const Arguments& arguments) { return deliver(manual_page(), arguments, kAnswered); }

}  // namespace eratos::apps
