#include "record.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "journal.h"
#include "statistics.h"

namespace eratos::device {

namespace {

// A field of the plan: a number where it reads as one, else a string.
std::string value_of(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool is_number = !text.empty() && *end == '\0' && std::isfinite(value) &&
                         text.find_first_not_of("0123456789+-.eE") == std::string::npos;
  return is_number ? number(value) : quoted(text);
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", byte);
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  const bool whole = std::abs(value) < 9e15 && value == std::floor(value);
  std::snprintf(text, sizeof text, whole ? "%.0f" : "%.9g", value);
  return text;
}

std::string object(const Members& members) {
  std::string out = "{";
  for (const auto& [key, value] : members) {
    if (out.size() > 1) out += ',';
    out += quoted(key) + ':' + value;
  }
  return out + '}';
}

std::string list(const std::vector<std::string>& values) {
  std::string out = "[";
  for (const std::string& value : values) {
    if (out.size() > 1) out += ',';
    out += value;
  }
  return out + ']';
}

std::string piece_json(const Piece& piece, const Measured& m) {
  Members out{{"id", quoted(piece.id)}, {"kind", quoted(piece.kind)}};
  for (const auto& [key, value] : piece.fields) {
    if (key != "id") out.emplace_back(key, value_of(value));
  }
  if (!m.samples.empty()) {
    const Summary s = summarise(m.samples);
    std::vector<std::string> raw;
    for (const double sample : m.samples) raw.push_back(number(sample));
    out.emplace_back("median_s", number(s.median));
    out.emplace_back("minimum_s", number(s.minimum));
    out.emplace_back("spread", number(s.spread));
    out.emplace_back("interval", number(s.interval));
    out.emplace_back("samples_s", list(raw));
    out.emplace_back("calls_per_sample", number(m.calls));
    out.emplace_back("warmup", number(m.warm_up));
    out.emplace_back("disturbed", m.disturbed ? "true" : "false");
  }
  out.emplace_back("checked", m.error < 0 ? "null" : number(m.error));
  if (m.bytes_peak >= 0) out.emplace_back("bytes_peak", number(m.bytes_peak));
  if (m.bytes_reserved >= 0) out.emplace_back("bytes_reserved", number(m.bytes_reserved));
  if (m.bytes_live >= 0) out.emplace_back("bytes_live", number(m.bytes_live));
  if (!m.notes.empty()) {
    std::vector<std::string> notes;
    for (const std::string& note : m.notes) notes.push_back(quoted(note));
    out.emplace_back("notes", list(notes));
  }
  return object(out);
}

std::string file_json(const Plan& plan, const Members& provenance, const std::string& key,
                      const std::vector<std::string>& pieces,
                      const std::vector<Unmeasured>& unmeasured) {
  std::string out = "{\"eratos_measured\":1,\n" + key_line(key) + ",\n\"provenance\":{";
  for (std::size_t i = 0; i < provenance.size(); ++i) {
    out += (i == 0 ? "\n" : ",\n") + quoted(provenance[i].first) + ':' + provenance[i].second;
  }
  out +=
      "\n},\n\"job\":" + object({{"name", quoted(plan.job)}, {"digest", quoted(plan.job_digest)}}) +
      ",\n\"pieces\":[";
  for (std::size_t i = 0; i < pieces.size(); ++i) out += (i == 0 ? "\n" : ",\n") + pieces[i];
  out += "\n],\n\"unmeasured\":[";
  for (std::size_t i = 0; i < unmeasured.size(); ++i) {
    out += (i == 0 ? "\n" : ",\n") +
           object({{"id", quoted(unmeasured[i].id)}, {"why", quoted(unmeasured[i].why)}});
  }
  return out + "\n]}\n";
}

}  // namespace eratos::device
