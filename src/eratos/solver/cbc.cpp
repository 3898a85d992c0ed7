#include "eratos/solver/cbc.h"

#include <string>

#ifdef ERATOS_CBC_FILE

#include <dlfcn.h>

#include <Cbc_C_Interface.h>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "eratos/solver/apart.h"
#include "eratos/solver/model.h"

namespace eratos::solver {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// The functions of CBC's C interface that we call, from the library that is opened when the first
// of them is needed: linked, CBC and LAPACK would cost every start of the program 4 ms.
struct Library {
  decltype(&Cbc_getVersion) version = nullptr;
  decltype(&Cbc_newModel) new_model = nullptr;
  decltype(&Cbc_loadProblem) load_problem = nullptr;
  decltype(&Cbc_setInteger) set_integer = nullptr;
  decltype(&Cbc_setParameter) set_parameter = nullptr;
  decltype(&Cbc_setMIPStartI) set_start = nullptr;
  decltype(&Cbc_solve) solve = nullptr;
  decltype(&Cbc_isProvenOptimal) is_optimal = nullptr;
  decltype(&Cbc_bestSolution) solution = nullptr;
  decltype(&Cbc_getBestPossibleObjValue) best_possible = nullptr;
  decltype(&Cbc_getNodeCount) nodes = nullptr;
  std::string name;  // empty: not to be had
};

template <class F>
bool load(void* library, const char* symbol, F& function) {
  function = reinterpret_cast<F>(dlsym(library, symbol));
  return function != nullptr;
}

const Library& library() {
  static const Library opened = [] {
    Library l;
    // Left open: CBC keeps state of the process.
    void* const file = dlopen(ERATOS_CBC_FILE, RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr) return l;
    if (load(file, "Cbc_getVersion", l.version) && load(file, "Cbc_newModel", l.new_model) &&
        load(file, "Cbc_loadProblem", l.load_problem) &&
        load(file, "Cbc_setInteger", l.set_integer) &&
        load(file, "Cbc_setParameter", l.set_parameter) &&
        load(file, "Cbc_setMIPStartI", l.set_start) && load(file, "Cbc_solve", l.solve) &&
        load(file, "Cbc_isProvenOptimal", l.is_optimal) &&
        load(file, "Cbc_bestSolution", l.solution) &&
        load(file, "Cbc_getBestPossibleObjValue", l.best_possible) &&
        load(file, "Cbc_getNodeCount", l.nodes)) {
      l.name = "cbc " + std::string(l.version());
    }
    return l;
  }();
  return opened;
}

// The program column by column, as CBC takes it.
struct Columns {
  std::vector<CoinBigIndex> begin;
  std::vector<int> row;
  std::vector<double> value;
};

Columns columns_of(const Model& model) {
  Columns c;
  c.begin.assign(model.lower.size() + 1, 0);
  for (const Row& row : model.rows) {
    for (const Entry& e : row.entries) ++c.begin[at(e.column) + 1];
  }
  for (std::size_t i = 1; i < c.begin.size(); ++i) c.begin[i] += c.begin[i - 1];
  std::vector<CoinBigIndex> next(c.begin.begin(), c.begin.end() - 1);
  c.row.resize(at(c.begin.back()));
  c.value.resize(at(c.begin.back()));
  for (std::size_t r = 0; r < model.rows.size(); ++r) {
    for (const Entry& e : model.rows[r].entries) {
      const std::size_t place = at(next[at(e.column)]++);
      c.row[place] = static_cast<int>(r);
      c.value[place] = e.value;
    }
  }
  return c;
}

class Cbc final : public schedule::Solver {
 public:
  Cbc(std::function<double()> seconds_left, std::function<bool()> goes_on)
      : seconds_left_(std::move(seconds_left)), goes_on_(std::move(goes_on)) {}

  std::string_view name() const override { return library().name; }

  Result<schedule::Proposal> solve(const schedule::OptimalProblem& problem,
                                   const schedule::Solution& best) override {
    schedule::Proposal proposal;
    const Model model = build_model(problem, best);
    // Nothing open: the windows alone say that no other order is as fast.
    if (model.binaries() == 0) {
      proposal.lower = best.makespan;
      return proposal;
    }
    const double seconds = seconds_left_();
    proposal.tried = seconds > 0;
    if (!proposal.tried) return proposal;
    // CBC looks at the clock between nodes, so it is told to end before it is killed.
    constexpr double kTold = 0.85;
    const auto outcome = run_apart([&] { return run(model, kTold * seconds); }, seconds, goes_on_);
    if (!outcome || outcome->size() < kHeader) return proposal;
    const double* const told = outcome->data();
    proposal.nodes = static_cast<std::int64_t>(told[kNodes]);
    const double most = model.upper[at(model.makespan)];
    // CBC that was cut short has no bound as high as its best point, else it would have ended.
    double bound =
        told[kBestPossible] < most * (1 - schedule::kOptimalTolerance) ? told[kBestPossible] : 0;
    if (outcome->size() == kHeader + model.lower.size()) {
      const double* const point = told + kHeader;
      take_order(model, point, problem, proposal);
      const double found = std::min(most, point[model.makespan]);
      if (told[kFinished] != 0) {
        bound = found - step_of(model);
      } else if (bound >= found * (1 - schedule::kOptimalTolerance)) {
        bound = 0;
      }
    }
    proposal.lower = to_bound(model, bound);
    return proposal;
  }

