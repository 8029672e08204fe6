#include "core/config/megatron/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/config/megatron/shell_words.h"

namespace shardscope::megatron {
namespace {

/// A flag as it stands in the text, with the words behind it. Dashes stand for underscores.
struct Flag {
  std::string name;
  std::vector<std::string> values;
  int line = 1;
};

std::vector<Flag> flags_of(std::string_view text) {
  std::vector<Flag> flags;
  for (const ShellWord& word : shell_words(text)) {
    if (word.text.size() < 3 || !word.text.starts_with("--")) {
      if (!flags.empty()) flags.back().values.push_back(word.text);
      continue;
    }
    Flag flag{.name = word.text.substr(2), .line = word.line};
    if (const std::size_t equals = flag.name.find('='); equals != std::string::npos) {
      flag.values.push_back(flag.name.substr(equals + 1));
      flag.name.erase(equals);
    }
    std::ranges::replace(flag.name, '_', '-');
    flags.push_back(std::move(flag));
  }
  return flags;
}

/// Flags that change neither time nor memory of a step, or that launchers take.
constexpr std::string_view no_bearing[] = {"use-mcore-models",
                                           "use-legacy-models",
                                           "max-position-embeddings",
                                           "tokenizer-type",
                                           "tokenizer-model",
                                           "vocab-file",
                                           "merge-file",
                                           "lr",
                                           "min-lr",
                                           "weight-decay",
                                           "adam-beta1",
                                           "adam-beta2",
                                           "adam-eps",
                                           "clip-grad",
                                           "seed",
                                           "split",
                                           "data-path",
                                           "data-cache-path",
                                           "mock-data",
                                           "num-workers",
                                           "save",
                                           "load",
                                           "save-interval",
                                           "eval-interval",
                                           "eval-iters",
                                           "log-interval",
                                           "log-throughput",
                                           "log-params-norm",
                                           "log-num-zeros-in-grad",
                                           "norm-epsilon",
                                           "init-method-std",
                                           "rotary-base",
                                           "rotary-percent",
                                           "use-rope-scaling",
                                           "distributed-backend",
                                           "distributed-timeout-minutes",
                                           "nproc-per-node",
                                           "nnodes",
                                           "node-rank",
                                           "master-addr",
                                           "master-port",
                                           "rdzv-backend",
                                           "rdzv-endpoint",
                                           "rdzv-id",
                                           "local-ranks-filter",
                                           "role",
                                           "tee",
                                           "log-dir",
                                           "max-restarts",
                                           "train-iters",
                                           "train-samples",
                                           "exit-duration-in-mins",
                                           "exit-interval",
                                           "exit-signal-handler",
                                           "no-load-optim",
                                           "no-load-rng",
                                           "no-save-optim",
                                           "no-save-rng",
                                           "finetune",
                                           "override-opt-param-scheduler",
                                           "override-opt_param-scheduler",
                                           "attention-softmax-in-fp32",
                                           "no-masked-softmax-fusion",
                                           "no-create-attention-mask-in-dataloader",
                                           "create-attention-mask-in-dataloader",
                                           "no-mmap-bin-files",
                                           "reset-position-ids",
                                           "reset-attention-mask",
                                           "eod-mask-loss",
                                           "apply-layernorm-1p",
                                           "squared-relu",
                                           "openai-gelu",
                                           "transformer-pipeline-model-parallel-size",
                                           "manual-gc",
                                           "manual-gc-interval",
                                           "manual-gc-eval",
                                           "empty-unused-memory-level",
                                           "check-for-nan-in-loss-and-grad",
                                           "no-check-for-nan-in-loss-and-grad",
                                           "loss-scale",
                                           "initial-loss-scale",
                                           "min-loss-scale",
                                           "loss-scale-window",
                                           "hysteresis",
                                           "start-weight-decay",
                                           "end-weight-decay",
                                           "weight-decay-incr-style",
                                           "profile",
                                           "profile-step-start",
                                           "profile-step-end",
                                           "profile-ranks",
                                           "use-pytorch-profiler",
                                           "record-memory-history",
                                           "fp8-margin",
                                           "fp8-interval",
                                           "fp8-amax-history-len",
                                           "fp8-amax-compute-algo",
                                           "no-fp8-wgrad",
                                           "te-rng-tracker",
                                           "use-te-rng-tracker",
                                           "no-bias-gelu-fusion",
                                           "no-bias-swiglu-fusion",
                                           "no-bias-dropout-fusion",
                                           "no-rope-fusion",
                                           "no-persist-layer-norm",
                                           "qk-layernorm",
                                           "moe-permute-fusion",
                                           "moe-router-fusion",
                                           "moe-grouped-gemm",
                                           "ddp-bucket-size",
                                           "calculate-per-token-loss",
                                           "trust-remote-code",
                                           "pretrained-checkpoint",
                                           "enable-experimental",
                                           "auto-detect-ckpt-format",
                                           "no-position-embedding",
                                           "redirects",
                                           "ddp-num-buckets"};
/// How names of further such flags begin.
constexpr std::string_view no_bearing_prefixes[] = {
    "lr-",           "log-",           "tensorboard", "wandb-",         "ckpt-",      "dist-ckpt",
    "async-save",    "timing-",        "logging-",    "no-log-",        "moe-aux",    "moe-z-loss",
    "moe-router-",   "decoupled-",     "rotary-",     "mscale",         "rope-",      "dataloader-",
    "inference-",    "moe-token-drop", "moe-per-",    "rampup-",        "data-args",  "train-data",
    "valid-data",    "test-data",      "tiktoken-",   "non-persistent", "one-logger", "ft-",
    "use-checkpoint"};

/// Flags whose effect is left out, and what is predicted instead.
struct LeftOut {
  std::string_view name, instead;
};
constexpr std::array<LeftOut, 20> left_out{
    {{"fp8-param-gather", "parameters are gathered in 16 bits"},
     {"overlap-param-gather-with-optimizer-step", "parameters are gathered behind the update"},
     {"delay-wgrad-compute", "weights' gradients are computed in place"},
     {"overlap-moe-expert-parallel-comm", "experts' exchange is not hidden"},
     {"moe-shared-expert-overlap", "experts' exchange is not hidden"},
     {"mtp-num-layers", "layers that predict further tokens are left out"},
     {"cuda-graph-impl", "kernels are launched one by one"},
     {"enable-cuda-graph", "kernels are launched one by one"},
     {"external-cuda-graph", "kernels are launched one by one"},
     {"expert-tensor-parallel-size", "experts are not divided by columns"},
     {"num-distributed-optimizer-instances", "states are sharded over all data-parallel ranks"},
     {"optimizer-cpu-offload", "optimizer states stay on the device"},
     {"use-precision-aware-optimizer", "optimizer states are in float32"},
     {"cp-comm-type", "keys and values go round in a ring"},
     {"moe-token-dispatcher-type", "tokens go by all-to-all"},
     {"moe-enable-deepep", "tokens go by NCCL's all-to-all"},
     {"moe-layer-recompute", "layers with experts are not run again"},
     {"window-size", "attention sees all earlier tokens"},
     {"softmax-type", "attention has the usual softmax"},
     {"tp-comm-overlap-cfg", "all sums of tensor parallelism overlap alike"}}};

/// Flags that make another training, which is not predicted.
constexpr std::array<LeftOut, 12> refused{
    {{"use-torch-fsdp2", "give --runtime fsdp2 without this file"},
     {"use-megatron-fsdp", "leave it out"},
     {"use-custom-fsdp", "leave it out"},
     {"pipeline-model-parallel-layout", "give equal stages"},
     {"decoder-first-pipeline-num-layers", "give equal stages"},
     {"decoder-last-pipeline-num-layers", "give equal stages"},
     {"hybrid-layer-pattern", "give a model of transformer layers"},
     {"hybrid-override-pattern", "give a model of transformer layers"},
     {"fp4-format", "give --fp8-format or --bf16"},
     {"heterogeneous-layers-config-path", "give layers that are alike"},
     {"encoder-num-layers", "give a decoder"},
     {"encoder-tensor-model-parallel-size", "give a decoder"}}};

/// Reads flags into settings.
class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : file_(file), flags_(flags_of(text)) {}

