// Judge: what PyTorch's autograd really holds for one layer (tests/judges/torch/saved_bytes.py runs
// it and asks the graph) against the saved bytes of the lowered layer, to the byte.
//
// The profile is the catalogue's `pytorch-eager`. Differences between that profile and the program
// the judge runs, each applied here and nowhere else:
//   1. PyTorch 1.x keeps the squares inside RMSNorm, 2.x does not: norm_square as the version says.
//   2. A CPU keeps LayerNorm's statistics in the activation's format, a GPU in fp32: a 16-bit GPT
//      layer keeps 2 norms * 2 numbers * 2 bytes a token less here.
//   3. nll_loss keeps one fp32 number a call (its total weight), which no tensor of ours is.
// A missing PyTorch is a failure.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eratos/job/job.h"
#include "eratos/lower/lower.h"
#include "eratos/reader/catalogue.h"
#include "judges/jobs.h"

namespace eratos::judges {
namespace {

using nlohmann::json;

// Sizes that share no factor by accident: one with grouped, one with as many, one with a single
// key-value head, one where heads * head_dim is not hidden.
const char* const kSizes[] = {
    R"({"batch": 2, "seq": 128, "hidden": 256, "heads": 8, "kv_heads": 2, "head_dim": 32,
        "ffn": 704, "experts": 4, "top_k": 2, "vocab": 1000})",
    R"({"batch": 1, "seq": 64, "hidden": 96, "heads": 6, "kv_heads": 6, "head_dim": 16,
        "ffn": 200, "experts": 8, "top_k": 1, "vocab": 77})",
    R"({"batch": 3, "seq": 40, "hidden": 160, "heads": 5, "kv_heads": 1, "head_dim": 16,
        "ffn": 99, "experts": 6, "top_k": 3, "vocab": 513})",
    R"({"batch": 2, "seq": 96, "hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 48,
        "ffn": 320, "experts": 3, "top_k": 2, "vocab": 2048})"};

