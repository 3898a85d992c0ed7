// Every architecture of the catalogue has exactly the parameters its checkpoint or paper states.
//
// Numbers: checkpoints on huggingface.co (sum of their tensors); Qwen3-8B, nanotron and llm-foundry
// families from the files in data/models, which name their sources. Active: total minus the weights
// of experts a token does not visit, embeddings included.
#include "eratos/model/architecture.h"

#include <gtest/gtest.h>

#include <string>

#include "eratos/reader/catalogue.h"
#include "judges/jobs.h"

namespace eratos::judges {
namespace {

struct Published {
  const char* name;
  double total;
  double active;  // equal to total for dense models
};

constexpr Published kPublished[] = {
    {"llama2-7b", 6738415616, 6738415616},
    {"llama2-13b", 13015864320, 13015864320},
    {"llama2-70b", 68976648192, 68976648192},
    {"llama3.1-8b", 8030261248, 8030261248},
    {"llama3.1-70b", 70553706496, 70553706496},
    {"llama3.1-405b", 405853388800, 405853388800},
    {"mixtral-8x7b", 46702792704, 12879925248},
    {"mixtral-8x22b", 140620634112, 39152031744},
    {"qwen3-8b", 8190735360, 8190735360},
    {"qwen3-30b-a3b", 30532122624, 3353032704},
    {"qwen3-235b-a22b", 235093634560, 22190763520},
    {"deepseek-v2-lite", 15706484224, 2661150208},
    {"deepseek-v3-nomtp", 671026419200, 37552297472},
    {"deepseek-v3", 682636487424, 38240398080},
    {"gpt3-175b", 174615846912, 174615846912},
    {"nanotron-1b", 1342244864, 1342244864},
    {"nanotron-3b", 3573722112, 3573722112},
    {"nanotron-8b", 8858636288, 8858636288},
    {"nanotron-80b", 79995084800, 79995084800},
    {"nanotron-80b-gqa8", 70599843840, 70599843840},
    {"mpt-125m", 125311488, 125311488},
    {"mpt-350m", 355985408, 355985408},
    {"mpt-760m", 760470528, 760470528},
    {"mpt-1b", 1315950592, 1315950592},
    {"mpt-3b", 2651837440, 2651837440},
    {"mpt-7b", 6658859008, 6658859008},
    {"mpt-13b", 12853954560, 12853954560},
    {"mpt-30b", 29975214080, 29975214080},
    {"mpt-70b", 64862437376, 64862437376},
};

// llm-foundry's positions follow the job; the published counts are at 2,048 tokens.
constexpr double kBenchmarkSequence = 2048;

TEST(ParameterCount, EveryCatalogueModelIsExact) {
  for (const Published& p : kPublished) {
    auto a = reader::load_model(p.name);
    ASSERT_TRUE(a.has_value()) << p.name << text_of(a.error());
    if (a->position == layer::Position::learned && a->max_positions == 0) {
      a->max_positions = kBenchmarkSequence;
    }
    const model::ParameterCount n = model::count_parameters(*a, 0, a->mtp_layers > 0);
    EXPECT_EQ(n.total, p.total) << p.name;
    EXPECT_EQ(n.active, p.active) << p.name;
  }
}

TEST(ParameterCount, NoCatalogueModelIsMissingHere) {
  for (const std::string& name : reader::names_of(reader::Kind::models)) {
    bool listed = false;
    for (const Published& p : kPublished) listed = listed || name == p.name;
    EXPECT_TRUE(listed) << name;
  }
}

TEST(ParameterCount, HandMadeModelsAgree) {
  EXPECT_EQ(model::count_parameters(llama(kLlama3_8b)).total, 8030261248);
  EXPECT_EQ(model::count_parameters(mixtral(kMixtral8x7b, 8, 2)).total, 46702792704);
  EXPECT_EQ(model::count_parameters(deepseek_v2_lite()).total, 15706484224);
  EXPECT_EQ(model::count_parameters(deepseek_v3()).total, 671026419200);
  EXPECT_EQ(model::count_parameters(llama(kLlama3_8b)).embedding, 2 * 128256.0 * 4096);
}

// GPT: a layer has 12 h^2 + 13 h weights (arXiv 2104.04473, section 5.1), the ends (V + s) h + 2h.
TEST(ParameterCount, GptByFormula) {
  const double h = 1536, layers = 7, vocab = 50304, s = 1024;
  const Sizes n{static_cast<int>(layers), h, 12, 12, 128, 4 * h, vocab};
  EXPECT_EQ(model::count_parameters(gpt(n, s)).total,
            layers * (12 * h * h + 13 * h) + (vocab + s) * h + 2 * h);
}

TEST(ParameterCount, PaddedVocabularyCounts) {
  const model::Architecture a = llama(kLlama3_8b);
  EXPECT_EQ(model::count_parameters(a, 128512).total, 8030261248 + 2 * 256 * 4096.0);
}

TEST(ParameterCount, ExpertsWithBiases) {
  model::Architecture a = mixtral({1, 64, 2, 2, 32, 96, 100}, 4, 1);
  const double before = model::count_parameters(a).total;
  std::get<layer::MoeSpec>(a.blocks[0].feed_forward).bias = true;
  // Gate and up 96 each, down 64, for each of four experts.
  EXPECT_EQ(model::count_parameters(a).total - before, 4 * (2 * 96 + 64));
}

}  // namespace
}  // namespace eratos::judges