  Arguments read() {
    for (const Flag& flag : flags_) last_[flag.name] = &flag;
    refuse();
    read_model();
    read_experts();
    read_division();
    read_precision();
    read_recomputation();
    read_batch();
    list_rest();
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const Flag& flag, std::string what, std::string way_out) const {
    throw Error({.where = fmt::format("{}:{}: --{}", file_, flag.line, flag.name),
                 .what = std::move(what),
                 .way_out = std::move(way_out)});
  }

  const Flag* take(std::string_view name) {
    known_.push_back(name);
    const auto found = last_.find(name);
    return found == last_.end() ? nullptr : found->second;
  }
  bool given(std::string_view name) { return take(name) != nullptr; }

  const std::string& word_of(const Flag& flag) const {
    if (flag.values.empty()) fail(flag, "has no value", "");
    return flag.values.front();
  }

  std::optional<std::int64_t> number(std::string_view name) {
    const Flag* flag = take(name);
    if (flag == nullptr) return std::nullopt;
    const std::string& word = word_of(*flag);
    std::int64_t value = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
    constexpr std::int64_t most = std::int64_t{1} << 31;
    if (word.find('$') != std::string::npos)
      fail(*flag, fmt::format("the script does not say what {} is", shown(word)),
           "write the number in a copy of the script");
    if (read.ec != std::errc() || read.ptr != word.data() + word.size() || value < 0 ||
        value >= most)
      fail(*flag, fmt::format("expected a whole number, got \"{}\"", shown(word)), "");
    return value;
  }
  std::int64_t number(std::string_view name, std::int64_t otherwise) {
    return number(name).value_or(otherwise);
  }
  /// Of ranks or stages.
  int size(std::string_view name) {
    const std::int64_t value = number(name, 1);
    constexpr std::int64_t most = 1 << 20;
    if (value < 1 || value > most)
      fail(*last_.find(name)->second, fmt::format("expected 1 to {}, got {}", most, value), "");
    return static_cast<int>(value);
  }
  double fraction(std::string_view name, double otherwise) {
    const Flag* flag = take(name);
    if (flag == nullptr) return otherwise;
    const std::string& word = word_of(*flag);
    double value = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
    if (read.ec != std::errc() || read.ptr != word.data() + word.size() || !(value >= 0) ||
        value >= 1)
      fail(*flag, fmt::format("expected a share from 0 to below 1, got \"{}\"", shown(word)), "");
    return value;
  }
  std::string choice(std::string_view name, std::string otherwise,
                     std::initializer_list<std::string_view> choices) {
    const Flag* flag = take(name);
    if (flag == nullptr) return otherwise;
    const std::string& word = word_of(*flag);
    for (const std::string_view known : choices)
      if (known == word) return word;
    fail(*flag, fmt::format("\"{}\" is not predicted", shown(word)),
         fmt::format("give {}", fmt::join(choices, ", ")));
  }
  void assume(std::string text) { result_.assumed.push_back(std::move(text)); }

