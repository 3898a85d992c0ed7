#include "eratos/text/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <exception>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <utility>
#include <vector>

#include "eratos/text/duplicate_keys.h"
#include "eratos/text/encoding.h"
#include "eratos/text/file.h"
#include "eratos/text/yaml_source.h"

namespace eratos::text {
namespace {

// Leaves yaml-cpp's parser through its event interface; never leaves this file.
struct Refused {
  Diagnostic why;
};

struct Cost {
  std::size_t nodes = 0;
  std::size_t text_bytes = 0;

  Cost& operator+=(Cost o) {
    nodes += o.nodes;
    text_bytes += o.text_bytes;
    return *this;
  }
};

// A value whose anchor may be referred to; `open` while its end has not been seen.
struct Anchored {
  std::string name;
  bool open = true;
  Node value;
  Cost cost;
};

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

// How a scalar looks in the text, for when it turns out to be a key.
struct Written {
  std::size_t at = kNowhere;
  bool merges = false;  // an unquoted `<<`
};

// A sequence or mapping whose end has not been seen.
struct Open {
  Node node;
  YAML::anchor_t anchor = 0;
  Cost cost;
  bool is_block = false;
  bool has_key = false;
  bool key_merges = false;
  std::string key;
  Place key_place;
  std::size_t key_at = kNowhere;  // offset in the text; kNowhere for an alias
  std::optional<Entry> merged;    // the value of `<<`
};

constexpr std::string_view kYamlTag = "tag:yaml.org,2002:";

// "!!int" for tag:yaml.org,2002:int, otherwise the tag as it is.
std::string tag_as_written(const std::string& tag) {
  if (tag.rfind(kYamlTag, 0) == 0) return "!!" + tag.substr(kYamlTag.size());
  return tag;
}

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, std::shared_ptr<const std::string> file, TreeLimits limits)
      : text_(text),
        file_(std::move(file)),
        limits_(limits),
        root_(Node::null(Place(file_, 1, 1))) {}

