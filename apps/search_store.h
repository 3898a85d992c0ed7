// --store and --resume of a search: the file that keeps its answers, and what is said of it on
// standard error.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "apps/answers.h"
#include "apps/arguments.h"
#include "apps/search_run.h"
#include "eratos/store/store.h"

namespace eratos::apps {

// Why --store and --resume cannot be met, before any work is done; "" when they can.
std::string store_fault(const Arguments& arguments);

// Of one command, which may run several searches.
class SearchStore {
 public:
  explicit SearchStore(const Arguments& arguments);
  ~SearchStore();
  SearchStore(const SearchStore&) = delete;
  SearchStore& operator=(const SearchStore&) = delete;

  // Opens the file, if one is named and is not open, and enters the search there. kAnswered, or
  // what is wrong and has been said.
  int begin(const SearchRun& run);

  // `others` answer what the file does not know. Both `run` and this outlive it.
  std::unique_ptr<Answers> before(const SearchRun& run, std::unique_ptr<Answers> others);

  // The answer has been printed: writes the rest, says what came of it. `code`, or what went wrong
  // with the file.
  int end(int code);

 private:
  class Stored;

  int report(const store::Trouble& trouble);
  void look_at_trouble();

  Arguments arguments_;
  std::unique_ptr<store::Store> store_;
  bool begun_ = false;
  bool troubled_ = false;
  std::size_t found_ = 0;
  std::size_t asked_ = 0;
  std::size_t damaged_ = 0;
};

}  // namespace eratos::apps