  void refuse() const {
    for (const LeftOut& one : refused)
      if (const auto found = last_.find(one.name); found != last_.end())
        fail(*found->second, "is not predicted", std::string(one.instead));
  }

  void read_model() {
    Settings& s = result_.settings;
    DecoderShape& shape = s.shape;
    const auto layers = number("num-layers"), hidden = number("hidden-size"),
               heads = number("num-attention-heads");
    result_.has_model = layers && hidden && heads;
    shape.layers = layers.value_or(0);
    shape.hidden = hidden.value_or(0);
    shape.heads = heads.value_or(0);
    s.gated = given("swiglu");
    if (given("quick-geglu")) s.gated = true;
    const std::int64_t usual = s.gated ? 4 * shape.hidden * 2 / 3 / 64 * 64 : 4 * shape.hidden;
    shape.ffn = number("ffn-hidden-size", usual);
    const bool grouped = given("group-query-attention");
    const std::int64_t groups = number("num-query-groups", 1);
    shape.kv_heads = grouped ? groups : shape.heads;
    shape.head_size = number("kv-channels", shape.heads > 0 ? shape.hidden / shape.heads : 0);
    shape.seq = number("seq-length", 0);
    result_.has_length = shape.seq > 0;
    s.biases = !given("disable-bias-linear");
    s.layer_norm = choice("normalization", "LayerNorm", {"LayerNorm", "RMSNorm"}) == "LayerNorm";
    const bool rotary_flag = given("use-rotary-position-embeddings");
    const bool no_positions = given("no-position-embedding");
    const std::string positions =
        choice("position-embedding-type", "learned_absolute", {"learned_absolute", "rope", "none"});
    s.rotary = rotary_flag || no_positions || positions != "learned_absolute";
    s.tied = !given("untie-embeddings-and-output-weights");
    s.hidden_dropout = fraction("hidden-dropout", 0.1);
    s.attention_dropout = fraction("attention-dropout", 0.1);
    shape.family = s.gated ? (given("add-qkv-bias") ? "qwen2" : "llama") : "gpt2";
    known_.push_back("add-qkv-bias");
    read_vocabulary();
    read_latents();
    if (!s.gated && shape.kv_heads != shape.heads)
      assume("time of as many query groups as heads: grouped queries without gated layers");
  }

