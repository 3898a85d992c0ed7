// eratos calibrate LOG ... | GEMM.csv ...: curves of collectives and products that reproduce logs
// of nccl-tests or rccl-tests and CSV timings.
#include "apps/calibrate_logs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "apps/exit_code.h"
#include "apps/output.h"
#include "apps/points.h"
#include "eratos/projection/fit_pieces.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/gemm_csv.h"
#include "eratos/reader/measured.h"
#include "eratos/reader/nccl_log.h"
#include "eratos/report/json.h"
#include "eratos/report/measured_fit.h"
#include "eratos/text/csv.h"
#include "eratos/text/dump.h"
#include "eratos/text/file.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

using projection::CollectivePoint;
using projection::GemmPoint;
using projection::Sample;
using report::FittedPart;
using report::MeasuredFit;

// What the fit aims at; what it reaches is said.
constexpr double kTolerance = 0.05;

enum class Foreign { none, log, products };

Foreign kind_of(const std::string& text, const std::string& path) {
  if (reader::is_nccl_log(text)) return Foreign::log;
  const auto head = text::parse_csv(text.substr(0, text.find('\n')) + '\n', path);
  return head && reader::is_gemm_csv(head->header()) ? Foreign::products : Foreign::none;
}

// Everything that the files say.
struct Read {
  std::vector<reader::Point> points;
  calibration::Measured measured;
  std::vector<std::string> notes;
  int across_hosts = 0;  // tables that `measured` does not hold
};

void add_provenance(calibration::MeasuredProvenance& to, const std::string& device,
                    const std::string& source, int ranks) {
  to.device = device;
  to.device_kind = "cuda";
  to.source = to.source.empty() || to.source == source ? source : "nccl-tests, gemm-csv";
  to.ranks = std::max(to.ranks, ranks);
  if (source == "nccl-tests") to.backend = "nccl";
}

void read_log(const std::string& text, const std::string& path, const std::string& cluster,
              Read& out, Diagnostics& bad) {
  const auto tables = reader::parse_nccl_log(text, path);
  if (!tables) {
    bad.insert(bad.end(), tables.error().begin(), tables.error().end());
    return;
  }
  for (const reader::NcclTable& table : *tables) {
    for (const std::string& note : table.notes) out.notes.push_back(path + ": " + note);
    if (!table.skipped.empty()) {
      out.notes.push_back(fmt::format("{}:{}: {}", path, table.line, table.skipped));
      continue;
    }
    auto points = reader::points_of(table, path, cluster);
    if (!points) {
      bad.insert(bad.end(), points.error().begin(), points.error().end());
      continue;
    }
    std::move(points->begin(), points->end(), std::back_inserter(out.points));
    // A piece says how many ranks took part, not where: it is of one host.
    if (table.hosts == 1) {
      for (auto& piece : reader::pieces_of(table)) out.measured.pieces.push_back(std::move(piece));
    } else {
      ++out.across_hosts;
    }
    add_provenance(out.measured.provenance, table.device, "nccl-tests", table.ranks);
    out.measured.provenance.notes.push_back(
        fmt::format("{}: {} over {} ranks on {} host{}, each time the mean of {} iterations",
                    path.substr(path.rfind('/') + 1), table.program, table.ranks, table.hosts,
                    table.hosts == 1 ? "" : "s", table.iterations));
  }
}

void read_products(const std::string& text, const std::string& path, const Arguments& arguments,
                   Read& out, Diagnostics& bad) {
  reader::GemmCsvOptions options;
  options.time_unit = arguments.value("--time-unit");
  if (arguments.has("--cluster")) {
    const auto cluster = reader::load_cluster(arguments.value("--cluster"));
    if (!cluster) {
      bad.insert(bad.end(), cluster.error().begin(), cluster.error().end());
      return;
    }
    options.part = cluster->accelerator.name;
  }
  auto read = reader::parse_gemm_csv(text, path, options);
  if (!read) {
    bad.insert(bad.end(), read.error().begin(), read.error().end());
    return;
  }
  for (auto& piece : read->pieces) out.measured.pieces.push_back(std::move(piece));
  add_provenance(out.measured.provenance, read->points.front().part, "gemm-csv", 1);
  out.measured.provenance.notes.push_back(path.substr(path.rfind('/') + 1) +
                                          ": products timed alone");
  std::move(read->points.begin(), read->points.end(), std::back_inserter(out.points));
}

// Two logs of one size: their samples together.
void gather(calibration::Measured& measured) {
  std::map<std::string, std::size_t> known;
  std::vector<calibration::MeasuredPiece> out;
  for (calibration::MeasuredPiece& piece : measured.pieces) {
    const auto [at, fresh] = known.try_emplace(calibration::id_of(piece.piece), out.size());
    if (fresh) {
      out.push_back(std::move(piece));
      continue;
    }
    calibration::MeasuredPiece& same = out[at->second];
    same.samples.insert(same.samples.end(), piece.samples.begin(), piece.samples.end());
    calibration::summarise(same.samples, same);
  }
  measured.pieces = std::move(out);
}

