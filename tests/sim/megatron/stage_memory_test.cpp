// What a rank of Megatron-LM holds, beside the papers' and Megatron-LM's own formulas.
#include "sim/megatron/stage_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/config/megatron/model_shape.h"
#include "core/model/huggingface.h"
#include "core/model/model.h"
#include "sim/hardware/profile_file.h"
#include "sim/megatron/prediction.h"
#include "sim/megatron/shaped_model.h"

namespace shardscope::testing {
namespace {

using megatron::Attention;
using megatron::Recompute;
using megatron::Settings;

/// A GPT as in arXiv:2205.05198: feed-forward layers of four times the hidden size, dropout,
/// attention by products and softmax.
Settings gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  Settings s;
  s.shape = {.family = "gpt2",
             .hidden = hidden,
             .layers = layers,
             .heads = heads,
             .kv_heads = heads,
             .ffn = 4 * hidden,
             .vocabulary = 51200,
             .seq = 2048,
             .head_size = hidden / heads};
  s.attention = Attention::unfused;
  s.micro_batch = 4;
  return s;
}

Bytes kept(const Settings& s, bool with_core) {
  Bytes sum;
  for (const megatron::KeptTensor& one : megatron::kept_of_layer(s, false))
    if (with_core || !one.of_core_attention) sum += one.bytes;
  return sum;
}

/// s b h.
std::int64_t sbh(const Settings& s) { return s.shape.seq * s.micro_batch * s.shape.hidden; }
/// a s^2 b.
std::int64_t scores(const Settings& s) {
  return s.shape.heads * s.shape.seq * s.shape.seq * s.micro_batch;
}

// arXiv:2205.05198, equation 1: s b h (34 + 5 a s / h).
TEST(MegatronLayer, KeepsThePapersBytesOnOneRank) {
  const Settings s = gpt(4, 1024, 16);
  EXPECT_EQ(kept(s, true).count, 34 * sbh(s) + 5 * scores(s));
}

// Equation 2: s b h (10 + 24 / t + 5 a s / (h t)).
TEST(MegatronLayer, KeepsNormsAndDropoutWholeUnderTensorParallelismAlone) {
  Settings s = gpt(4, 1024, 16);
  s.tensor = s.world = 4;
  EXPECT_EQ(kept(s, true).count, 10 * sbh(s) + 24 * sbh(s) / 4 + 5 * scores(s) / 4);
}

// Equation 4: s b h / t (34 + 5 a s / h); equation 6 with selective recomputation: 34 s b h / t.
TEST(MegatronLayer, KeepsAllInPartsUnderSequenceParallelism) {
  for (const int ranks : {2, 4, 8}) {
    Settings s = gpt(4, 2048, 16);
    s.tensor = s.world = ranks;
    s.sequence_parallel = true;
    EXPECT_EQ(kept(s, true).count, (34 * sbh(s) + 5 * scores(s)) / ranks);
    EXPECT_EQ(kept(s, false).count, 34 * sbh(s) / ranks);
    s.recompute = Recompute::selective;
    // Stage 0 of one also has the mask of dropout behind the embedding: s b h / t.
    EXPECT_EQ(megatron::chunk_memory(s, 0).kept.count, (4 * 34 + 1) * sbh(s) / ranks);
  }
}

// Table 2 of the paper: a layer's input, 2 s b h, of each layer; each rank has all of it without
// sequence parallelism.
TEST(MegatronLayer, KeepsItsInputUnderFullRecomputation) {
  Settings s = gpt(4, 2048, 16);
  s.hidden_dropout = 0;
  s.recompute = Recompute::full;
  s.tensor = s.world = 4;
  EXPECT_EQ(megatron::chunk_memory(s, 0).kept.count, 4 * 2 * sbh(s));
  s.recompute_layers = 2;
  EXPECT_EQ(megatron::chunk_memory(s, 0).kept.count, 2 * 2 * sbh(s));
  s.distributes_recomputed = true;
  EXPECT_EQ(megatron::chunk_memory(s, 0).kept.count, 2 * 2 * sbh(s) / 4);
  s.distributes_recomputed = false;
  s.sequence_parallel = true;
  EXPECT_EQ(megatron::chunk_memory(s, 0).kept.count, 2 * 2 * sbh(s) / 4);
  s.by_block = true;  // two layers by their input, the two others whole
  EXPECT_EQ(megatron::chunk_memory(s, 0).kept.count, 2 * 2 * sbh(s) / 4 + 2 * kept(s, true).count);
}

// Section 4.3 of the paper: 4 s b h / t (1 + v / h) for final norm, output layer and loss.
TEST(MegatronStage, KeepsLogitsInFloat32Last) {
  Settings s = gpt(4, 2048, 16);
  s.tensor = 2;
  s.pipeline = 2;
  s.world = 4;
  s.sequence_parallel = true;
  const std::int64_t logits = s.shape.seq * s.micro_batch * s.padded_vocabulary();
  EXPECT_EQ(megatron::chunk_memory(s, 0).head.count, 0);
  EXPECT_EQ(megatron::chunk_memory(s, 1).head.count, (4 * sbh(s) + 4 * logits) / 2);
  s.fused_loss = true;
  EXPECT_EQ(megatron::chunk_memory(s, 1).head.count, (4 * sbh(s) + 2 * logits) / 2);
}

// torch 2.15's Inductor was given calculate_gradients of Megatron-LM core_v0.12.2,
// fusions/fused_cross_entropy.py: its code allocates a copy in float32 beside the gradients.
TEST(MegatronStage, CopiesTheSoftmaxWhereTheLossIsCompiled) {
  Settings s = gpt(4, 2048, 16);
  const std::int64_t logits = s.shape.seq * s.micro_batch * s.padded_vocabulary();
  const std::int64_t before = megatron::chunk_memory(s, 0).in_head.count;
  s.compiled_loss = true;
  EXPECT_EQ(megatron::chunk_memory(s, 0).in_head.count - before, 4 * logits);
}

// A rank of 8 on two tensor-parallel ranks: of a layer's products from 1,024 to 1,536 columns, from
// 512 rows to 1,024, from 1,024 to 2,048 and from 2,048 to 1,024: 8 x (4 x 1,024 + 1,536 + 512 +
// 2 x 2,048) elements. 18 bytes of each, and 2 of the model's own.
TEST(MegatronStates, OfAdaptersAreFew) {
  Settings s = gpt(2, 1024, 16);
  s.tensor = s.world = 2;
  const std::int64_t whole = megatron::held_parameters(s, 0).shared;
  EXPECT_GT(megatron::unread_gradients(s, 0).count, 0);
  s.adapters.rank = 8;
  const std::int64_t adapters = 2 * 8 * (4 * 1024 + 1536 + 512 + 2 * 2048);
  EXPECT_EQ(megatron::held_parameters(s, 0).adapters, adapters);
  const megatron::StateBytes bytes = megatron::state_bytes(s, 0);
  EXPECT_EQ(bytes.parameters.count, 2 * (whole + adapters));
  EXPECT_EQ(bytes.gradients.count, 4 * adapters);
  EXPECT_EQ(bytes.optimizer.count, 12 * adapters);
  EXPECT_EQ(megatron::unread_gradients(s, 0).count, 0);
  s.adapters.trains_embeddings = true;
  EXPECT_EQ(megatron::held_parameters(s, 0).adapters, adapters + 1024 * s.padded_vocabulary() / 2);
  s.optimizer_on_host = true;
  EXPECT_EQ(megatron::state_bytes(s, 0).optimizer.count, 0);
}

// megatron/training/theoretical_memory_usage.py: 18 bytes an element, 6 + 12 / d with the
// distributed optimizer over d ranks. docs: 16 of float32; 20 of float16 less its passing copy of
// gradients, 4.
TEST(MegatronStates, HaveTheDocumentedBytesAnElement) {
  Settings s = gpt(2, 1024, 16);
  s.world = 8;
  const std::int64_t elements = megatron::held_parameters(s, 0).shared;
  const auto sum = [&] {
    const megatron::StateBytes bytes = megatron::state_bytes(s, 0);
    return (bytes.parameters + bytes.gradients + bytes.optimizer).count;
  };
  EXPECT_EQ(sum(), 18 * elements);
  s.distributed_optimizer = true;
  EXPECT_EQ(sum(), 6 * elements + 12 * elements / 8);
  s.parameters = Dtype::float32;
  EXPECT_EQ(sum(), 8 * elements + 8 * elements / 8);
  s.distributed_optimizer = false;
  EXPECT_EQ(sum(), 16 * elements);
  s.parameters = Dtype::float16;
  s.gradients = Dtype::float16;
  EXPECT_EQ(sum(), 16 * elements);
}

Settings of_config(const char* text) {
  Settings s;
  s.shape.seq = 1024;
  megatron::take_model(JsonValue::parse(text, "config.json"), s);
  s.vocabulary_multiple = 1;
  return s;
}

constexpr const char* llama_3_8b = R"({"model_type": "llama", "hidden_size": 4096,
"intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
"num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": false})";