  void read_vocabulary() {
    Settings& s = result_.settings;
    s.vocabulary_multiple = std::max<std::int64_t>(1, number("make-vocab-size-divisible-by", 128));
    const auto stated = number("vocab-size"), padded = number("padded-vocab-size");
    if (padded) s.vocabulary_multiple = 1;
    constexpr std::int64_t of_gpt2 = 50257;
    s.shape.vocabulary = padded ? *padded : stated.value_or(of_gpt2);
    if (!padded && !stated && result_.has_model)
      assume(fmt::format("a vocabulary of {} tokens, GPT-2's (--vocab-size)", of_gpt2));
  }

  void read_latents() {
    if (!given("multi-latent-attention")) return;
    LatentShape& latents = result_.settings.shape.latents;
    latents = {.query_rank = number("q-lora-rank", 0),
               .rank = number("kv-lora-rank", 32),
               .plain = number("qk-head-dim", 128),
               .rotary = number("qk-pos-emb-head-dim", 64),
               .value = number("v-head-dim", 128)};
    if (!given("num-experts"))
      fail(*last_.find("multi-latent-attention")->second,
           "attention over latents is predicted with experts only", "give --num-experts");
  }

  void read_experts() {
    Settings& s = result_.settings;
    ExpertShape& experts = s.shape.experts;
    experts.experts = number("num-experts", 0);
    experts.chosen = number("moe-router-topk", 2);
    experts.inner = number("moe-ffn-hidden-size", s.shape.ffn);
    const std::int64_t shared = number("moe-shared-expert-intermediate-size", 0);
    s.expert = size("expert-model-parallel-size");
    s.pads_experts = given("moe-pad-expert-input-to-capacity");
    if (fraction_of_capacity() && !s.pads_experts)
      assume("tokens above an expert's capacity are computed, too");
    const Flag* frequency = take("moe-layer-freq");
    if (experts.experts == 0) {
      experts = {};
      return;
    }
    if (experts.inner > 0 && shared % experts.inner == 0) {
      experts.shared = shared / experts.inner;
    } else if (experts.inner > 0) {
      experts.shared = (shared + experts.inner - 1) / experts.inner;
      assume(fmt::format("a shared expert of {} columns as {} of {}", shared, experts.shared,
                         experts.inner));
    }
    if (frequency != nullptr) experts.dense_layers = dense_layers(*frequency);
    const bool latents = s.shape.latents.rank > 0;
    s.shape.family = latents ? "deepseek_v3" : "qwen3_moe";
    if (!latents && experts.shared > 0)
      assume("time without the shared expert: it is predicted beside attention over latents only");
  }

  bool fraction_of_capacity() { return given("moe-expert-capacity-factor"); }

  /// "1", or "[0]*3+[1]*58", "([0]+[1]*3)": so many layers without experts, then all with them.
  std::int64_t dense_layers(const Flag& flag) const {
    std::string word = word_of(flag);
    std::erase_if(word, [](char c) { return c == '(' || c == ')' || c == ' '; });
    if (word == "1" || times(word, "[1]")) return 0;
    const std::size_t plus = word.find('+');
    const std::string_view first = std::string_view(word).substr(0, plus);
    const std::string_view then =
        plus == std::string::npos ? std::string_view() : std::string_view(word).substr(plus + 1);
    if (const auto dense = times(first, "[0]"); dense && times(then, "[1]")) return *dense;
    fail(flag, fmt::format("the pattern \"{}\" is not predicted", shown(word)),
         "give layers without experts first, as in [0]*3+[1]*58");
  }