Result<Read> read_all(const Arguments& arguments) {
  Read out;
  Diagnostics bad;
  for (const std::string& path : arguments.words) {
    const Result<std::string> text = text::read_file(path, text::kMaxTableBytes);
    if (!text) {
      bad.insert(bad.end(), text.error().begin(), text.error().end());
      continue;
    }
    switch (kind_of(*text, path)) {
      case Foreign::log:
        read_log(*text, path, arguments.value("--cluster"), out, bad);
        break;
      case Foreign::products:
        read_products(*text, path, arguments, out, bad);
        break;
      case Foreign::none:
        bad.push_back({{path, 1, 0},
                       "neither a log of nccl-tests nor a table of products",
                       "hand in tables of runs, points or logs apart from one another",
                       {}});
        break;
    }
  }
  if (!bad.empty()) return faults(std::move(bad));
  gather(out.measured);
  return out;
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : calibration::quantile(values, 0.5);
}

template <class P, class Name>
void judge(const projection::PointPricer& pricer, const std::vector<Sample<P>>& samples,
           const Name& name, MeasuredFit& out) {
  std::vector<double> errors;
  out.points = static_cast<int>(samples.size());
  for (const Sample<P>& s : samples) {
    errors.push_back(std::abs(pricer.price(s.point) / s.measured - 1));
    if (errors.back() > kTolerance) ++out.beyond;
    if (errors.back() < out.worst) continue;
    out.worst = errors.back();
    out.worst_at = name(s.point);
  }
  out.median = median_of(std::move(errors));
}

// The measurements of one part, by what one curve describes.
struct Group {
  ops::CollectiveKind kind = ops::CollectiveKind::all_reduce;
  int gpus = 0;
  int domains = 1;
  bool operator<(const Group& o) const {
    return std::tie(domains, gpus, kind) < std::tie(o.domains, o.gpus, o.kind);
  }
};

class Part {
 public:
  Part(hardware::AcceleratorSpec spec, const calibration::PartCalibration& calibration)
      : spec_(std::move(spec)) {
    fitted_.calibration = calibration;
  }

  void add(const reader::Point& point) {
    sources_.insert(point.source);
    if (const auto* c = std::get_if<CollectivePoint>(&point.work)) {
      const auto placement = collective::place(c->group, c->cluster);
      const int domains = (placement.size + placement.members[0] - 1) / placement.members[0];
      const Group group{c->kind, placement.size, domains};
      collectives_[group].push_back({*c, point.measured});
      group_sources_[group].insert(point.source);
    } else if (const auto* g = std::get_if<GemmPoint>(&point.work)) {
      products_[g->product.dtype].push_back({*g, point.measured});
    }
  }

  void fit(std::vector<MeasuredFit>& fits) {
    fit_products(fits);
    // Groups inside a domain first: those across domains are fitted beside them.
    for (const auto& [group, samples] : collectives_) fit_group(group, samples);
    fit_network(fits);
    const projection::PointPricer pricer(spec_, fitted_.calibration);
    for (const auto& [group, samples] : collectives_) {
      MeasuredFit fit = begin(fmt::format(
          "{} over {}{}", ops::name_of(group.kind), group.gpus,
          group.domains > 1 ? fmt::format(" in {} domains", group.domains) : std::string()));
      fit.pieces = pieces_.count(group) != 0 ? pieces_.at(group) : 0;
      fit.source = fmt::format("{}", fmt::join(group_sources_.at(group), ", "));
      judge(
          pricer, samples,
          [](const CollectivePoint& p) { return report::bytes_text(p.bytes.value); }, fit);
      fits.push_back(std::move(fit));
    }
  }

  const FittedPart& fitted() const { return fitted_; }
  const hardware::AcceleratorSpec& spec() const { return spec_; }

 private:
  MeasuredFit begin(std::string curve) const {
    MeasuredFit fit;
    fit.part = spec_.name;
    fit.curve = std::move(curve);
    fit.source = fmt::format("{}", fmt::join(sources_, ", "));
    return fit;
  }