// Llama 3 8B has 8,030,261,248 parameters, GPT-2 124,439,808, Mixtral 8x7B 46,702,792,704: the sums
// of their published checkpoints.
TEST(MegatronParameters, AreThoseOfThePublishedModels) {
  EXPECT_EQ(megatron::held_parameters(of_config(llama_3_8b), 0).shared, 8030261248);
  const Settings gpt2 = of_config(R"({"model_type": "gpt2", "vocab_size": 50257})");
  EXPECT_EQ(megatron::held_parameters(gpt2, 0).shared, 124439808);
  const Settings mixtral = of_config(R"({"model_type": "mixtral", "hidden_size": 4096,
"intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
"num_key_value_heads": 8, "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2})");
  const megatron::HeldParameters held = megatron::held_parameters(mixtral, 0);
  EXPECT_EQ(held.shared + held.experts, 46702792704);
}

// Each stage has its own part; norms are on every tensor-parallel rank.
TEST(MegatronParameters, AddUpOverStagesAndTensorRanks) {
  Settings s = of_config(llama_3_8b);
  s.pipeline = 4;
  s.stages_per_rank = 2;
  s.tensor = 2;
  s.world = 8;
  std::int64_t sum = 0;
  for (int stage = 0; stage < 8; ++stage) sum += 2 * megatron::held_parameters(s, stage).shared;
  const std::int64_t norms = (2 * 32 + 1) * 4096;
  EXPECT_EQ(sum, 8030261248 + norms);
}