  /// 3 of "[0]*3", 1 of "[0]".
  static std::optional<std::int64_t> times(std::string_view text, std::string_view list) {
    if (!text.starts_with(list)) return std::nullopt;
    text.remove_prefix(list.size());
    if (text.empty()) return 1;
    std::int64_t value = 0;
    if (text.front() != '*') return std::nullopt;
    const auto read = std::from_chars(text.data() + 1, text.data() + text.size(), value);
    constexpr std::int64_t most = 1 << 20;
    const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
    return whole && value >= 0 && value < most ? std::optional(value) : std::nullopt;
  }

  void read_division() {
    Settings& s = result_.settings;
    s.tensor = size("tensor-model-parallel-size");
    s.pipeline = size("pipeline-model-parallel-size");
    s.context = size("context-parallel-size");
    s.sequence_parallel = given("sequence-parallel");
    s.overlaps_tensor = given("tp-comm-overlap");
    s.distributed_optimizer = given("use-distributed-optimizer");
    s.overlaps_gradients = given("overlap-grad-reduce");
    s.overlaps_parameters = given("overlap-param-gather");
    s.embedding_as_layer = given("account-for-embedding-in-pipeline-split");
    s.loss_as_layer = given("account-for-loss-in-pipeline-split");
    if (s.overlaps_gradients && !s.distributed_optimizer)
      assume(
          "all-reduces of gradients behind the backward: they are hidden under the distributed "
          "optimizer only");
    read_stages();
    read_world();
  }

  void read_stages() {
    Settings& s = result_.settings;
    const Flag* by_layers = take("num-layers-per-virtual-pipeline-stage");
    const auto layers = number("num-layers-per-virtual-pipeline-stage");
    const int stages = size("num-virtual-stages-per-pipeline-rank");
    s.stages_per_rank = stages;
    if (!layers) return;
    const std::int64_t counted =
        s.shape.layers + (s.embedding_as_layer ? 1 : 0) + (s.loss_as_layer ? 1 : 0);
    const std::int64_t of_rank = counted / s.pipeline;
    if (*layers < 1 || counted % s.pipeline != 0 || of_rank % *layers != 0)
      fail(*by_layers,
           fmt::format("{} layers on {} pipeline ranks are no stages of {} layers", counted,
                       s.pipeline, *layers),
           fmt::format("give a number that divides {}", std::max<std::int64_t>(1, of_rank)));
    s.stages_per_rank = static_cast<int>(of_rank / *layers);
  }

  void read_world() {
    const auto per_node = last_.find("nproc-per-node");
    if (per_node == last_.end()) return;
    const auto whole = [](const Flag* flag) -> std::int64_t {
      std::int64_t value = 0;
      if (flag == nullptr || flag->values.empty()) return 1;
      const std::string& word = flag->values.front();
      const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
      const bool known = read.ec == std::errc() && read.ptr == word.data() + word.size();
      return known && value > 0 && value <= (1 << 10) ? value : 0;
    };
    const auto nodes = last_.find("nnodes");
    const std::int64_t world =
        whole(per_node->second) * (nodes == last_.end() ? 1 : whole(nodes->second));
    if (world == 0) return;
    result_.settings.world = static_cast<int>(world);
    result_.has_world = true;
  }

  void read_precision() {
    Settings& s = result_.settings;
    const bool bf16 = given("bf16"), fp16 = given("fp16");
    if (bf16 && fp16) fail(*last_.find("fp16")->second, "--bf16 is given, too", "leave one out");
    s.parameters = bf16 ? Dtype::bfloat16 : fp16 ? Dtype::float16 : Dtype::float32;
    const bool wide = given("accumulate-allreduce-grads-in-fp32");
    const bool narrow = given("grad-reduce-in-bf16");
    s.gradients = bf16 && narrow && !wide ? Dtype::bfloat16
                  : fp16 && !wide         ? Dtype::float16
                                          : Dtype::float32;
    const std::string format = choice("fp8-format", "", {"e4m3", "hybrid"});
    const std::string recipe =
        choice("fp8-recipe", "delayed", {"delayed", "tensorwise", "blockwise", "mxfp8"});
    if (!format.empty()) s.float8 = recipe == "delayed" ? Float8::delayed : Float8::current;
    if (!format.empty() && (recipe == "blockwise" || recipe == "mxfp8"))
      assume(fmt::format("FP8 scaling of whole tensors in the place of {}", recipe));
    s.fused_accumulation = !given("no-gradient-accumulation-fusion");
    const bool fused = given("cross-entropy-loss-fusion");
    s.fused_loss = choice("cross-entropy-fusion-impl", "native", {"native", "te"}) == "te" && fused;
    const bool local = choice("transformer-impl", "transformer_engine",
                              {"local", "transformer_engine"}) == "local";
    const bool flash = given("use-flash-attn");
    const std::string backend =
        choice("attention-backend", "auto", {"flash", "fused", "unfused", "local", "auto"});
    if (flash || backend == "flash")
      s.attention = Attention::flash;
    else if (backend == "unfused" || backend == "local" || (local && backend == "auto"))
      s.attention = Attention::unfused;
  }