  void fit_products(std::vector<MeasuredFit>& fits) {
    for (const auto& [dtype, samples] : products_) {
      std::vector<Sample<GemmPoint>> dense;
      for (const auto& s : samples) {
        if (s.point.product.groups <= 1) dense.push_back(s);
      }
      const auto fit = projection::fit_gemm(spec_, fitted_.calibration, dense);
      MeasuredFit line = begin(fmt::format("product {}", name_of(dtype)));
      if (fit) {
        auto& curve = fitted_.calibration.gemm[static_cast<std::size_t>(dtype)];
        curve = fit->curve;
        curve.source = line.source + "; fit by eratos calibrate";
        fitted_.formats.push_back(dtype);
      } else {
        line.pieces = 0;
      }
      const projection::PointPricer pricer(spec_, fitted_.calibration);
      judge(
          pricer, samples,
          [](const GemmPoint& p) {
            const ops::Gemm& g = p.product;
            return fmt::format("{:.0f} x {:.0f} x {:.0f}", g.m, g.n, g.k);
          },
          line);
      fits.push_back(std::move(line));
    }
  }

  // Which of the algorithms with curves the group runs, as collective/select.cpp allows them. Where
  // the switch adds, the library chose between ring and switch at every size: what it took stands
  // for both, since the one that it did not choose was no faster.
  std::vector<std::string> algorithms_of(const Group& group, const CollectivePoint& point) const {
    if (group.kind == ops::CollectiveKind::send_recv) return {"direct"};
    if (group.kind == ops::CollectiveKind::all_to_all) {
      const bool mesh = point.cluster.levels[0].topology == hardware::Topology::mesh;
      return {group.domains == 1 && mesh ? "mesh" : "pairwise"};
    }
    if (group.domains > 1) return {"ring"};
    if (point.cluster.levels[0].topology == hardware::Topology::mesh) return {"mesh"};
    if (group.kind == ops::CollectiveKind::all_reduce &&
        point.cluster.levels[0].in_switch_reduction) {
      return {"ring", "in_switch"};
    }
    return {"ring"};
  }

  void fit_group(const Group& group, const std::vector<Sample<CollectivePoint>>& samples) {
    auto& rows = fitted_.calibration.collectives;
    for (const std::string& algorithm : algorithms_of(group, samples[0].point)) {
      const auto fit = projection::fit_pieces(algorithm, group.domains, samples, kTolerance);
      if (!fit) return;
      std::erase_if(rows, [&](const calibration::CollectiveCurve& c) {
        return c.kind == ops::name_of(group.kind) && c.algorithm == algorithm &&
               c.gpus == group.gpus && c.domains == group.domains;
      });
      for (calibration::CollectiveCurve row : fit->rows) {
        row.source =
            fmt::format("{}; fit by eratos calibrate", fmt::join(group_sources_.at(group), ", "));
        rows.push_back(std::move(row));
      }
      fitted_.collectives = true;
      pieces_[group] = static_cast<int>(fit->rows.size());
    }
  }

  void fit_network(std::vector<MeasuredFit>& fits) {
    std::vector<Sample<CollectivePoint>> all;
    for (const auto& [group, samples] : collectives_) {
      if (group.domains > 1) all.insert(all.end(), samples.begin(), samples.end());
    }
    const auto fit = projection::fit_network(spec_, fitted_.calibration, all);
    if (!fit) return;
    MeasuredFit line = begin("network, for other groups");
    fitted_.calibration.network = *fit;
    fitted_.calibration.network.source = line.source + "; fit by eratos calibrate";
    fitted_.network = true;
    calibration::PartCalibration alone = fitted_.calibration;
    std::erase_if(alone.collectives, [](const auto& c) { return c.domains > 1; });
    judge(
        projection::PointPricer(spec_, alone), all,
        [](const CollectivePoint& p) {
          return fmt::format("{} {}", ops::name_of(p.kind), report::bytes_text(p.bytes.value));
        },
        line);
    fits.push_back(std::move(line));
  }

  hardware::AcceleratorSpec spec_;
  FittedPart fitted_;
  std::set<std::string> sources_;
  std::map<Group, std::vector<Sample<CollectivePoint>>> collectives_;
  std::map<Group, std::set<std::string>> group_sources_;
  std::map<Group, int> pieces_;
  std::map<DType, std::vector<Sample<GemmPoint>>> products_;
};

// Clocks rise above those of the stated rate. Source: H100 SXM's 989 TFLOPS are of 1,830 MHz, its
// highest clock is 1,980 MHz: 1.08.
constexpr double kMostOfPeak = 1.1;

// Nothing where the accelerator can be as fast as the line says.
Diagnostics beyond_peak(const reader::Point& point, const hardware::AcceleratorSpec& spec) {
  const auto* g = std::get_if<GemmPoint>(&point.work);
  if (g == nullptr) return {};
  const double peak = spec.peak_of(g->product.dtype).value;
  const double rate = g->product.flops().value / point.measured.value;
  if (peak <= 0 || rate <= kMostOfPeak * peak) return {};
  return {{.where = {point.file, point.line, 0},
           .message = fmt::format("{:.4g} TFLOP/s in {}, where {} has at most {:.4g}", rate / 1e12,
                                  name_of(g->product.dtype), spec.name, peak / 1e12),
           .cure = "check the unit of the time (--time-unit), the format and the accelerator"}};
}