// Shapes of Llama 3 8B on 4 ranks: (1536, 4096), (4096, 1024), (7168, 4096), (4096, 3584), and
// (32064, 4096) of the output layer, 2 bytes each.
TEST(MegatronStage, HoldsOneUnreadGradientOfEachShape) {
  Settings s = of_config(llama_3_8b);
  s.tensor = 4;
  s.pipeline = 2;
  s.world = 8;
  const std::int64_t blocks = 2 * 4096 * (1536 + 1024 + 7168 + 3584);
  EXPECT_EQ(megatron::unread_gradients(s, 0).count, blocks);
  EXPECT_EQ(megatron::unread_gradients(s, 1).count, blocks + 2 * 4096 * 32064);
  s.fused_accumulation = false;
  EXPECT_EQ(megatron::unread_gradients(s, 0).count, 0);
}

std::vector<Bytes> played_activations(const Settings& s) {
  std::vector<Bytes> result;
  const auto stages = predict_megatron(s, {}, find_hardware_profile("a100_80gb", ""));
  for (const StageSummary& rank : stages.front().summary.pipeline->ranks)
    result.push_back(rank.activations);
  return result;
}

Settings pipelined() {
  Settings s = gpt(16, 512, 8);
  s.shape.seq = 512;
  s.micro_batch = 2;
  s.hidden_dropout = 0;  // no mask behind the embedding
  s.tensor = 2;
  s.pipeline = 4;
  s.world = 8;
  s.sequence_parallel = true;
  s.recompute = Recompute::selective;
  s.global_batch = 2 * 8;
  return s;
}

