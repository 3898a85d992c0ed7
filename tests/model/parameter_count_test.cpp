// Every architecture of the catalogue has exactly the parameters its checkpoint or paper states.
//
// Numbers: checkpoints on huggingface.co (sum of their tensors), where data/models says so in
// `parameters_source`; what a checkpoint holds beside the decoder (vision towers, copies of tied
// matrices, block scales) is named there and taken off. Active: total minus the weights
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
    {"llama3.2-1b", 1235814400, 1235814400},
    {"llama3.2-3b", 3212749824, 3212749824},
    {"llama-30b", 32528943616, 32528943616},
    {"llama-65b", 65285660672, 65285660672},
    {"codellama-34b", 33743970304, 33743970304},
    {"tinyllama-1.1b", 1100048384, 1100048384},
    {"llama4-scout", 107769861120, 17172894720},
    {"llama4-maverick", 400711848960, 17184691200},
    {"mistral-7b", 7241732096, 7241732096},
    {"mistral-7b-v0.2", 7241732096, 7241732096},
    {"mistral-7b-v0.3", 7248023552, 7248023552},
    {"mistral-nemo-12b", 12247782400, 12247782400},
    {"mistral-small-24b", 23572403200, 23572403200},
    {"mistral-large-123b", 122610069504, 122610069504},
    {"qwen1.5-7b", 7721324544, 7721324544},
    {"qwen2-7b", 7615616512, 7615616512},
    {"qwen2-72b", 72706203648, 72706203648},
    {"qwen2.5-0.5b", 494032768, 494032768},
    {"qwen2.5-1.5b", 1543714304, 1543714304},
    {"qwen2.5-3b", 3085938688, 3085938688},
    {"qwen2.5-14b", 14770033664, 14770033664},
    {"qwen2.5-32b", 32763876352, 32763876352},
    {"qwen3-0.6b", 596049920, 596049920},
    {"qwen3-1.7b", 1720574976, 1720574976},
    {"qwen3-4b", 4022468096, 4022468096},
    {"qwen3-14b", 14768307200, 14768307200},
    {"qwen3-32b", 32762123264, 32762123264},
    {"qwen1.5-moe-a2.7b", 14315784192, 2689173504},
    {"qwen2-57b-a14b", 57408658944, 14249270784},
    {"deepseek-v2", 235741434880, 21375800320},
    {"deepseek-llm-7b", 6910365696, 6910365696},
    {"deepseek-moe-16b", 16375728128, 2828650496},
    {"moonlight-16b-a3b", 15960110208, 2914776192},
    {"kimi-k2", 1026408232448, 32861500928},
    {"glm-4.5", 356785898816, 34034206016},
    {"glm-4.5-air", 109227310848, 13723008768},
    {"minimax-m2", 228689764864, 11030553088},
    {"skywork-moe-146b", 146356167168, 22691308032},
    {"gpt-oss-20b", 20914757184, 4187440704},
    {"gpt-oss-120b", 116829156672, 5711982912},
    {"gemma-2b", 2506172416, 2506172416},
    {"gemma-7b", 8537680896, 8537680896},
    {"gemma2-2b", 2614341888, 2614341888},
    {"gemma2-9b", 9241705984, 9241705984},
    {"gemma2-27b", 27227128320, 27227128320},
    {"gemma3-1b", 999885952, 999885952},
    {"gemma3-4b", 3880263168, 3880263168},
    {"gemma3-12b", 11766034176, 11766034176},
    {"gemma3-27b", 27009346304, 27009346304},
    {"gemma4-31b", 30697345280, 30697345280},
    {"gemma4-26b-a4b", 25233141760, 3822530560},
    {"gpt2", 124439808, 124439808},
    {"gpt2-medium", 354823168, 354823168},
    {"gpt2-large", 774030080, 774030080},
    {"gpt2-xl", 1557611200, 1557611200},
    {"gpt3-6.7b", 6658404352, 6658404352},
    {"gpt3-13b", 12853386240, 12853386240},
    {"zerobubble-1.5b", 1478172672, 1478172672},
    {"zerobubble-6.2b", 6176669696, 6176669696},
    {"zerobubble-14.6b", 14642503680, 14642503680},
    {"zerobubble-28.3b", 28292923392, 28292923392},
    {"opt-1.3b", 1315758080, 1315758080},
    {"opt-6.7b", 6658473984, 6658473984},
    {"opt-13b", 12853473280, 12853473280},
    {"opt-30b", 29974540288, 29974540288},
    {"gpt-neox-20b", 20554567680, 20554567680},
    {"pythia-1.4b", 1414647808, 1414647808},
    {"pythia-6.9b", 6857302016, 6857302016},
    {"pythia-12b", 11846072320, 11846072320},
    {"gpt-j-6b", 6050882784, 6050882784},
    {"nemotron4-15b", 15628775424, 15628775424},
    {"nemotron4-340b", 341029195776, 341029195776},
    {"grok1-314b", 315684820992, 83756587008},
    {"olmo-7b", 6888095744, 6888095744},
    {"olmo2-1b", 1484916736, 1484916736},
    {"olmo2-7b", 7298617344, 7298617344},
    {"olmo2-13b", 13716198400, 13716198400},
    {"olmo2-32b", 32234279936, 32234279936},
    {"olmoe-1b-7b", 6919161856, 1282017280},
    {"phi-2", 2779683840, 2779683840},
    {"phi-3-mini", 3821079552, 3821079552},
    {"phi-3-medium", 13960238080, 13960238080},
    {"phi-4", 14659507200, 14659507200},
    {"falcon-7b", 6921720704, 6921720704},
    {"falcon-40b", 41303293952, 41303293952},
    {"falcon-180b", 178557088768, 178557088768},
    {"bloom-560m", 559214592, 559214592},
    {"bloom-1b7", 1722408960, 1722408960},
    {"bloom-7b1", 7069016064, 7069016064},
    {"bloom-176b", 176247271424, 176247271424},
    {"baichuan2-13b", 13896668160, 13896668160},
    {"yi-34b", 34388917248, 34388917248},
    {"internlm2-20b", 19861149696, 19861149696},
    {"smollm2-1.7b", 1711376384, 1711376384},
    {"smollm3-3b", 3075098624, 3075098624},
    {"starcoder2-3b", 3030371328, 3030371328},
    {"starcoder2-7b", 7173923840, 7173923840},
    {"starcoder2-15b", 15957889024, 15957889024},
    {"command-r-35b", 34980831232, 34980831232},
    {"stablelm-3b", 2795443200, 2795443200},
    {"dbrx-132b", 131596523520, 36469708800},
    {"phi-3.5-moe", 41873153344, 6640999744},
    {"nemotron-h-8b", 8100852736, 8100852736},
    {"nemotron-h-56b", 56324350464, 56324350464},
    {"nemotron-3-nano", 31577937344, 3580073408},
    {"nemotron-3-super", 126553336832, 13259942912},
    {"qwen3-next-80b-a3b", 81324862720, 3946245376},
    {"kimi-linear-48b-a3b", 49122681728, 3484459904},
    {"mamba2-130m", 128989632, 128989632},
    {"mamba2-370m", 368346624, 368346624},
    {"mamba2-780m", 780161280, 780161280},
    {"mamba2-1.3b", 1343757312, 1343757312},
    {"mamba2-2.7b", 2702599680, 2702599680},
    {"deepseek-v4-flash", 290942290130, 14118226130},
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
