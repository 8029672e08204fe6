#include "core/config/megatron/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace shardscope::megatron {
namespace {

/// Flags in groups, a shell array each.
class Writer {
 public:
  Writer(const Settings& settings, int ranks_per_node) : s_(settings) {
    launch(ranks_per_node);
    write_model();
    if (s_.shape.experts.experts > 0) write_experts();
    write_training();
    write_division();
  }

  std::string script(std::string_view comment) const {
    std::string text = "#!/bin/bash\n";
    text += fmt::format("# {}\n", comment);
    text +=
        "# Give what changes neither time nor memory: tokenizer, data, --train-iters, --lr,\n"
        "# --node-rank and --master-addr of several nodes.\n"
        "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
    std::string used, launched;
    for (const Group& group : groups_) {
      text += fmt::format("\n{}=(\n", group.name);
      for (const std::string& flag : group.flags) text += fmt::format("    {}\n", flag);
      text += ")\n";
      (&group == groups_.data() ? launched : used) += fmt::format(" \"${{{}[@]}}\"", group.name);
    }
    return text + fmt::format("\ntorchrun{} pretrain_gpt.py{} \"$@\"\n", launched, used);
  }

 private:
  struct Group {
    std::string_view name;
    std::vector<std::string> flags;
  };

  void begin(std::string_view name) { groups_.push_back({name, {}}); }
  void add(std::string_view flag) { groups_.back().flags.push_back(fmt::format("--{}", flag)); }
  template <class Value>
  void add(std::string_view flag, const Value& value) {
    groups_.back().flags.push_back(fmt::format("--{} {}", flag, value));
  }
  void add_if(bool is_so, std::string_view flag) {
    if (is_so) add(flag);
  }

  void launch(int ranks_per_node) {
    begin("DISTRIBUTED_ARGS");
    const bool divides = ranks_per_node > 0 && s_.world % ranks_per_node == 0;
    const int of_node = divides ? ranks_per_node : s_.world;
    add("nproc_per_node", of_node);
    add("nnodes", s_.world / of_node);
  }

  void write_model() {
    const DecoderShape& shape = s_.shape;
    begin("MODEL_ARGS");
    add("num-layers", shape.layers);
    add("hidden-size", shape.hidden);
    add("ffn-hidden-size", shape.ffn);
    add("num-attention-heads", shape.heads);
    add("kv-channels", shape.head_size);
    if (shape.latents.rank > 0)
      write_latents();
    else if (shape.kv_heads != shape.heads)
      add("group-query-attention"), add("num-query-groups", shape.kv_heads);
    add_if(s_.norms_queries, "qk-layernorm");
    add_if(shape.family == "qwen2", "add-qkv-bias");
    add("seq-length", shape.seq);
    add("max-position-embeddings", std::max(s_.max_positions, shape.seq));
    write_positions();
    add("normalization", s_.layer_norm ? "LayerNorm" : "RMSNorm");
    add_if(s_.gated, "swiglu");
    add_if(!s_.biases, "disable-bias-linear");
    add_if(!s_.tied, "untie-embeddings-and-output-weights");
    add("vocab-size", shape.vocabulary);
    add("make-vocab-size-divisible-by", s_.vocabulary_multiple);
    add("hidden-dropout", s_.hidden_dropout);
    add("attention-dropout", s_.attention_dropout);
  }

  void write_positions() {
    switch (s_.positions) {
      case Positions::learned:
        return add("position-embedding-type", "learned_absolute");
      case Positions::none:
        return add("position-embedding-type", "none");
      case Positions::rotary:
        add("position-embedding-type", "rope");
        return add("rotary-base", s_.rotary_base);
    }
  }

  void write_latents() {
    const LatentShape& latents = s_.shape.latents;
    add("multi-latent-attention");
    if (latents.query_rank > 0) add("q-lora-rank", latents.query_rank);
    add("kv-lora-rank", latents.rank);
    add("qk-head-dim", latents.plain);
    add("qk-pos-emb-head-dim", latents.rotary);
    add("v-head-dim", latents.value);
  }