// What keeps the measurements from being one device's.
Diagnostics measured_faults(const std::map<std::string, Part>& parts, const Read& read,
                            const std::string& file) {
  if (read.measured.pieces.empty()) {
    return {{.where = {.file = file},
             .message = "nothing to write: what was measured ran over several hosts, and a file of "
                        "measurements is of one",
             .cure = "leave --write-measured out; -o FILE keeps the curves"}};
  }
  if (parts.size() < 2) return {};
  std::string names;
  for (const auto& [name, part] : parts) names += (names.empty() ? "" : ", ") + name;
  return {{.where = {.file = file},
           .message =
               "the measurements are of " + names + ", and a file of measurements is of one device",
           .cure = "write one file for each"}};
}

Result<std::map<std::string, Part>> parts_of(const std::vector<reader::Point>& points) {
  std::map<std::string, Part> out;
  Diagnostics bad;
  for (const reader::Point& point : points) {
    auto at = out.find(point.part);
    if (at == out.end()) {
      auto spec = reader::load_accelerator(point.part);
      auto calibration = spec ? reader::load_calibration(*spec)
                              : Result<calibration::Calibration>(faults(spec.error()));
      if (!calibration) {
        bad.insert(bad.end(), calibration.error().begin(), calibration.error().end());
        return faults(std::move(bad));
      }
      at = out.emplace(point.part, Part(*std::move(spec), calibration->part)).first;
    }
    const Diagnostics beyond = beyond_peak(point, at->second.spec());
    bad.insert(bad.end(), beyond.begin(), beyond.end());
    at->second.add(point);
  }
  if (!bad.empty()) return faults(std::move(bad));
  return out;
}

}  // namespace

bool any_logs(const std::vector<std::string>& paths) {
  return std::any_of(paths.begin(), paths.end(), [](const std::string& path) {
    const Result<std::string> text = text::read_file(path, text::kMaxTableBytes);
    return text && kind_of(*text, path) != Foreign::none;
  });
}

int validate_logs(const Arguments& arguments, Format format) {
  const Result<Read> read = read_all(arguments);
  if (!read) return report_faults(read.error());
  for (const std::string& note : read->notes) std::fprintf(stderr, "not used: %s\n", note.c_str());
  return validate_points(read->points, arguments, format);
}

int calibrate_logs(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, "text json");
  if (!format) return report_usage(format.error().front().message);
  for (const char* flag : {"--output", "--write-measured"}) {
    if (!arguments.has(flag)) continue;
    if (const int code = place_fault(arguments.value(flag), arguments); code != kAnswered) {
      return code;
    }
  }
  if (const std::string same = same_file(arguments); !same.empty()) return report_usage(same);
  const Result<Read> read = read_all(arguments);
  if (!read) return report_faults(read.error());
  for (const std::string& note : read->notes) {
    std::fprintf(stderr, "not used: %s\n", note.c_str());
  }
  if (read->points.empty()) {
    return report_faults({{.where = {.file = arguments.words.front()},
                           .message = "no measurement that can be fitted"}});
  }
  auto parts = parts_of(read->points);
  if (!parts) return report_faults(parts.error());
  if (arguments.has("--write-measured")) {
    const Diagnostics bad = measured_faults(*parts, *read, arguments.value("--write-measured"));
    if (!bad.empty()) return report_faults(bad);
    if (read->across_hosts > 0) {
      std::fprintf(stderr, "not in %s: %d tables over several hosts; it is of one\n",
                   arguments.value("--write-measured").c_str(), read->across_hosts);
    }
  }
  std::vector<MeasuredFit> fits;
  std::map<std::string, FittedPart> fitted;
  for (auto& [name, part] : *parts) {
    part.fit(fits);
    fitted.emplace(name, part.fitted());
  }
  if (arguments.has("--write-measured")) {
    const int written = write_named(arguments.value("--write-measured"),
                                    reader::measured_json(read->measured), arguments);
    if (written != kAnswered) return written;
  }
  if (arguments.has("--output")) {
    const text::Node overlay = report::overlay_node(fitted, fits, std::string(kVersion));
    const int written = write_named(arguments.value("--output"), text::to_yaml(overlay), arguments);
    if (written != kAnswered) return written;
  }
  Arguments to_terminal = arguments;
  to_terminal.flags.erase("--output");
  if (*format == Format::json) {
    text::Node out = report::document(std::string(kVersion));
    out.set("curves", report::measured_fit_node(fits));
    return deliver(text::to_json(out) + '\n', to_terminal, kAnswered);
  }
  std::string text = report::measured_fit_text(fits, style_of(to_terminal));
  if (!arguments.has("--output")) text += "\n-o FILE writes the curves for --calibration\n";
  return deliver(text, to_terminal, kAnswered);
}

}  // namespace eratos::apps
