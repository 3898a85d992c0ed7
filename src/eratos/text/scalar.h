// What does an unquoted word of a YAML file mean: a number, a switch, or text?
//
// The training frameworks whose files we read load them with PyYAML, which follows YAML 1.1 with
// its own patterns. Reading a value otherwise than the framework does would project another job,
// so the patterns are reproduced exactly, surprises included:
//
//   word     kind      value          why it surprises
//   1e-5     string                   a float needs a dot
//   1.0e5    string                   and a sign in its exponent
//   1.0e-5   floating  0.00001
//   010      integer   8              leading zero is octal; 0o10 is a string
//   08       string
//   1_000    integer   1000
//   12:30    integer   750            base 60
//   yes, on  boolean   true
//   y        string
//
// Source: PyYAML 6.0 lib/yaml/resolver.py (implicit resolvers) and lib/yaml/constructor.py
// (construct_yaml_int, construct_yaml_float); YAML 1.1 type repository, https://yaml.org/type/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace eratos::text {

enum class ScalarKind : std::uint8_t { null, boolean, integer, floating, string, timestamp };

// "an integer", "a string", ...: for messages.
std::string_view name_of(ScalarKind kind);

// The kind PyYAML gives an unquoted word. One deviation: words that match PyYAML's integer pattern
// but have no digits (`0x_`), on which PyYAML raises, are strings here.
ScalarKind pyyaml_kind(std::string_view plain);

std::optional<bool> bool_of(std::string_view word);

// Value of a word of kind integer; nothing for other words and for values beyond 64 bits.
std::optional<std::int64_t> int_of(std::string_view word);

// Value of a word of kind integer or floating, and, more lenient than PyYAML, of any decimal number
// (`1e-5`, `+.5`). Nothing for other words and for values beyond a double.
std::optional<double> double_of(std::string_view word);

// Shortest text that reads back as the same double, as a YAML 1.1 float: 1e-5 is "1.0e-05",
// 4 is "4.0", infinity is ".inf".
std::string yaml_double(double value);

// The same as a JSON number: "1e-05", "4.0". JSON has no infinity and no NaN: "null".
std::string json_double(double value);

}  // namespace eratos::text