  void write_experts() {
    const ExpertShape& experts = s_.shape.experts;
    begin("MOE_ARGS");
    add("num-experts", experts.experts);
    add("moe-router-topk", experts.chosen);
    if (experts.chosen == 1) add("moe-router-pre-softmax");
    add("moe-ffn-hidden-size", experts.inner);
    if (experts.shared > 0)
      add("moe-shared-expert-intermediate-size", experts.shared * experts.inner);
    if (experts.dense_layers > 0)
      add("moe-layer-freq", fmt::format("'([0]*{}+[1]*{})'", experts.dense_layers,
                                        s_.shape.layers - experts.dense_layers));
    add("moe-grouped-gemm");
    add("moe-token-dispatcher-type", "alltoall");
    if (s_.pads_experts) {
      add("moe-pad-expert-input-to-capacity");
      add("moe-expert-capacity-factor", "1.0");
    }
    add("expert-model-parallel-size", s_.expert);
    add("expert-tensor-parallel-size", 1);
  }

  void write_training() {
    begin("TRAINING_ARGS");
    add("micro-batch-size", s_.micro_batch);
    add("global-batch-size", s_.sequences());
    add_if(s_.parameters == Dtype::bfloat16, "bf16");
    add_if(s_.parameters == Dtype::float16, "fp16");
    add_if(s_.parameters == Dtype::bfloat16 && s_.gradients == Dtype::bfloat16,
           "grad-reduce-in-bf16");
    add_if(s_.parameters == Dtype::float16 && s_.gradients == Dtype::float32,
           "accumulate-allreduce-grads-in-fp32");
    write_kernels();
    if (s_.recompute == Recompute::selective) add("recompute-granularity", "selective");
    if (s_.recompute == Recompute::full) {
      add("recompute-granularity", "full");
      add("recompute-method", s_.by_block ? "block" : "uniform");
      add("recompute-num-layers", s_.recompute_layers);
      add_if(s_.distributes_recomputed, "distribute-saved-activations");
    }
  }

  void write_kernels() {
    if (s_.float8 != Float8::none) {
      add("fp8-format", "hybrid");
      add("fp8-recipe", s_.float8 == Float8::delayed ? "delayed" : "tensorwise");
    }
    if (s_.attention != Attention::engine)
      add("attention-backend", s_.attention == Attention::flash ? "flash" : "unfused");
    add_if(!s_.fused_accumulation, "no-gradient-accumulation-fusion");
  }

  void write_division() {
    begin("PARALLEL_ARGS");
    add("tensor-model-parallel-size", s_.tensor);
    add_if(s_.sequence_parallel, "sequence-parallel");
    add_if(s_.overlaps_tensor, "tp-comm-overlap");
    add("pipeline-model-parallel-size", s_.pipeline);
    if (s_.stages_per_rank > 1) add("num-virtual-stages-per-pipeline-rank", s_.stages_per_rank);
    if (s_.first_rank_layers > 0) add("decoder-first-pipeline-num-layers", s_.first_rank_layers);
    if (s_.last_rank_layers > 0) add("decoder-last-pipeline-num-layers", s_.last_rank_layers);
    add_if(s_.embedding_as_layer, "account-for-embedding-in-pipeline-split");
    add_if(s_.loss_as_layer, "account-for-loss-in-pipeline-split");
    add("context-parallel-size", s_.context);
    add_if(s_.distributed_optimizer, "use-distributed-optimizer");
    add_if(s_.overlaps_gradients, "overlap-grad-reduce");
    add_if(s_.overlaps_parameters, "overlap-param-gather");
  }

  const Settings& s_;
  std::vector<Group> groups_;
};

}  // namespace

std::string command_line(const Settings& settings, int ranks_per_node, std::string_view comment) {
  return Writer(settings, ranks_per_node).script(comment);
}

}  // namespace shardscope::megatron