  void read_recomputation() {
    Settings& s = result_.settings;
    const std::string granularity = choice("recompute-granularity", "", {"selective", "full"});
    const bool selective = given("recompute-activations");
    if (granularity == "full" && !selective) s.recompute = Recompute::full;
    if (granularity == "selective" || selective) s.recompute = Recompute::selective;
    s.by_block = choice("recompute-method", "uniform", {"uniform", "block"}) == "block";
    s.recompute_layers = number("recompute-num-layers", 1);
    s.distributes_recomputed = given("distribute-saved-activations");
    // The first 0 layers of each stage.
    if (s.recompute == Recompute::full && s.by_block && s.recompute_layers == 0)
      s.recompute = Recompute::none;
    const Flag* modules = take("recompute-modules");
    const bool others =
        modules != nullptr && std::ranges::any_of(modules->values, [](const std::string& value) {
          return value != "core_attn";
        });
    if (others)
      assume("only core attention is run again: other --recompute-modules are not predicted");
    if (s.recompute == Recompute::full && s.by_block)
      assume("time of all layers run again; --recompute-num-layers counts in memory alone");
  }

  void read_batch() {
    Settings& s = result_.settings;
    s.micro_batch = number("micro-batch-size", 1);
    s.global_batch = number("global-batch-size", 0);
    if (!given("micro-batch-size") && result_.has_model)
      assume("micro-batches of 1 sequence (--micro-batch-size)");
  }

  bool has_no_bearing(std::string_view name) const {
    return std::ranges::find(no_bearing, name) != std::end(no_bearing) ||
           std::ranges::any_of(no_bearing_prefixes,
                               [&](std::string_view begin) { return name.starts_with(begin); });
  }

  void list_rest() {
    for (const auto& [name, flag] : last_) {
      const auto left = std::ranges::find(left_out, name, &LeftOut::name);
      if (left != left_out.end()) {
        if (matters(*flag)) assume(fmt::format("--{}: {}", name, left->instead));
        continue;
      }
      if (std::ranges::find(known_, name) != known_.end() || has_no_bearing(name)) continue;
      result_.unknown.push_back(fmt::format("--{} (line {})", shown(name), flag->line));
    }
  }

  /// Some values of these flags say nothing new.
  bool matters(const Flag& flag) const {
    const std::string value = flag.values.empty() ? "" : flag.values.front();
    if (flag.name == "cp-comm-type") return value != "p2p";
    if (flag.name == "moe-token-dispatcher-type") return value != "alltoall";
    if (flag.name == "expert-tensor-parallel-size") return value != "1";
    if (flag.name == "cuda-graph-impl") return value != "none";
    return flag.name != "num-distributed-optimizer-instances" || value != "1";
  }

  const std::string& file_;
  std::vector<Flag> flags_;
  std::map<std::string, const Flag*, std::less<>> last_;
  std::vector<std::string_view> known_;
  Arguments result_;
};

}  // namespace

bool is_megatron(std::string_view text) {
  const auto has = [&](std::string_view flag) { return text.find(flag) != std::string_view::npos; };
  return has("--tensor-model-parallel-size") ||
         (has("--num-layers") && has("--hidden-size") && has("--num-attention-heads"));
}

Arguments read_arguments(std::string_view text, const std::string& file) {
  return Reader(text, file).read();
}

}  // namespace shardscope::megatron
