// What must hold of every lowered job, tried on several hundred random legal ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "eratos/job/job.h"
#include "eratos/lower/lower.h"
#include "eratos/model/block.h"
#include "lower/random_job.h"

namespace eratos::judges {
namespace {

constexpr int kJobs = 400;

std::string describe(const job::JobSpec& s) {
  const auto& p = s.parallel;
  return "tp " + std::to_string(p.tp) + " cp " + std::to_string(p.cp) + " pp " +
         std::to_string(p.pp) + " vpp " + std::to_string(p.vpp) + " ep " + std::to_string(p.ep) +
         " etp " + std::to_string(p.etp) + (p.sequence_parallel ? " sp" : "") + " cp_kind " +
         std::string(job::name_of(p.cp_kind)) + " sharding " +
         std::string(job::name_of(p.sharding)) + " recompute " +
         std::string(job::name_of(s.recompute.granularity)) + " modules " +
         s.recompute.modules.to_string() + " " + std::string(job::name_of(s.precision));
}

// Work that every tensor-parallel rank repeats: what is held whole (down projections of MLA and of
// gates, stream mixers) on tokens that sequence parallelism does not cut.
bool is_replicated(const job::JobSpec& spec, const ops::Op& op) {
  return spec.parallel.tp > 1 && !spec.parallel.sequence_parallel &&
         (op.module == ops::Module::mla_down || op.module == ops::Module::mixer_gate ||
          op.module == ops::Module::residual);
}

TEST(EveryJob, ModelFlopsAreConservedUnderEverySplit) {
  Rng rng(1);
  for (int i = 0; i < kJobs; ++i) {
    const job::JobSpec whole = random_whole_job(rng);
    const job::JobSpec cut = random_cut(rng, whole);
    SCOPED_TRACE(describe(cut));
    const Lowered before = lowered(whole);
    const Lowered after = lowered(cut);
    const double total = step_flops(before, is_model_work);
    const double once = step_flops(
        after, [&](const ops::Op& op) { return is_model_work(op) && !is_replicated(cut, op); });
    const double repeated = step_flops(
        after, [&](const ops::Op& op) { return is_model_work(op) && is_replicated(cut, op); });
    ASSERT_NEAR((once + repeated / cut.parallel.tp) / total, 1.0, 1e-12);
  }
}

TEST(EveryJob, SavedBytesNeverRiseWithMoreSharding) {
  Rng rng(2);
  int compared = 0;
  for (int i = 0; i < kJobs; ++i) {
    job::JobSpec spec = random_cut(rng, random_whole_job(rng));
    // Fewer ranks a group, with everything else as it is.
    const auto bytes = [&](int tp, int cp, bool sp) {
      job::JobSpec other = spec;
      other.parallel.tp = tp;
      other.parallel.cp = cp;
      other.parallel.sequence_parallel = sp;
      other.parallel.ep = 1;
      other.parallel.etp = 1;
      other.parallel.cp_kind = parallel::CpKind::p2p;
      other.parallel.sharding = parallel::Sharding::none;
      other.cluster = cluster_of(tp * cp * other.parallel.pp);
      const Lowered l = lowered(other);
      double sum = 0;
      for (std::size_t n = 0; n < l.all.program_count; ++n) sum += saved(l.all.programs[n]);
      return sum;
    };
    SCOPED_TRACE(describe(spec));
    const bool moe = model::is_moe(spec.model);
    for (const int tp : {2, 4, 8}) {
      ASSERT_LE(bytes(tp, 1, true), bytes(tp / 2, 1, true) * (1 + 1e-12));
      if (!moe) {
        ASSERT_LE(bytes(tp, 1, false), bytes(tp / 2, 1, false) * (1 + 1e-12));
        ASSERT_LE(bytes(tp, 1, true), bytes(tp, 1, false) * (1 + 1e-12));
      }
      ASSERT_LE(bytes(2, tp, true), bytes(2, tp / 2, true) * (1 + 1e-12));
      ++compared;
    }
  }
  EXPECT_EQ(compared, 3 * kJobs);
}

TEST(EveryJob, RecomputationNeverKeepsMore) {
  Rng rng(3);
  for (int i = 0; i < kJobs; ++i) {
    job::JobSpec spec = random_cut(rng, random_whole_job(rng));
    // Kept tensors of one layer: none >= selective >= full.
    const auto bytes = [&](job::Granularity g, const job::ModuleSet& modules) {
      spec.recompute = {};
      spec.recompute.granularity = g;
      spec.recompute.modules = modules;
      return saved(layer_of(lowered(spec)));
    };
    job::ModuleSet modules;
    const ops::Module single = pick(rng, {ops::Module::norm, ops::Module::core_attention,
                                          ops::Module::activation, ops::Module::expert_activation});
    modules.set(static_cast<std::size_t>(single));
    const double none = bytes(job::Granularity::none, {});
    const double selective = bytes(job::Granularity::selective, modules);
    const double full = bytes(job::Granularity::full, {});
    SCOPED_TRACE(describe(spec) + " " + std::string(ops::name_of(single)));
    ASSERT_LE(selective, none);
    ASSERT_LE(full, selective);
  }
}

// ---- lifetimes ----------------------------------------------------------------------------------

struct Lives {
  std::vector<int> written_forward, read_forward, written_backward, read_backward;
};

template <class Ids>
bool has(const Ids& ids, ops::TensorId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Faults of one program, as text; empty when every tensor is well used.
std::string lifetime_faults(const ops::Program& p) {
  std::string faults;
  std::vector<bool> there(p.tensors.size(), false);
  std::vector<bool> read_in_backward(p.tensors.size(), false);
  const auto name = [&](ops::TensorId id) {
    return std::string(p.tensors[id].name) + " (#" + std::to_string(id) + ")";
  };
  if (p.input != ops::kNoTensor) there[p.input] = true;
  for (const ops::Op& op : p.forward) {
    for (const ops::TensorId id : op.reads) {
      if (!there[id]) faults += "forward reads " + name(id) + " before it is written\n";
    }
    for (const ops::TensorId id : op.writes) there[id] = true;
  }
  // Only what is saved crosses into backward; the gradient of the output comes from outside.
  for (std::size_t id = 0; id < p.tensors.size(); ++id) {
    if (p.tensors[id].saved && !there[id]) {
      faults += "saved but never written: " + name(static_cast<ops::TensorId>(id)) + "\n";
    }
    there[id] = p.tensors[id].saved || std::string_view(p.tensors[id].name) == "output_gradient";
  }
  for (const ops::Op& op : p.backward) {
    for (const ops::TensorId id : op.reads) {
      if (!there[id]) {
        faults += "backward " + std::string(ops::name_of(op.pass)) + " " +
                  std::string(ops::name_of(op.module)) + " reads " + name(id) +
                  ", which is neither kept nor made again\n";
      }
      read_in_backward[id] = true;
    }
    for (const ops::TensorId id : op.writes) there[id] = true;
  }
  for (std::size_t id = 0; id < p.tensors.size(); ++id) {
    if (p.tensors[id].saved && !read_in_backward[id]) {
      faults += "saved for nothing: " + name(static_cast<ops::TensorId>(id)) + "\n";
    }
    if (!(p.tensors[id].elements >= 0) || !std::isfinite(p.tensors[id].elements)) {
      faults += "size of " + name(static_cast<ops::TensorId>(id)) + "\n";
    }
  }
  return faults;
}

TEST(EveryJob, TensorsAreWrittenBeforeTheyAreReadAndKeptForAReason) {
  Rng rng(4);
  for (int i = 0; i < kJobs; ++i) {
    job::JobSpec spec = random_cut(rng, random_whole_job(rng));
    random_recompute(rng, spec);
    const Lowered l = lowered(spec);
    for (std::size_t n = 0; n < l.all.program_count; ++n) {
      const std::string faults = lifetime_faults(l.all.programs[n]);
      ASSERT_EQ(faults, "") << describe(spec) << "\n" << ops::to_text(l.all.programs[n]);
    }
  }
}

TEST(CompressedAttention, TensorsAreWellUsedAndParametersAddUp) {
  Rng rng(8);
  Sizes n = kLlama3_8b;
  n.layers = 8;
  for (int i = 0; i < 60; ++i) {
    job::JobSpec spec = job_of(compressed(n), 4, {1, 16, 2048});
    spec.framework = random_profile(rng);
    spec.precision = pick(rng, {job::Recipe::bf16, job::Recipe::fp8_current});
    spec.parallel.pp = pick(rng, {1, 2});
    spec.parallel.ep = pick(rng, {1, 2});
    random_recompute(rng, spec);
    const Lowered l = lowered(spec);
    double sum = 0;
    for (std::size_t s = 0; s < l.all.stage_count; ++s) {
      for (const ops::StageItem& item : l.all.stages[s].items) {
        for (const ops::Parameter& q : l.all.programs[item.program].parameters) {
          sum += q.elements * (q.expert ? spec.parallel.ep : 1) * item.repeat;
        }
      }
    }
    ASSERT_NEAR(sum / model::count_parameters(spec.model, l.job.padded_vocab, true).total, 1,
                1e-12);
    for (std::size_t k = 0; k < l.all.program_count; ++k) {
      const std::string faults = lifetime_faults(l.all.programs[k]);
      ASSERT_EQ(faults, "") << describe(spec) << "\n" << ops::to_text(l.all.programs[k]);
    }
  }
}

TEST(EveryJob, ShapesAndTrafficAreFiniteAndPositive) {
  Rng rng(5);
  for (int i = 0; i < kJobs; ++i) {
    job::JobSpec spec = random_cut(rng, random_whole_job(rng));
    random_recompute(rng, spec);
    const Lowered l = lowered(spec);
    SCOPED_TRACE(describe(spec));
    for_each_op(l, [&](const ops::Op& op, int repeat) {
      ASSERT_GE(repeat, 1);
      if (const auto* g = std::get_if<ops::Gemm>(&op.work)) {
        ASSERT_TRUE(g->m >= 1 && g->n >= 1 && g->k >= 1 && g->groups >= 1);
        ASSERT_TRUE(std::isfinite(g->flops().value));
      } else if (const auto* a = std::get_if<ops::Attention>(&op.work)) {
        ASSERT_TRUE(a->heads >= 1 && a->kv_heads >= 1 && a->seq_q >= 1 && a->seq_kv >= a->seq_q);
        ASSERT_GE(a->heads, a->kv_heads);
      } else if (const auto* e = std::get_if<ops::Elementwise>(&op.work)) {
        ASSERT_GE(e->traffic.value, 0.0) << ops::name_of(op.module);
        ASSERT_TRUE(op.kernels == 0 || e->traffic.value > 0.0 || op.module == ops::Module::loss)
            << ops::name_of(op.module);
      } else if (const auto* c = std::get_if<ops::Collective>(&op.work)) {
        ASSERT_GT(c->bytes.value, 0.0);
        ASSERT_TRUE(c->overlappable >= 0 && c->overlappable <= 1);
        ASSERT_GT(parallel::group_of(l.job.parallel, c->axis).size, 1);
      }
    });
  }
}

TEST(EveryJob, StagesHoldEveryLayerOnceInOrder) {
  Rng rng(6);
  for (int i = 0; i < kJobs; ++i) {
    job::JobSpec spec = random_cut(rng, random_whole_job(rng));
    const Lowered l = lowered(spec);
    SCOPED_TRACE(describe(spec));
    std::vector<std::string> found;
    for (std::size_t s = 0; s < l.all.stage_count; ++s) {
      for (const ops::StageItem& item : l.all.stages[s].items) {
        for (int n = 0; n < item.repeat; ++n) found.push_back(l.all.programs[item.program].name);
      }
      ASSERT_EQ(l.all.stages[s].send.value > 0, s + 1 < l.all.stage_count);
    }
    std::vector<std::string> wanted{"embedding"};
    for (const std::uint8_t kind : spec.model.pattern) {
      wanted.push_back(model::kind_of(spec.model.blocks[kind]));
    }
    for (int n = 0; n < spec.model.mtp_layers; ++n) wanted.push_back("mtp");
    wanted.push_back("output");
    ASSERT_EQ(found, wanted);
  }
}

// Local parameters of all ranks together are the model's, when what every tensor-parallel rank
// holds whole is counted once and experts once for each of their data-parallel copies.
TEST(EveryJob, LocalParametersAddUpToTheModel) {
  Rng rng(7);
  for (int i = 0; i < kJobs; ++i) {
    job::JobSpec spec = random_cut(rng, random_whole_job(rng));
    const Lowered l = lowered(spec);
    SCOPED_TRACE(describe(spec));
    const auto& p = l.job.parallel;
    double sum = 0;
    for (std::size_t s = 0; s < l.all.stage_count; ++s) {
      for (const ops::StageItem& item : l.all.stages[s].items) {
        for (const ops::Parameter& q : l.all.programs[item.program].parameters) {
          const double cut = q.expert ? p.ep * p.etp : q.replicated ? 1 : p.tp;
          sum += q.elements * cut * item.repeat;
        }
      }
    }
    double total =
        model::count_parameters(spec.model, l.job.padded_vocab, spec.model.mtp_layers > 0).total;
    // A tied table stands on both ends of a pipeline.
    if (spec.model.tie_embeddings && p.pp > 1) total += l.job.padded_vocab * spec.model.hidden;
    ASSERT_NEAR(sum / total, 1.0, 1e-12);
  }
}

}  // namespace
}  // namespace eratos::judges