 private:
  // What run() returns: these, then the best point when there is one.
  enum : std::size_t { kFinished, kBestPossible, kNodes, kHeader };

  // Better by less than this is not looked for: a unit when every makespan is whole units.
  static double step_of(const Model& model) {
    return model.whole ? 0.9 : model.upper[at(model.makespan)] * schedule::kOptimalTolerance / 2;
  }

  static std::vector<double> run(const Model& model, double seconds) {
    const Library& cbc = library();
    const Columns columns = columns_of(model);
    const std::size_t count = model.lower.size();
    std::vector<double> objective(count, 0);
    objective[at(model.makespan)] = 1;
    std::vector<double> low;
    for (const Row& row : model.rows) low.push_back(row.low);
    const std::vector<double> high(model.rows.size(), HUGE_VAL);

    Cbc_Model* const handle = cbc.new_model();
    cbc.load_problem(handle, static_cast<int>(count), static_cast<int>(model.rows.size()),
                     columns.begin.data(), columns.row.data(), columns.value.data(),
                     model.lower.data(), model.upper.data(), objective.data(), low.data(),
                     high.data());
    std::vector<int> all;
    for (int c = 0; c < static_cast<int>(count); ++c) all.push_back(c);
    for (int c = model.makespan + 1; c < static_cast<int>(count); ++c) cbc.set_integer(handle, c);
    cbc.set_start(handle, static_cast<int>(count), all.data(), model.start.data());
    cbc.set_parameter(handle, "logLevel", "0");
    cbc.set_parameter(handle, "timeMode", "elapsed");
    cbc.set_parameter(handle, "seconds", std::to_string(seconds).c_str());
    cbc.set_parameter(handle, "increment", std::to_string(step_of(model)).c_str());
    cbc.solve(handle);

    const double* const point = cbc.solution(handle);
    std::vector<double> outcome(kHeader);
    outcome[kFinished] = cbc.is_optimal(handle) != 0 && point != nullptr;
    outcome[kBestPossible] = cbc.best_possible(handle);
    outcome[kNodes] = cbc.nodes(handle);
    if (point != nullptr) outcome.insert(outcome.end(), point, point + count);
    return outcome;  // the process ends with it: the model is not taken down
  }

  static void take_order(const Model& model, const double* point,
                         const schedule::OptimalProblem& problem, schedule::Proposal& proposal) {
    const schedule::ActionGraph graph = schedule::action_graph(problem);
    std::vector<double> middles;
    for (int x = 0; x < model.starts; ++x) {
      middles.push_back(point[x] + static_cast<double>(graph.of(x).duration) / model.unit / 2);
    }
    schedule::write_order(problem, graph, order_of(graph, middles), proposal.order);
  }

  // What CBC proves is true to its tolerances, 1e-7 of the whole; whole units are rounded up.
  static Picoseconds to_bound(const Model& model, double bound) {
    if (!(bound > 0)) return 0;
    const double safe = bound - 1e-7 * model.upper[at(model.makespan)];
    return static_cast<Picoseconds>(model.whole ? std::ceil(safe) * model.unit
                                                : std::floor(safe * model.unit));
  }

  std::function<double()> seconds_left_;
  std::function<bool()> goes_on_;
};

}  // namespace

std::string_view cbc_name() { return library().name; }

std::unique_ptr<schedule::Solver> make_cbc(std::function<double()> seconds_left,
                                           std::function<bool()> goes_on) {
  if (library().name.empty()) return nullptr;
  return std::make_unique<Cbc>(std::move(seconds_left), std::move(goes_on));
}

}  // namespace eratos::solver

#else

namespace eratos::solver {

std::string_view cbc_name() { return ""; }
std::unique_ptr<schedule::Solver> make_cbc(std::function<double()>, std::function<bool()>) {
  return nullptr;
}

}  // namespace eratos::solver

#endif