// Section 4.2.3 of the paper: the first stage holds p micro-batches, whatever their number; rank r
// holds p - r. A layer without dropout keeps 32 s b h / t (no masks).
TEST(PlayedMegatron, HoldsAsManyMicroBatchesAsStagesAreAhead) {
  const Settings s = pipelined();
  const std::vector<Bytes> activations = played_activations(s);
  const std::int64_t of_layer = 32 * sbh(s) / 2;
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(activations[static_cast<std::size_t>(rank)].count, (4 - rank) * 4 * of_layer);
  EXPECT_EQ(activations[3].count, 4 * of_layer + megatron::chunk_memory(s, 3).head.count);
}

// The same section: interleaving with v stages a rank holds L (1 + (p - 1) / (p v)) layers.
TEST(PlayedMegatron, HoldsMoreUnderInterleaving) {
  Settings s = pipelined();
  s.stages_per_rank = 2;
  const std::int64_t of_layer = 32 * sbh(s) / 2;
  EXPECT_EQ(played_activations(s)[0].count, 16 * of_layer * 11 / 8);
}

// The bubble of equal stages is (p - 1) / m of the time that they compute (arXiv:2104.04473,
// section 2.2): of forward and backward alone, as here the update is left out of the count.
// Embedding and output layer make the ends longer than the rest, so that it is less exact.
TEST(PlayedMegatron, ComputesEveryMicroBatchOnEveryRank) {
  const auto stages = predict_megatron(pipelined(), {}, find_hardware_profile("a100_80gb", ""));
  ASSERT_EQ(stages.size(), 4u);
  for (const Prediction& one : stages) {
    const Accounting& time = one.summary.time;
    EXPECT_EQ(one.summary.step_time, stages.front().summary.step_time);
    EXPECT_EQ((time.compute + time.exposed_communication + time.exposed_copy + time.idle).ns,
              time.span.ns);
    const auto computes = std::ranges::count_if(one.trace.spans, [&](const Span& span) {
      return one.trace.name(span).starts_with("forward of micro-batch");
    });
    EXPECT_EQ(computes, 8);
  }
}

// 6 flops a parameter of products and token, attention 3 L (2 h) s of causal scores and values a
// token and layer: 16 layers of 12 h^2, the output layer h v.
TEST(PlayedMegatron, CountsModelFlops) {
  Settings s = pipelined();
  s.biases = false;
  const double h = 512, tokens = 16 * 512 / 8.0;
  const double products = 16 * 12 * h * h + h * static_cast<double>(s.padded_vocabulary());
  const double expected = tokens * (6 * products + 3 * 16 * 2 * h * 512);
  EXPECT_NEAR(static_cast<double>(megatron_flops(s).count), expected, 1);
}

/// The parts of SimuMax's runs that are alike.
Settings of_simumax(Settings s) {
  s.shape.seq = 4096;
  s.distributed_optimizer = true;
  s.fused_loss = true;
  s.vocabulary_multiple = 128;
  s.world = 8;
  return s;
}

Settings llama(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t ffn) {
  Settings s;
  s.shape = {.hidden = hidden,
             .layers = layers,
             .heads = heads,
             .kv_heads = 8,
             .ffn = ffn,
             .vocabulary = 128256,
             .head_size = hidden / heads};
  s.gated = true;
  s.positions = megatron::Positions::rotary;
  s.biases = s.layer_norm = s.tied = false;
  s.hidden_dropout = s.attention_dropout = 0;
  return of_simumax(s);
}

double peak_gib(const Settings& s) {
  Bytes most;
  for (const Prediction& one : predict_megatron(s, {}, find_hardware_profile("b200_sxm", "")))
    most = std::max(most, one.summary.memory.peak_allocated);
  return static_cast<double>(most.count) / (1 << 30);
}

// Measured, max allocated: SimuMax docs/b200/b200_release_v1.2_summary.md.
TEST(PlayedMegatron, NeedsWhatSimuMaxMeasured) {
  Settings s = llama(12, 8192, 64, 28672);
  s.pipeline = 2;
  s.global_batch = 16;
  EXPECT_NEAR(peak_gib(s), 66.55, 0.02 * 66.55);
  s = llama(4, 16384, 128, 53248);
  s.tensor = 4;
  s.sequence_parallel = true;
  s.global_batch = 8;
  EXPECT_NEAR(peak_gib(s), 52.89, 0.02 * 52.89);
}

}  // namespace
}  // namespace shardscope::testing
