// What a shell can offer behind `eratos`, from the tables of commands and flags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/commands.h"
#include "apps/flags.h"

namespace eratos::apps {

inline constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};

// Words that can stand where a command's table says WORD ("KIND"), or a flag's value ("C").
// `files`: paths can stand there as well.
struct Offer {
  std::vector<std::string> words;
  bool files = false;
};
Offer offer_of_word(std::string_view word);
Offer offer_of_flag(const Flag& flag);

// The words of a command's usage line, without dots and brackets.
std::vector<std::string> words_of(const Command& command);

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace eratos::apps