  Node take_root() { return std::move(root_); }
  Diagnostics& duplicates() { return duplicates_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      refuse(place(mark), "a second YAML document begins here", "keep one document a file");
    }
  }
  void OnDocumentEnd() override {
    if (quoted_at_ != kNowhere && is_unclosed_quote(text_, quoted_at_)) {
      refuse(quoted_place_, "this quote is never closed", "close it");
    }
  }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto at = static_cast<std::size_t>(mark.pos);
    Place null_place = place(mark);
    if (!stack_.empty() && !is_null_word(text_, at)) {
      const Open& top = stack_.back();
      if (top.node.is_sequence() && at < text_.size() && text_[at] == ',') {
        refuse(null_place, "an item is missing before this comma", "remove the comma");
      }
      if (top.is_block && top.has_key && top.key_at != kNowhere &&
          lacks_colon(text_, top.key_at, top.key)) {
        refuse(top.key_place, "expected `:` after the key `" + excerpt(top.key) + "`",
               "write `" + excerpt(top.key) + ": VALUE`");
      }
      // yaml-cpp marks what follows the missing value, which may be lines below.
      if (top.has_key) null_place = top.key_place;
    }
    finish(Node::null(null_place), anchor, {1, 0});
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const auto at = static_cast<std::size_t>(mark.pos);
    if (tag != "?") {
      quoted_at_ = at;
      quoted_place_ = place(mark);
    }
    finish(scalar(mark, tag, value), anchor, {1, value.size()}, {at, tag == "?" && value == "<<"});
  }

  void OnAnchor(const YAML::Mark&, const std::string& name) override { anchor_name_ = name; }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) refuse(place(mark), "alias without an anchor", "define it first");
    const Anchored& a = known->second;
    ++aliases_;
    if (a.open) {
      refuse(place(mark), "alias `*" + excerpt(a.name) + "` is inside the value it stands for",
             "write the value out");
    }
    // Paid before the copy is made: an alias bomb must not be built to be found out.
    spend(a.cost, place(mark));
    finish_paid(a.value, a.cost);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    expect_tag(mark, tag, "seq");
    open(Node::sequence({}, place(mark)), anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    expect_tag(mark, tag, "map");
    open(Node::mapping(place(mark)), anchor);
    stack_.back().is_block = style == YAML::EmitterStyle::Block;
  }
  void OnMapEnd() override {
    Open& top = stack_.back();
    const std::size_t before = duplicates_.size();
    report_duplicate_keys(top.node.entries(), duplicates_);
    if (duplicates_.size() > before) keep_last_keys(top.node.entries());
    if (top.merged) apply_merge(*top.merged, top.node);
    close();
  }

 private:
  Place place(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }

  [[noreturn]] static void refuse(const Place& at, std::string message, std::string cure) {
    throw Refused{{at.location(), std::move(message), std::move(cure)}};
  }

  void spend(Cost cost, const Place& at) {
    spent_ += cost;
    const char* cure =
        aliases_ > 0 ? "is this an alias bomb? write the values out" : "write a smaller file";
    if (spent_.nodes > limits_.nodes) {
      refuse(at, "more than " + std::to_string(limits_.nodes) + " values with aliases expanded",
             cure);
    }
    if (spent_.text_bytes > limits_.text_bytes) {
      refuse(at,
             "more than " + std::to_string(limits_.text_bytes) +
                 " bytes of text with aliases expanded",
             cure);
    }
  }

  void expect_tag(const YAML::Mark& mark, const std::string& tag, std::string_view kind) const {
    if (tag == "?" || tag == "!" || tag.empty()) return;
    if (tag.rfind(kYamlTag, 0) == 0 && std::string_view(tag).substr(kYamlTag.size()) == kind)
      return;
    refuse(place(mark), "tag `" + excerpt(tag_as_written(tag)) + "` is not understood here",
           "remove the tag");
  }

  Node scalar(const YAML::Mark& mark, const std::string& tag, const std::string& value) const {
    Place at = place(mark);
    if (tag == "?" || tag.empty()) return Node::plain(value, std::move(at));
    // "!" is yaml-cpp's mark of a scalar in quotes or of block style.
    if (tag == "!") return Node::string(value, std::move(at));
    const std::string written = tag_as_written(tag);
    if (written == "!!str") return Node::string(value, std::move(at));
    if (written == "!!null" && pyyaml_kind(value) == ScalarKind::null) {
      return Node::null(std::move(at));
    }
    if (written == "!!bool" && bool_of(value)) {
      return Node::typed(value, ScalarKind::boolean, std::move(at));
    }
    if (written == "!!int" && int_of(value)) {
      return Node::typed(value, ScalarKind::integer, std::move(at));
    }
    if (written == "!!float" && double_of(value)) {
      return Node::typed(value, ScalarKind::floating, std::move(at));
    }
    refuse(at, "tag `" + excerpt(written) + "` does not fit the value `" + excerpt(value) + "`",
           "remove the tag");
  }

  void open(Node node, YAML::anchor_t anchor) {
    if (static_cast<int>(stack_.size()) >= limits_.depth) {
      refuse(node.place(), "nested more than " + std::to_string(limits_.depth) + " levels deep",
             "write a flatter file");
    }
    spend({1, 0}, node.place());
    if (anchor != 0) begin_anchor(anchor);
    Open top;
    top.node = std::move(node);
    top.anchor = anchor;
    top.cost = {1, 0};
    stack_.push_back(std::move(top));
  }

  void close() {
    Open top = std::move(stack_.back());
    stack_.pop_back();
    if (top.anchor != 0) end_anchor(top.anchor, top.node, top.cost);
    finish_paid(std::move(top.node), top.cost);
  }

  void begin_anchor(YAML::anchor_t anchor) {
    Anchored a;
    a.name = std::exchange(anchor_name_, {});
    anchors_[anchor] = std::move(a);
  }

  void end_anchor(YAML::anchor_t anchor, const Node& value, Cost cost) {
    // The kept copy counts as well, or anchors nested in one another would multiply a small file.
    spend(cost, value.place());
    Anchored& a = anchors_[anchor];
    a.open = false;
    a.value = value;
    a.cost = cost;
  }

  void finish(Node node, YAML::anchor_t anchor, Cost cost, Written written = {}) {
    spend(cost, node.place());
    if (anchor != 0) {
      begin_anchor(anchor);
      end_anchor(anchor, node, cost);
    }
    finish_paid(std::move(node), cost, written);
  }

  // Hands a complete value to the container that is open, as item, key or value.
  void finish_paid(Node node, Cost cost, Written written = {}) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& top = stack_.back();
    top.cost += cost;
    if (top.node.is_sequence()) {
      top.node.append(std::move(node));
    } else if (!top.has_key) {
      if (!node.is_scalar()) {
        refuse(node.place(), "a key must be a single word, found " + node.describe(),
               "put a key before the colon");
      }
      top.has_key = true;
      top.key_merges = written.merges;
      top.key_at = written.at;
      top.key = node.raw();
      top.key_place = node.place();
    } else {
      top.has_key = false;
      Entry entry{std::move(top.key), std::move(top.key_place), std::move(node)};
      if (!top.key_merges) {
        top.node.entries().push_back(std::move(entry));
      } else if (top.merged) {
        refuse(entry.key_place,
               "`<<` is given twice, at line " + std::to_string(top.merged->key_place.line) +
                   " and line " + std::to_string(entry.key_place.line),
               "list the sources: `<<: [*a, *b]`");
      } else {
        top.merged = std::move(entry);
      }
    }
  }

  static void apply_merge(const Entry& merged, Node& into) {
    std::vector<const Node*> sources;
    if (merged.value.is_sequence()) {
      for (const Node& item : merged.value.items()) sources.push_back(&item);
    } else {
      sources.push_back(&merged.value);
    }
    // Later assignments win but keep the first one's position, as in a Python dict.
    std::vector<Entry> result;
    std::unordered_map<std::string, std::size_t> position;
    const auto assign = [&](const Entry& e) {
      const auto [at, is_new] = position.emplace(e.key, result.size());
      if (is_new) {
        result.push_back(e);
      } else {
        result[at->second] = e;
      }
    };
    std::reverse(sources.begin(), sources.end());
    for (const Node* source : sources) {
      if (!source->is_mapping()) {
        refuse(source->place(), "`<<` merges mappings, found " + source->describe(),
               "give a mapping or a sequence of mappings");
      }
      for (const Entry& e : source->entries()) assign(e);
    }
    for (const Entry& e : std::as_const(into).entries()) assign(e);
    into.entries() = std::move(result);
  }

  std::string_view text_;
  std::shared_ptr<const std::string> file_;
  TreeLimits limits_;
  Node root_;
  int documents_ = 0;
  std::size_t aliases_ = 0;
  std::vector<Open> stack_;
  std::unordered_map<YAML::anchor_t, Anchored> anchors_;
  std::string anchor_name_;
  std::size_t quoted_at_ = kNowhere;  // where the last quoted scalar begins
  Place quoted_place_;
  Cost spent_;
  Diagnostics duplicates_;
};

