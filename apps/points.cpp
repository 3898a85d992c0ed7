#include "apps/points.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "apps/exit_code.h"
#include "apps/load_job.h"
#include "eratos/projection/points.h"
#include "eratos/reader/catalogue.h"
#include "eratos/report/points.h"
#include "eratos/text/csv.h"
#include "eratos/text/file.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

bool is_points(const std::string& path) {
  const Result<std::string> text = text::read_file(path, text::kMaxTableBytes);
  if (!text) return false;
  const auto head = text::parse_csv(text->substr(0, text->find('\n')) + '\n', path);
  return head && reader::point_table_of(head->header()) != reader::PointTable::none;
}

report::PointRow row_of(const reader::Point& point,
                        const std::map<std::string, MeasuredPart>& parts,
                        const std::map<std::string, projection::PointPricer>& pricers) {
  report::PointRow row;
  row.table = reader::name_of(point.table);
  row.file = point.file;
  row.line = point.line;
  row.part = point.part;
  row.group = point.group;
  row.source = point.source;
  row.held_out = point.held_out;
  row.skipped = point.skipped;
  if (!row.skipped.empty()) return row;
  if (parts.count(point.part) == 0) {
    row.skipped = "a part that is not modelled";
    return row;
  }
  row.measured_s = point.measured.value;
  row.priced_s = pricers.at(point.part).price(point.work).value;
  if (row.priced_s <= 0) row.skipped = "a kernel that the part's calibration lacks";
  return row;
}

}  // namespace

bool any_points(const std::vector<std::string>& paths) {
  return std::any_of(paths.begin(), paths.end(), is_points);
}

Result<std::vector<reader::Point>> load_points(const std::vector<std::string>& paths) {
  Diagnostics bad;
  std::vector<reader::Point> all;
  for (const std::string& path : paths) {
    Result<std::vector<reader::Point>> points = reader::read_points(path);
    if (points) {
      std::move(points->begin(), points->end(), std::back_inserter(all));
    } else {
      bad.insert(bad.end(), points.error().begin(), points.error().end());
    }
  }
  if (!bad.empty()) return faults(std::move(bad));
  return all;
}

std::map<std::string, MeasuredPart> load_parts(const std::vector<reader::Point>& points,
                                               const reader::Overlay* overlay) {
  std::map<std::string, MeasuredPart> out;
  std::map<std::string, bool> tried;
  for (const reader::Point& point : points) {
    if (!point.skipped.empty() || !tried.emplace(point.part, true).second) continue;
    const auto spec = reader::load_accelerator(point.part);
    if (!spec || spec->kind != "gpu") continue;
    const auto calibration = reader::load_calibration(*spec, overlay);
    if (calibration) out.emplace(point.part, MeasuredPart{*spec, calibration->part});
  }
  return out;
}

int validate_points(const Arguments& arguments, Format format) {
  const auto points = load_points(arguments.words);
  if (!points) return report_faults(points.error());
  return validate_points(*points, arguments, format);
}

int validate_points(const std::vector<reader::Point>& points, const Arguments& arguments,
                    Format format) {
  const Result<reader::Overlay> overlay = overlay_of(arguments);
  if (!overlay) return report_faults(overlay.error());
  const std::map<std::string, MeasuredPart> parts =
      load_parts(points, overlay->file.empty() ? nullptr : &*overlay);
  std::map<std::string, projection::PointPricer> pricers;
  for (const auto& [name, part] : parts) {
    pricers.emplace(std::piecewise_construct, std::forward_as_tuple(name),
                    std::forward_as_tuple(part.spec, part.calibration));
  }
  std::vector<report::PointRow> rows;
  for (const reader::Point& point : points) rows.push_back(row_of(point, parts, pricers));
  std::string text;
  if (format == Format::json) {
    text = report::points_json(rows, std::string(kVersion));
  } else if (format == Format::csv) {
    text = report::points_csv(rows);
  } else {
    text = report::points_text(rows, style_of(arguments));
  }
  return deliver(text, arguments, kAnswered);
}

}  // namespace eratos::apps
