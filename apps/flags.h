// Every flag, one line each: what --help prints and what the parser takes come from this table.
#pragma once

#include <span>
#include <string_view>

namespace eratos::apps {

// What a flag's value must look like; anything else is a usage error.
enum class Value { none, text, count, index, share, pair };  // index: counted from 0

struct Flag {
  std::string_view name;    // "--set"
  std::string_view letter;  // "-o", or ""
  Value kind = Value::none;
  std::string_view value;  // what --help calls it: "KEY=VALUE"; "" for a switch
  bool repeats = false;
  std::string_view what;      // "" for a flag of a later version: refused by name
  std::string_view choices;   // the words it takes, between blanks; "" when there is no list
  std::string_view commands;  // those that take it, between blanks: " project memory "
};

std::span<const Flag> all_flags();
bool takes(std::string_view command, const Flag& flag);

}  // namespace eratos::apps
