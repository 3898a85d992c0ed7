// Hand-worked: matrix products and traffic of one layer on one rank, op by op, in order.
//
// A line is: pass, module, then `m n k` of a product (`x g` for g groups), the sizes of attention,
// or a collective with its axis and bytes. Memory-bound ops are left out.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "eratos/job/job.h"
#include "eratos/lower/lower.h"
#include "judges/jobs.h"

namespace eratos::judges {
namespace {

using Lines = std::vector<std::string>;

const char* name_of(Axis axis) {
  static constexpr const char* kNames[] = {"tp",  "cp",  "dp",    "pp",    "ep",        "etp",
                                           "edp", "tp_cp", "dp_cp", "shard", "replica"};
  return kNames[static_cast<std::size_t>(axis)];
}

std::string line_of(const ops::Op& op) {
  char text[200] = "";
  const std::string head = std::string(ops::name_of(op.pass)) + " " +
                           std::string(ops::name_of(op.module)) + " ";
  if (const auto* g = std::get_if<ops::Gemm>(&op.work)) {
    std::snprintf(text, sizeof text, "%.0f %.0f %.0f", g->m, g->n, g->k);
    return head + text + (g->groups > 1 ? " x " + std::to_string(static_cast<int>(g->groups)) : "");
  }
  if (const auto* a = std::get_if<ops::Attention>(&op.work)) {
    std::snprintf(text, sizeof text, "%s %.0f of %.0f heads %.0f/%.0f d %.0f/%.0f",
                  a->backward ? "backward" : "forward", a->seq_q, a->seq_kv, a->heads, a->kv_heads,
                  a->head_dim, a->v_head_dim);
    return head + text;
  }
  if (const auto* c = std::get_if<ops::Collective>(&op.work)) {
    std::snprintf(text, sizeof text, "%s %s %.0f", std::string(ops::name_of(c->kind)).c_str(),
                  name_of(c->axis), c->bytes.value);
    return head + text;
  }
  return "";
}

Lines lines_of(const std::vector<ops::Op>& list) {
  Lines lines;
  for (const ops::Op& op : list) {
    if (std::string line = line_of(op); !line.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

job::JobSpec llama_job(int gpus, int tp, bool sequence_parallel) {
  job::JobSpec spec = job_of(llama(kLlama3_8b), gpus, {1, gpus, 8192});
  spec.parallel.tp = tp;
  spec.parallel.sequence_parallel = sequence_parallel;
  return spec;
}

// Llama 3.1 8B: h 4096, 32 query and 8 key-value heads of 128, ffn 14336. tp 2, one sequence of
// 8192: qkv (4096 + 2 * 1024)/2 = 3072 columns, gate and up 28672/2 = 14336 columns, out 4096/2 and
// down 14336/2 rows. A [8192, 4096] activation is 67,108,864 bytes.
TEST(LocalShapes, Llama8bTensorAndSequenceParallel) {
  const job::JobSpec spec = llama_job(2, 2, true);
  const Lowered l = lowered(spec);
  const ops::Program& p = layer_of(l);
  EXPECT_EQ(lines_of(p.forward),
            (Lines{"forward qkv all_gather tp 67108864",  //
                   "forward qkv 8192 3072 4096",
                   "forward core_attention forward 8192 of 8192 heads 16/4 d 128/128",
                   "forward attention_out 8192 4096 2048",
                   "forward attention_out reduce_scatter tp 67108864",
                   "forward mlp_in all_gather tp 67108864",  //
                   "forward mlp_in 8192 14336 4096",         //
                   "forward mlp_out 8192 4096 7168",
                   "forward mlp_out reduce_scatter tp 67108864"}));
  EXPECT_EQ(lines_of(p.backward),
            (Lines{"dgrad mlp_out all_gather tp 67108864",  //
                   "dgrad mlp_out 8192 7168 4096",          //
                   "wgrad mlp_out 4096 7168 8192",          //
                   "dgrad mlp_in all_gather tp 67108864",   //
                   "dgrad mlp_in 8192 4096 14336",          //
                   "dgrad mlp_in reduce_scatter tp 67108864",
                   "wgrad mlp_in 14336 4096 8192",  //
                   "dgrad attention_out all_gather tp 67108864",
                   "dgrad attention_out 8192 2048 4096",  //
                   "wgrad attention_out 4096 2048 8192",
                   "dgrad core_attention backward 8192 of 8192 heads 16/4 d 128/128",
                   "dgrad qkv all_gather tp 67108864",  //
                   "dgrad qkv 8192 4096 3072",          //
                   "dgrad qkv reduce_scatter tp 67108864",
                   "wgrad qkv 3072 4096 8192"}));
  // Kept a token, 16 bits: 16h/2 stream and norms' outputs (8h/t in bytes), q and context 4q/t,
  // k and v 4kv/t, gate-up 4f/t, product 2f/t; fp32 log-sum-exp 4*32/t and two statistics 8/t.
  const double token = (8 * 4096.0 + 4 * 4096 + 4 * 1024 + 6 * 14336 + 4 * 32 + 8) / 2;
  EXPECT_EQ(saved(p), 8192 * token);
}

TEST(LocalShapes, Llama8bTensorParallelAlone) {
  const job::JobSpec spec = llama_job(2, 2, false);
  const Lowered l = lowered(spec);
  const ops::Program& p = layer_of(l);
  EXPECT_EQ(lines_of(p.forward),
            (Lines{"forward qkv 8192 3072 4096",
                   "forward core_attention forward 8192 of 8192 heads 16/4 d 128/128",
                   "forward attention_out 8192 4096 2048",
                   "forward attention_out all_reduce tp 67108864",  //
                   "forward mlp_in 8192 14336 4096",                //
                   "forward mlp_out 8192 4096 7168",
                   "forward mlp_out all_reduce tp 67108864"}));
  EXPECT_EQ(lines_of(p.backward),
            (Lines{"dgrad mlp_out 8192 7168 4096",  //
                   "wgrad mlp_out 4096 7168 8192",  //
                   "dgrad mlp_in 8192 4096 14336",  //
                   "dgrad mlp_in all_reduce tp 67108864",
                   "wgrad mlp_in 14336 4096 8192",  //
                   "dgrad attention_out 8192 2048 4096",
                   "wgrad attention_out 4096 2048 8192",
                   "dgrad core_attention backward 8192 of 8192 heads 16/4 d 128/128",
                   "dgrad qkv 8192 4096 3072",  //
                   "dgrad qkv all_reduce tp 67108864",
                   "wgrad qkv 3072 4096 8192"}));
}

TEST(LocalShapes, KeptGatheredInputsAreNotGatheredAgain) {
  job::JobSpec spec = llama_job(2, 2, true);
  const double shards = saved(layer_of(lowered(spec)));
  spec.framework.saved.gathered_input = true;
  const Lowered l = lowered(spec);
  for (const std::string& line : lines_of(layer_of(l).backward)) {
    EXPECT_EQ(line.find("qkv all_gather"), std::string::npos);
    EXPECT_EQ(line.find("mlp_in all_gather"), std::string::npos);
  }
  // Two inputs whole instead of halved: 2 * 2h * (1 - 1/2) a token.
  EXPECT_EQ(saved(layer_of(l)), shards + 8192 * 2 * 4096.0);
}

// 8 key-value heads on 16 ranks: each rank takes 2 query heads and the one key-value head they
// read; the projection's 6144/16 = 384 columns are gathered to 6144, 8192 * 6144 * 2 bytes.
TEST(LocalShapes, MoreRanksThanKeyValueHeads) {
  const job::JobSpec spec = llama_job(16, 16, true);
  const Lowered l = lowered(spec);
  const Lines forward = lines_of(layer_of(l).forward);
  ASSERT_GT(forward.size(), 3u);
  EXPECT_EQ(forward[1], "forward qkv 8192 384 4096");
  EXPECT_EQ(forward[2], "forward qkv all_gather tp 100663296");
  EXPECT_EQ(forward[3], "forward core_attention forward 8192 of 8192 heads 2/1 d 128/128");
  const Lines backward = lines_of(layer_of(l).backward);
  EXPECT_EQ(backward[backward.size() - 5], "dgrad qkv reduce_scatter tp 100663296");
}

// cp 2: 4096 queries a rank against 8192 keys; K and V of 4096 tokens, 8 heads of 128 each, are
// 4096 * 2048 * 2 = 16,777,216 bytes. A ring sends them once forward; backward, with gradients.
TEST(LocalShapes, ContextParallelRing) {
  job::JobSpec spec = llama_job(2, 1, false);
  spec.parallel.cp = 2;
  spec.batch.global = 1;
  const Lowered l = lowered(spec);
  const Lines forward = lines_of(layer_of(l).forward);
  EXPECT_EQ(forward[0], "forward qkv 4096 6144 4096");
  EXPECT_EQ(forward[1], "forward core_attention send_recv cp 16777216");
  EXPECT_EQ(forward[2], "forward core_attention forward 4096 of 8192 heads 32/8 d 128/128");
  double attention = 0;
  for (const ops::Op& op : layer_of(l).forward) {
    if (std::holds_alternative<ops::Attention>(op.work)) attention += op.flops().value;
  }
  // Half of the 8192 * 8192 / 2 pairs of a causal sequence: 2 * 32 * 16,777,216 * 256.
  EXPECT_EQ(attention, 2.0 * 32 * 16777216 * 256);
  const Lines backward = lines_of(layer_of(l).backward);
  EXPECT_EQ(backward[6], "dgrad core_attention send_recv cp 33554432");

  spec.parallel.cp = 4;
  spec.cluster = cluster_of(4);
  // 2048 tokens, three steps: 3 * 2048 * 2048 * 2.
  EXPECT_EQ(lines_of(layer_of(lowered(spec)).forward)[1],
            "forward core_attention send_recv cp 25165824");
}

TEST(LocalShapes, ContextParallelGather) {
  job::JobSpec spec = llama_job(2, 1, false);
  spec.parallel.cp = 2;
  spec.parallel.cp_kind = parallel::CpKind::all_gather;
  spec.batch.global = 1;
  const Lowered l = lowered(spec);
  EXPECT_EQ(lines_of(layer_of(l).forward)[1], "forward core_attention all_gather cp 33554432");
  const Lines backward = lines_of(layer_of(l).backward);
  EXPECT_EQ(backward[6], "dgrad core_attention all_gather cp 33554432");
  EXPECT_EQ(backward[8], "dgrad core_attention reduce_scatter cp 33554432");
}

// Heads for positions: 16 query and 4 key-value heads of all 8192 positions. Q, K, V of the rank
// are 4096 * 6144 * 2 bytes, the result 4096 * 4096 * 2.
TEST(LocalShapes, ContextParallelAllToAll) {
  job::JobSpec spec = llama_job(2, 1, false);
  spec.parallel.cp = 2;
  spec.parallel.cp_kind = parallel::CpKind::a2a;
  spec.batch.global = 1;
  const Lowered l = lowered(spec);
  const Lines forward = lines_of(layer_of(l).forward);
  EXPECT_EQ(forward[1], "forward core_attention all_to_all cp 50331648");
  EXPECT_EQ(forward[2], "forward core_attention forward 8192 of 8192 heads 16/4 d 128/128");
  EXPECT_EQ(forward[3], "forward core_attention all_to_all cp 33554432");
  const Lines backward = lines_of(layer_of(l).backward);
  EXPECT_EQ(backward[6], "dgrad core_attention all_to_all cp 33554432");
  EXPECT_EQ(backward[8], "dgrad core_attention all_to_all cp 50331648");
  // The result is kept on both sides of the exchange.
  spec.parallel.cp_kind = parallel::CpKind::p2p;
  EXPECT_EQ(saved(layer_of(l)), saved(layer_of(lowered(spec))) + 33554432);
}

job::JobSpec mixtral_job(int gpus) {
  return job_of(mixtral(kMixtral8x7b, 8, 2), gpus, {1, gpus, 4096});
}

// Mixtral 8x7B, ep 8, 4096 tokens a rank: 8192 rows leave and arrive, 8192 * 4096 * 2 bytes; one
// expert a rank.
TEST(LocalShapes, MixtralOneExpertARank) {
  job::JobSpec spec = mixtral_job(8);
  spec.parallel.ep = 8;
  const Lowered l = lowered(spec);
  const Lines forward = lines_of(layer_of(l).forward);
  EXPECT_EQ((Lines{forward.begin() + 3, forward.end()}),
            (Lines{"forward router 4096 8 4096",  //
                   "forward dispatch all_to_all ep 67108864",
                   "forward expert_in 8192 28672 4096",  //
                   "forward expert_out 8192 4096 14336",
                   "forward combine all_to_all ep 67108864"}));
  const Lines backward = lines_of(layer_of(l).backward);
  EXPECT_EQ((Lines{backward.begin(), backward.begin() + 8}),
            (Lines{"dgrad combine all_to_all ep 67108864",  //
                   "dgrad expert_out 8192 14336 4096",      //
                   "wgrad expert_out 4096 14336 8192",      //
                   "dgrad expert_in 8192 4096 28672",       //
                   "wgrad expert_in 28672 4096 8192",       //
                   "dgrad dispatch all_to_all ep 67108864",
                   "dgrad router 4096 4096 8",  //
                   "wgrad router 8 4096 4096"}));
}

// ep 4: the same 8192 rows are of two experts; weight gradients sum over 4096 rows each.
TEST(LocalShapes, MixtralTwoExpertsARank) {
  job::JobSpec spec = mixtral_job(4);
  spec.parallel.ep = 4;
  const Lowered l = lowered(spec);
  const Lines forward = lines_of(layer_of(l).forward);
  EXPECT_EQ(forward[5], "forward expert_in 8192 28672 4096 x 2");
  EXPECT_EQ(forward[6], "forward expert_out 8192 4096 14336 x 2");
  const Lines backward = lines_of(layer_of(l).backward);
  EXPECT_EQ(backward[2], "wgrad expert_out 8192 14336 4096 x 2");
  EXPECT_EQ(backward[4], "wgrad expert_in 57344 4096 4096 x 2");
}

// tp 2, etp 2, ep 4 on 8 ranks: a rank routes its 2048 tokens, sends 4096 rows (33,554,432 bytes),
// and computes them together with its etp partner's: 8192 rows at half of an expert's width.
TEST(LocalShapes, MixtralExpertsCutByTensorParallelism) {
  job::JobSpec spec = mixtral_job(8);
  spec.parallel.tp = 2;
  spec.parallel.sequence_parallel = true;
  spec.parallel.etp = 2;
  spec.parallel.ep = 4;
  const Lowered l = lowered(spec);
  const Lines forward = lines_of(layer_of(l).forward);
  EXPECT_EQ((Lines{forward.begin() + 5, forward.end()}),
            (Lines{"forward router 2048 8 4096",  //
                   "forward dispatch all_to_all ep 33554432",
                   "forward dispatch all_gather etp 67108864",
                   "forward expert_in 8192 14336 4096 x 2",  //
                   "forward expert_out 8192 4096 7168 x 2",
                   "forward combine reduce_scatter etp 67108864",
                   "forward combine all_to_all ep 33554432"}));
  // Without etp the rank computes whole experts on its own rows alone.
  spec.parallel.etp = 1;
  spec.parallel.ep = 8;
  EXPECT_EQ(lines_of(layer_of(lowered(spec)).forward)[7], "forward expert_in 4096 28672 4096");
}

// One expert a rank: the two of a token never share one, so that two copies leave.
TEST(LocalShapes, DeduplicatedDispatchSendsOneCopyARank) {
  job::JobSpec spec = mixtral_job(8);
  spec.parallel.ep = 8;
  spec.routing.dispatcher = job::Dispatcher::deepep;
  EXPECT_EQ(lines_of(layer_of(lowered(spec)).forward)[4],
            "forward dispatch all_to_all ep 67108864");  // 4096 * 2 * 4096 * 2
}

// DeepSeek-V2-Lite, one rank, 4096 tokens: q 16 * 192 columns from hidden, latent 512 + 64, keys and
// values 16 * (128 + 128) from the latent, scores over 192, values of 128.
TEST(LocalShapes, DeepSeekV2LiteLatentAttention) {
  job::JobSpec spec = job_of(deepseek_v2_lite(), 1, {1, 1, 4096});
  const Lowered l = lowered(spec);
  const ops::Program& p = l.program("dense layer");
  EXPECT_EQ(lines_of(p.forward),
            (Lines{"forward qkv 4096 3072 2048",      //
                   "forward mla_down 4096 576 2048",  //
                   "forward mla_up 4096 4096 512",
                   "forward core_attention forward 4096 of 4096 heads 16/16 d 192/128",
                   "forward attention_out 4096 2048 2048",  //
                   "forward mlp_in 4096 21888 2048",        //
                   "forward mlp_out 4096 2048 10944"}));
  const Lines backward = lines_of(p.backward);
  EXPECT_EQ((Lines{backward.begin() + 6, backward.end()}),
            (Lines{"dgrad core_attention backward 4096 of 4096 heads 16/16 d 192/128",
                   "dgrad mla_up 4096 512 4096",     //
                   "wgrad mla_up 4096 512 4096",     //
                   "dgrad mla_down 4096 2048 576",   //
                   "wgrad mla_down 576 2048 4096",   //
                   "dgrad qkv 4096 2048 3072",       //
                   "wgrad qkv 3072 2048 4096"}));
  // A token keeps: stream and norm outputs 8h, down projection whole 2(512 + 64) and its norm's
  // output 2*512, q and k 2*16*192 each, up projection whole (values are a view of it) 2*16*256,
  // context 2*16*128, log-sum-exp 4*16, gate-up 4f, product 2f, three statistics of 4.
  const double token = 8 * 2048.0 + 2 * 576 + 2 * 512 + 4 * 16 * 192 + 2 * 16 * 256 + 2 * 16 * 128 +
                       4 * 16 + 6 * 10944 + 12;
  EXPECT_EQ(saved(p), 4096 * token);

  // The MoE layer: 64 experts of 1408, 6 a token, a shared one of 2816 that every token visits.
  const Lines moe = lines_of(l.program("moe layer").forward);
  EXPECT_EQ((Lines{moe.begin() + 5, moe.end()}),
            (Lines{"forward router 4096 64 2048",              //
                   "forward expert_in 24576 2816 2048 x 64",   //
                   "forward expert_out 24576 2048 1408 x 64",  //
                   "forward shared_expert 4096 5632 2048",     //
                   "forward shared_expert 4096 2048 2816"}));
}

// tp 2 with sequence parallelism: the down projections see the rank's 2048 tokens and are held
// whole; the rotary part of the keys, 64 a token, is gathered for every head: 4096 * 64 * 2 bytes.
TEST(LocalShapes, LatentAttentionGathersItsRotaryPart) {
  job::JobSpec spec = job_of(deepseek_v3(1, 2), 2, {1, 2, 4096});
  spec.parallel.tp = 2;
  spec.parallel.sequence_parallel = true;
  const Lowered l = lowered(spec);
  EXPECT_EQ((lines_of(l.program("dense layer").forward)),
            (Lines{"forward mla_down 2048 1536 7168",           //
                   "forward mla_up all_gather tp 12582912",     // 4096 * 1536 * 2
                   "forward mla_up 4096 12288 1536",            //
                   "forward mla_down 2048 576 7168",            //
                   "forward mla_down all_gather tp 524288",     //
                   "forward mla_up all_gather tp 4194304",      // 4096 * 512 * 2
                   "forward mla_up 4096 16384 512",             //
                   "forward core_attention forward 4096 of 4096 heads 64/64 d 192/128",
                   "forward attention_out 4096 7168 8192",      //
                   "forward attention_out reduce_scatter tp 58720256",
                   "forward mlp_in all_gather tp 58720256",     //
                   "forward mlp_in 4096 18432 7168",            //
                   "forward mlp_out 4096 7168 9216",            //
                   "forward mlp_out reduce_scatter tp 58720256"}));
}

// Llama 3.1 8B at tp 4: 128256/4 = 32064 rows of the table and columns of the output layer.
TEST(LocalShapes, EmbeddingAndHead) {
  const job::JobSpec spec = llama_job(4, 4, true);
  const Lowered l = lowered(spec);
  EXPECT_EQ(lines_of(l.program("embedding").forward),
            (Lines{"forward embedding reduce_scatter tp 67108864"}));
  EXPECT_EQ(lines_of(l.program("embedding").backward),
            (Lines{"dgrad embedding all_gather tp 67108864"}));
  EXPECT_EQ(lines_of(l.program("output").forward),
            (Lines{"forward output_layer all_gather tp 67108864",
                   "forward output_layer 8192 32064 4096",
                   "forward loss all_reduce tp 98304"}));  // three fp32 numbers a token
  EXPECT_EQ(lines_of(l.program("output").backward),
            (Lines{"dgrad output_layer all_gather tp 67108864",
                   "dgrad output_layer 8192 4096 32064",
                   "dgrad output_layer reduce_scatter tp 67108864",
                   "wgrad output_layer 32064 4096 8192"}));
  EXPECT_EQ(ops::parameter_elements(l.program("embedding")), 32064 * 4096.0);
  EXPECT_EQ(ops::parameter_elements(l.program("output")), 32064 * 4096.0 + 4096);
}

// Two norms' outputs side by side, 2 * 7168 wide, meet half of the projection's 7168 columns on each
// of two ranks; the result is gathered by columns and cut by tokens.
TEST(LocalShapes, PredictionModuleJoinsByColumns) {
  model::Architecture a = deepseek_v3(1, 1);
  a.mtp_layers = 1;
  job::JobSpec spec = job_of(std::move(a), 2, {1, 2, 4096});
  spec.parallel.tp = 2;
  spec.parallel.sequence_parallel = true;
  const Lowered l = lowered(spec);
  const Lines forward = lines_of(l.program("mtp").forward);
  EXPECT_EQ((Lines{forward.begin(), forward.begin() + 3}),
            (Lines{"forward mtp all_gather tp 117440512",  // 4096 * 14336 * 2
                   "forward mtp 4096 3584 14336",          //
                   "forward mtp all_gather tp 58720256"}));
  const Lines backward = lines_of(l.program("mtp").backward);
  EXPECT_EQ((Lines{backward.end() - 5, backward.end()}),
            (Lines{"dgrad mtp all_gather tp 58720256",     //
                   "dgrad mtp all_gather tp 117440512",    //
                   "dgrad mtp 4096 14336 3584",            //
                   "dgrad mtp reduce_scatter tp 117440512",
                   "wgrad mtp 3584 14336 4096"}));
}

TEST(LocalShapes, StagesSendTheirShardOfTheStream) {
  job::JobSpec spec = llama_job(8, 2, true);
  spec.parallel.pp = 4;
  spec.batch.global = 4;
  Lowered l = lowered(spec);
  ASSERT_EQ(l.all.stage_count, 4u);
  EXPECT_EQ(l.all.stages[0].send.value, 8192 / 2 * 4096 * 2.0);
  EXPECT_EQ(l.all.stages[3].send.value, 0);
  spec.parallel.sequence_parallel = false;
  l = lowered(spec);
  EXPECT_EQ(l.all.stages[0].send.value, 8192 * 4096 * 2.0);
}

}  // namespace
}  // namespace eratos::judges