std::vector<json> measured() {
  json jobs = json::array();
  for (const char* sizes : kSizes) {
    for (const char* name : {"llama", "moe", "gpt", "head", "lora", "full", "selective", "mla",
                             "window", "capacity"}) {
      for (const char* dtype : {"fp32", "bf16"}) {
        json one = json::parse(sizes);
        one["case"] = name;
        one["dtype"] = dtype;
        jobs.push_back(one);
      }
    }
  }
  const std::string path =
      testing::TempDir() + "eratos-autograd-" + std::to_string(getpid()) + ".json";
  std::ofstream(path) << jobs.dump();
  // The system's interpreter first: it sees the distribution's torch.
  const std::string python = access("/usr/bin/python3", X_OK) == 0 ? "/usr/bin/python3" : "python3";
  const std::string command =
      python + " -B '" ERATOS_SOURCE_DIR "/tests/judges/torch/saved_bytes.py' --jobs '" + path +
      "'";
  std::FILE* pipe = popen(command.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  if (pipe == nullptr) return {};
  std::string out;
  char piece[4096];
  for (std::size_t n; (n = std::fread(piece, 1, sizeof piece, pipe)) > 0;) out.append(piece, n);
  const int status = pclose(pipe);
  std::remove(path.c_str());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << command << " failed; exit 4 means that PyTorch is missing (Debian: python3-torch)";
  const json answer = json::parse(out, nullptr, false);
  EXPECT_TRUE(answer.is_array()) << out;
  return answer.is_array() ? answer.get<std::vector<json>>() : std::vector<json>{};
}

job::JobSpec job_like(const json& report, bool first_torch) {
  const json& n = report.at("sizes");
  Sizes sizes{1,
              n.at("hidden").get<double>(),
              n.at("heads").get<int>(),
              n.at("kv_heads").get<int>(),
              n.at("head_dim").get<int>(),
              n.at("ffn").get<double>(),
              n.at("vocab").get<double>()};
  const std::string name = report.at("case");
  model::Architecture model;
  if (name == "gpt") {
    sizes.kv_heads = sizes.heads;
    model = gpt(sizes, 4096);
  } else if (name == "moe" || name == "capacity") {
    model = mixtral(sizes, n.at("experts").get<int>(), n.at("top_k").get<int>());
  } else {
    model = llama(sizes);
  }
  const job::BatchSpec batch{n.at("batch").get<int>(), n.at("batch").get<int>(),
                             n.at("seq").get<int>()};
  job::JobSpec spec = job_of(std::move(model), 1, batch);
  auto profile = reader::load_framework("pytorch-eager");
  EXPECT_TRUE(profile.has_value()) << (profile ? "" : text_of(profile.error()));
  if (profile) spec.framework = *profile;
  spec.framework.saved.eager_norm_square = first_torch;
  spec.precision = report.at("dtype") == "fp32" ? job::Recipe::fp32 : job::Recipe::bf16;
  spec.attention = layer::AttentionKernel::unfused;
  spec.loss_fused = false;
  if (name == "window") {
    std::get<layer::AttentionSpec>(spec.model.blocks[0].mixer).window = n.at("window").get<int>();
  }
  if (name == "mla") {
    layer::MlaSpec mla = latent_attention(sizes.hidden, sizes.heads, n.at("q_rank").get<int>());
    mla.kv_lora_rank = n.at("kv_rank").get<int>();
    mla.qk_nope_head_dim = n.at("nope_dim").get<int>();
    mla.qk_rope_head_dim = n.at("rope_dim").get<int>();
    mla.v_head_dim = n.at("v_dim").get<int>();
    spec.model.blocks[0].mixer = mla;
  }
  if (name == "capacity") {
    spec.routing.capacity_factor = n.at("capacity_percent").get<double>() / 100;
    spec.routing.pad_to_capacity = true;
  }
  if (name == "lora") {
    spec.lora.rank = n.at("rank").get<int>();
    for (const ops::Module m : {ops::Module::qkv, ops::Module::attention_out, ops::Module::mlp_in,
                                ops::Module::mlp_out}) {
      spec.lora.targets.set(static_cast<std::size_t>(m));
    }
  }
  if (name == "full") spec.recompute.granularity = job::Granularity::full;
  if (name == "selective") spec.recompute.granularity = job::Granularity::selective;
  return spec;
}

TEST(Autograd, HoldsExactlyWhatTheLoweredLayerKeeps) {
  const std::vector<json> reports = measured();
  ASSERT_EQ(reports.size(), 4u * 10u * 2u);
  for (const json& report : reports) {
    const std::string name = report.at("case");
    const bool narrow = report.at("dtype") == "bf16";
    const std::string version = report.at("torch");
    const job::JobSpec spec = job_like(report, version.rfind("1.", 0) == 0);
    const Lowered l = lowered(spec);
    const ops::Program& p = name == "head" ? l.program("output") : layer_of(l);
    const double tokens = static_cast<double>(spec.batch.micro) * spec.batch.sequence;

    double ours = saved(p);
    // The layer's own input is the layer before's output: reported apart by both.
    const double our_input = p.tensors[p.input].saved ? p.tensors[p.input].bytes().value : 0;
    ours -= our_input;
    if (name == "gpt" && narrow) ours -= 2 * 2 * 2 * tokens;
    if (name == "head") ours += 4;

    SCOPED_TRACE(report.at("case").dump() + " " + report.at("dtype").dump() + " " +
                 report.at("sizes").dump());
    EXPECT_EQ(ours, report.at("saved_bytes").get<double>()) << report.at("by_part").dump() << "\n"
                                                            << ops::to_text(p);
    EXPECT_EQ(our_input, report.at("input_bytes").get<double>());
  }
}

}  // namespace
}  // namespace eratos::judges