// The nearest line up to `line` that is indented with a tab, or 0: the usual cause of an error that
// the scanner describes in other words.
int tab_indented_line(std::string_view text, int line) {
  int found = 0;
  std::size_t begin = 0;
  for (int n = 1; n <= line && begin <= text.size(); ++n) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) end = text.size();
    const std::string_view here = text.substr(begin, end - begin);
    const std::size_t word = here.find_first_not_of(" \t");
    if (word != std::string_view::npos &&
        here.substr(0, word).find('\t') != std::string_view::npos) {
      found = n;
    }
    begin = end + 1;
  }
  return found;
}

// What usually causes each of yaml-cpp's messages.
std::string cure_for(const std::string& message) {
  if (message == YAML::ErrorMsg::MAP_VALUE) {
    return "quote a value that contains `: `, and check the indentation here";
  }
  if (message == YAML::ErrorMsg::END_OF_SEQ_FLOW) return "close the `[` before this place with `]`";
  if (message == YAML::ErrorMsg::END_OF_MAP_FLOW) return "close the `{` before this place with `}`";
  if (message == YAML::ErrorMsg::UNKNOWN_TOKEN) {
    return "quote a value that begins with a special character";
  }
  if (message == YAML::ErrorMsg::UNKNOWN_ANCHOR) {
    return "define it with `&` earlier in the file, or quote a text that begins with `*`";
  }
  return "correct the YAML here or just above";
}

Diagnostic syntax_fault(const YAML::Exception& e, std::string_view text, const std::string& file) {
  Diagnostic d;
  d.where.file = file;
  d.message = "not valid YAML: " + excerpt(e.msg);
  d.cure = cure_for(e.msg);
  if (e.mark.is_null()) return d;
  d.where.line = e.mark.line + 1;
  d.where.column = e.mark.column + 1;
  if (const int line = tab_indented_line(text, d.where.line); line > 0) {
    d.cure = "indent with spaces: line " + std::to_string(line) + " is indented with a tab";
  }
  return d;
}

}  // namespace

namespace {

Result<Node> parse(std::string_view text, const std::string& file, TreeLimits limits,
                   Diagnostics* repeated) {
  if (text.size() > limits.bytes) return fault(too_large(file, text.size(), limits.bytes));
  if (auto junk = find_non_text(text, file)) return fault(std::move(*junk));
  const std::string_view yaml = without_byte_order_mark(text);
  TreeBuilder builder(yaml, std::make_shared<const std::string>(file), limits);
  Diagnostics faults_found;
  try {
    std::istringstream stream{std::string(yaml)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refused& refused) {
    faults_found.push_back(refused.why);
  } catch (const YAML::Exception& e) {
    faults_found.push_back(syntax_fault(e, yaml, file));
  } catch (const std::exception& e) {
    faults_found.push_back(
        {{file, 0, 0}, "not valid YAML: " + excerpt(e.what()), "correct the YAML"});
  }
  Diagnostics all = std::move(builder.duplicates());
  if (repeated != nullptr && faults_found.empty()) {
    *repeated = std::move(all);
    return builder.take_root();
  }
  all.insert(all.end(), faults_found.begin(), faults_found.end());
  if (!all.empty()) return faults(std::move(all));
  return builder.take_root();
}

}  // namespace

Result<Node> parse_yaml(std::string_view text, const std::string& file, TreeLimits limits) {
  return parse(text, file, limits, nullptr);
}

Result<Node> parse_yaml_last_key(std::string_view text, const std::string& file,
                                 Diagnostics& repeated, TreeLimits limits) {
  return parse(text, file, limits, &repeated);
}

Result<Node> parse_yaml_file(const std::string& path, TreeLimits limits) {
  const Result<std::string> text = read_file(path, limits.bytes);
  if (!text) return faults(text.error());
  return parse_yaml(*text, path, limits);
}

}  // namespace eratos::text
