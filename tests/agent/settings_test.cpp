#include "eratos/agent/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "eratos/text/yaml.h"

namespace eratos::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Result<std::optional<ModelSettings>> read(const std::string& yaml, ModelEnvironment e = {}) {
  KeySources keys;
  keys.read_key = [](const std::string& path) -> Result<std::string> {
    if (path == "there") return std::string("file-key\n");
    return fault({.message = "no such file " + path});
  };
  keys.read_variable = [](const std::string& name) {
    return name == "MY_KEY" ? std::string("variable-key") : std::string();
  };
  if (yaml.empty()) return model_settings(nullptr, e, keys);
  const Result<text::Node> file = text::parse_yaml(yaml, "model.yaml");
  EXPECT_TRUE(file.has_value());
  return model_settings(&*file, e, keys);
}

TEST(ModelSettings, NothingNamesAModel) {
  const auto s = read("");
  ASSERT_TRUE(s.has_value());
  EXPECT_FALSE(s->has_value());
}

TEST(ModelSettings, TheEnvironmentAlone) {
  ModelEnvironment e;
  e.url = "http://127.0.0.1:8080/v1/";
  e.model = "local";
  const auto s = read("", e);
  ASSERT_TRUE(s.has_value() && s->has_value());
  EXPECT_EQ((*s)->url, "http://127.0.0.1:8080/v1");
  EXPECT_FALSE((*s)->key.is_set());
  EXPECT_EQ((*s)->reply_tokens_field, "max_tokens");
}

TEST(ModelSettings, KeysGoWhereTheyAreMeant) {
  ModelEnvironment e;
  e.model = "m";
  e.openai_key = "sk-openai";
  e.anthropic_key = "sk-anthropic";
  EXPECT_EQ((*read("", e))->key.reveal(), "sk-openai");
  EXPECT_EQ((*read("api: anthropic", e))->key.reveal(), "sk-anthropic");
  // Another server is not told the key of OpenAI.
  EXPECT_FALSE((*read("url: http://localhost:1234/v1", e))->key.is_set());
  e.key = "sk-own";
  EXPECT_EQ((*read("url: http://localhost:1234/v1", e))->key.reveal(), "sk-own");
  EXPECT_EQ((*read("key_variable: MY_KEY", e))->key.reveal(), "variable-key");
  EXPECT_EQ((*read("key_file: there", e))->key.reveal(), "file-key");
}

TEST(ModelSettings, EveryFaultAtOnceAndNoValueRepeated) {
  const auto s = read(
      "keyy: sk-secret-secret\napi: gemini-sk-secret\nurl: ftp://sk-secret@host\nprice_in: -1\n"
      "stream: sk-secret\nkey: \"sk secret\"\nmost_money: 5\n");
  ASSERT_FALSE(s.has_value());
  std::string all;
  for (const Diagnostic& d : s.error()) all += to_text(d) + "\n";
  EXPECT_THAT(all, Not(HasSubstr("secret")));
  for (const char* part :
       {"did you mean `key`", "interface of the model is unknown", "no model is named",
        "must begin with http", "holds a name", "`price_in`", "`stream`", "no header can hold",
        "cannot be kept without prices"}) {
    EXPECT_THAT(all, HasSubstr(part));
  }
}

}  // namespace
}  // namespace eratos::agent
