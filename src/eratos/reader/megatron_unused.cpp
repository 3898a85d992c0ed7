// Keys that a user set and that change nothing here: each with why.
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/reader/environment.h"
#include "eratos/reader/fields.h"
#include "eratos/reader/megatron_job.h"

namespace eratos::reader {

namespace {

constexpr const char* kLogging = "logging: not part of a step";
constexpr const char* kCheckpoint = "checkpoints: not part of a step";
constexpr const char* kData = "data: assumed to keep up";
constexpr const char* kLearning = "changes what is learned, not what it costs";
constexpr const char* kProfiling = "profiling: off in the projected run";
constexpr const char* kHost = "host housekeeping: not modelled";
constexpr const char* kKernel = "choice of kernel: covered by the framework profile";
constexpr const char* kRouting = "routing: loads are projected as balanced";
constexpr const char* kInit = "initialization: before the first step";
constexpr const char* kLaunch = "launching: not part of a step";

// The longest prefix that matches decides.
constexpr struct {
  std::string_view prefix;
  const char* reason;
} kReasons[] = {
    {"wandb", kLogging},
    {"mlflow", kLogging},
    {"log_", kLogging},
    {"tensorboard", kLogging},
    {"disable_wandb", kLogging},
    {"disable_tensorboard", kLogging},
    {"disable_mlflow", kLogging},
    {"stderr_sink_level", kLogging},
    {"file_sink_level", kLogging},
    {"sink_level", kLogging},
    {"timing_log", kLogging},
    {"one_logger", kLogging},
    {"enable_one_logger", kLogging},
    {"generate_tracelens", kLogging},
    {"use_rocm_mem_info", kLogging},
    {"trainable", kLaunch},
    {"save", kCheckpoint},
    {"load", kCheckpoint},
    {"no_save", kCheckpoint},
    {"no_load", kCheckpoint},
    {"ckpt", kCheckpoint},
    {"finetune", kCheckpoint},
    {"auto_continue_train", kCheckpoint},
    {"disable_last_saving", kCheckpoint},
    {"dist_ckpt", kCheckpoint},
    {"non_persistent", kCheckpoint},
    {"async_save", kCheckpoint},
    {"pretrained_checkpoint", kCheckpoint},
    {"use_checkpoint", kCheckpoint},
    {"exit_on_missing_checkpoint", kCheckpoint},
    {"data_path", kData},
    {"train_data_path", kData},
    {"valid_data_path", kData},
    {"test_data_path", kData},
    {"data_cache_path", kData},
    {"split", kData},
    {"mock_data", kData},
    {"num_workers", kData},
    {"dataloader", kData},
    {"tokenizer", kData},
    {"eod_mask_loss", kData},
    {"reset_", kData},
    {"mmap_bin_files", kData},
    {"create_attention_mask_in_dataloader", kData},
    {"hf_", kData},
    {"sft_", kData},
    {"train_iters", kLearning},
    {"train_samples", kLearning},
    {"eval_", kLearning},
    {"lr", kLearning},
    {"min_lr", kLearning},
    {"weight_decay", kLearning},
    {"adam_", kLearning},
    {"clip_grad", kLearning},
    {"init_method", kInit},
    {"norm_epsilon", kLearning},
    {"layernorm_epsilon", kLearning},
    {"seed", kLearning},
    {"rotary_", kLearning},
    {"use_rope_scaling", kLearning},
    {"rope_", kLearning},
    {"mscale", kLearning},
    {"original_max_position", kLearning},
    {"mtp_loss", kLearning},
    {"moe_aux_loss", kLearning},
    {"moe_z_loss", kLearning},
    {"loss_scale", kLearning},
    {"initial_loss_scale", kLearning},
    {"override_opt_param_scheduler", kLearning},
    {"max_position_embeddings", kLearning},
    {"attention_softmax_in_fp32", kKernel},
    {"muon_", kLearning},
    {"end_weight_decay", kLearning},
    {"start_weight_decay", kLearning},
    {"check_for_nan", kHost},
    {"moe_router", kRouting},
    {"moe_token_drop", kRouting},
    {"moe_pad_expert", kRouting},
    {"profile", kProfiling},
    {"use_pytorch_profiler", kProfiling},
    {"torch_profiler", kProfiling},
    {"disable_profiler", kProfiling},
    {"record_memory_history", kProfiling},
    {"memory_snapshot", kProfiling},
    {"manual_gc", kHost},
    {"pp_warmup", kHost},
    {"empty_unused_memory_level", kHost},
    {"distributed_timeout", kLaunch},
    {"distributed_backend", kLaunch},
    {"enable_primus_turbo", kKernel},
    {"use_turbo", kKernel},
    {"turbo_", kKernel},
    {"enable_turbo", kKernel},
    {"moe_use_legacy_grouped_gemm", kKernel},
    {"moe_shared_expert_overlap", kKernel},
    {"enable_experimental", kKernel},
    {"cross_entropy", kKernel},
    {"fp8_", kKernel},
    {"no_fp8", kKernel},
    {"torch_compile", kKernel},
    {"moe_use_", kKernel},
    {"patch_moe_overlap", kKernel},
    {"te_", kKernel},
    {"use_te", kKernel},
    {"enable_cuda_graph", kKernel},
    {"stage", kLaunch},
    {"exp_", kLaunch},
    {"name", kLaunch},
    {"check_", kHost},
    {"ddp_", "communication buckets: not modelled"},
    {"barrier_with_L1_time", kHost},
    {"perform_initialization", kInit},
    {"use_cpu_initialization", kInit},
};

const char* reason_for(std::string_view key) {
  const char* reason = nullptr;
  std::size_t longest = 0;
  for (const auto& [prefix, why] : kReasons) {
    if (prefix.size() > longest && key.substr(0, prefix.size()) == prefix) {
      longest = prefix.size();
      reason = why;
    }
  }
  return reason;
}

// Environment variables that some files put among the overrides.
bool is_variable(std::string_view key) {
  return std::none_of(key.begin(), key.end(),
                      [](char c) { return std::islower(static_cast<unsigned char>(c)) != 0; });
}

int edits(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace

void report_unused(MegatronKeys& keys, ImportReport& report, Diagnostics& faults) {
  std::vector<std::string> known;
  for (const text::Entry& entry : keys.all().entries()) {
    if (keys.is_preset(entry.key_location()) || keys.is_used(entry.key)) known.push_back(entry.key);
  }
  if (!keys.has_presets()) known.insert(known.end(), keys.asked().begin(), keys.asked().end());
  for (const text::Entry& entry : keys.all().entries()) {
    const Location at = entry.value.where();
    if (keys.is_used(entry.key) || keys.is_preset(at)) continue;
    const bool in_preset = keys.is_preset(entry.key_location());
    std::string reason;
    const auto open =
        entry.value.is_scalar() ? open_placeholders(entry.value.raw()) : std::vector<std::string>{};
    if (const char* why = reason_for(entry.key); why != nullptr) {
      reason = why;
    } else if (is_variable(entry.key)) {
      reason = "looks like an environment variable: no argument of Megatron";
    } else if (in_preset) {
      reason = "not modelled";
    } else {
      const std::string near = nearest_name(entry.key, known);
      if (!near.empty() && edits(near, entry.key) <= 2) {
        faults.push_back({.where = entry.key_location(),
                          .message = "unknown key `" + entry.key + "`",
                          .cure = "did you mean `" + near + "`?"});
        continue;
      }
      reason = "unknown to this reader and to the presets";
      report.warnings.push_back(
          {.code = "unknown-key",
           .message = "`" + entry.key + "` is unknown to this reader and to the presets",
           .where = entry.key_location()});
    }
    if (!open.empty()) reason += "; `" + open.front() + "` is not set";
    report.unused.push_back({.key = entry.key, .where = entry.key_location(), .reason = reason});
  }
  std::stable_sort(report.unused.begin(), report.unused.end(),
                   [](const UnusedKey& a, const UnusedKey& b) {
                     return a.where.file != b.where.file ? a.where.file < b.where.file
                                                         : a.where.line < b.where.line;
                   });
}

}  // namespace eratos::reader
