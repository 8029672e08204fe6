#include "core/config/megatron/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/config/megatron/flags.h"
#include "core/config/megatron/known_flags.h"
#include "core/config/megatron/shell_words.h"

namespace shardscope::megatron {
namespace {

std::optional<std::int64_t> whole_number(const std::string& word) {
  std::int64_t value = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool is_whole = read.ec == std::errc() && read.ptr == word.data() + word.size();
  return is_whole ? std::optional(value) : std::nullopt;
}

/// Reads flags into settings. What cannot be read is a problem, and the default stays.
class Reader {
 public:
  Reader(const ShellScript& script, const std::string& file)
      : file_(file), flags_(flags_of(script)) {
    result_.passes_arguments = script.passes_arguments;
    const auto connections = script.variables.find("CUDA_DEVICE_MAX_CONNECTIONS");
    if (connections != script.variables.end()) result_.max_connections = connections->second;
    result_.origin.otherwise = file;
    for (const auto& [name, flag] : flags_)
      result_.origin.places[name] = fmt::format("{}:{}: --{}", file, flag.line, name);
  }

  Arguments read() {
    refuse_other_trainings();
    read_model();
    read_experts();
    read_division();
    read_precision();
    read_recomputation();
    read_batch();
    list_missing();
    list_rest();
    place_settings();
    return std::move(result_);
  }

 private:
  void problem(std::string_view name, std::string what, std::string way_out,
               bool is_refused = true) {
    const Flag* flag = find(name);
    result_.problems.push_back({.flag = std::string(name),
                                .line = flag != nullptr ? flag->line : 0,
                                .what = std::move(what),
                                .way_out = std::move(way_out),
                                .is_refused = is_refused});
  }
  void unread(std::string_view name, std::string what, std::string way_out) {
    problem(name, std::move(what), std::move(way_out));
    result_.problems.back().is_read = false;
  }
  void leave(std::string_view name, std::string what, std::string way_out) {
    problem(name, std::move(what) + ": that is not predicted", std::move(way_out), false);
  }
  void remark(Remark::Kind kind, const Flag& flag, std::string what) {
    result_.remarks.push_back(
        {.kind = kind, .flag = flag.name, .line = flag.line, .what = std::move(what)});
  }
  void ignore(std::string_view name, std::string what) {
    if (const Flag* flag = take(name)) remark(Remark::Kind::ignored, *flag, std::move(what));
  }
  void assume(std::string text) { result_.assumed.push_back(std::move(text)); }

  const Flag* find(std::string_view name) const {
    const auto found = flags_.find(name);
    return found == flags_.end() ? nullptr : &found->second;
  }
  const Flag* take(std::string_view name) {
    known_.push_back(name);
    return find(name);
  }
  bool given(std::string_view name) { return take(name) != nullptr; }
  /// A switch: argparse takes no value behind it.
  bool is_on(std::string_view name) {
    const Flag* flag = take(name);
    if (flag == nullptr) return false;
    constexpr std::string_view truths[] = {"true", "false", "True", "False", "0", "1"};
    if (flag->is_followed && std::ranges::find(truths, flag->values.front()) != std::end(truths))
      problem(name, fmt::format("is a switch, and \"{}\" stands behind it", flag->values.front()),
              "give the flag alone, or leave it out");
    return true;
  }

  /// The word behind a flag; none where the flag or the word is not there.
  std::optional<std::string> word(std::string_view name) {
    const Flag* flag = take(name);
    if (flag == nullptr) return std::nullopt;
    if (flag->values.empty()) {
      unread(name, "has no value", fmt::format("give --{} VALUE", name));
      return std::nullopt;
    }
    const std::string& value = flag->values.front();
    if (flag->has_several)
      remark(Remark::Kind::ambiguous, *flag,
             fmt::format("stands several times with other values: the last one, {}, is taken",
                         shown(value)));
    else if (!flag->unsure.empty())
      remark(Remark::Kind::ambiguous, *flag,
             fmt::format("the script sets ${} to several values: the last one before, {}, is taken",
                         flag->unsure, shown(value)));
    return value;
  }

  std::optional<std::int64_t> number(std::string_view name) {
    constexpr std::int64_t most = std::int64_t{1} << 31;
    const auto text = word(name);
    if (!text) return std::nullopt;
    if (text->find('$') != std::string::npos) {
      unread(name, fmt::format("the script does not say what {} is", shown(*text)),
             "write the number in a copy of the script");
      return std::nullopt;
    }
    const auto value = whole_number(*text);
    if (value && *value >= 0 && *value < most) return value;
    unread(name, fmt::format("expected a whole number, got \"{}\"", shown(*text)),
           fmt::format("give 0 to {}", most - 1));
    return std::nullopt;
  }
  std::int64_t number(std::string_view name, std::int64_t otherwise) {
    return number(name).value_or(otherwise);
  }
  /// Of ranks or stages; 1 unless it is given.
  int size(std::string_view name) {
    constexpr std::int64_t most = 1 << 20;
    const std::int64_t value = number(name, 1);
    if (value >= 1 && value <= most) return static_cast<int>(value);
    unread(name, fmt::format("the value is {}", value), fmt::format("give 1 to {}", most));
    return 1;
  }
  /// "0.1"; `least` to below `end`.
  double decimal(std::string_view name, double otherwise, double end) {
    const auto text = word(name);
    if (!text) return otherwise;
    double value = 0;
    const auto read = std::from_chars(text->data(), text->data() + text->size(), value);
    const bool is_number = read.ec == std::errc() && read.ptr == text->data() + text->size();
    if (is_number && value >= 0 && value < end) return value;
    unread(name, fmt::format("expected a number from 0 to below {}, got \"{}\"", end, shown(*text)),
           "give for example 0.1");
    return otherwise;
  }
  /// `others`: what argparse takes, too, and is not predicted.
  std::string choice(std::string_view name, std::string otherwise,
                     std::initializer_list<std::string_view> choices,
                     std::string_view others = {}) {
    auto text = word(name);
    if (!text) return otherwise;
    if (std::ranges::find(choices, *text) != choices.end()) return *text;
    const std::string way_out = fmt::format("give {}", fmt::join(choices, ", "));
    if (text->find('$') != std::string::npos)
      unread(name, fmt::format("the script does not say what {} is", shown(*text)), way_out);
    else if (*text == others)
      leave(name, fmt::format("\"{}\"", shown(*text)), way_out);
    else
      problem(name, fmt::format("Megatron-LM has no \"{}\"", shown(*text)), way_out);
    return otherwise;
  }

  void refuse_other_trainings() {
    for (const auto& [name, flag] : flags_)
      if (const auto way_out = not_predicted(name))
        problem(name, "is not predicted", std::string(*way_out), false);
    for (const auto& [name, instead] :
         {std::pair("batch-size", "--micro-batch-size"),
          std::pair("model-parallel-size", "--tensor-model-parallel-size"),
          std::pair("checkpoint-activations", "--recompute-activations")})
      if (given(name))
        problem(name, "Megatron-LM does not take it any more", fmt::format("give {}", instead));
  }

  void read_model() {
    Settings& s = result_.settings;
    if (const Flag* old = take("use-mcore-models"))
      remark(Remark::Kind::deprecated, *old, "leave it out: Megatron-LM passes over it");
    DecoderShape& shape = s.shape;
    const auto layers = number("num-layers"), hidden = number("hidden-size"),
               heads = number("num-attention-heads");
    result_.has_model = layers && hidden && heads;
    shape.layers = layers.value_or(0);
    shape.hidden = hidden.value_or(0);
    shape.heads = heads.value_or(0);
    const bool swiglu = is_on("swiglu");
    s.gated = is_on("quick-geglu") || swiglu;
    const std::int64_t usual = swiglu ? 4 * shape.hidden * 2 / 3 / 64 * 64 : 4 * shape.hidden;
    shape.ffn = number("ffn-hidden-size", usual);
    const bool grouped = is_on("group-query-attention");
    if (!grouped) ignore("num-query-groups", "counts only beside --group-query-attention");
    shape.kv_heads = grouped ? number("num-query-groups", shape.heads) : shape.heads;
    read_head_size();
    shape.seq = number("seq-length", 0);
    result_.has_length = shape.seq > 0;
    s.biases = !is_on("disable-bias-linear");
    s.layer_norm = choice("normalization", "LayerNorm", {"LayerNorm", "RMSNorm"}) == "LayerNorm";
    read_positions();
    s.norms_queries = is_on("qk-layernorm");
    s.tied = !is_on("untie-embeddings-and-output-weights");
    s.hidden_dropout = decimal("hidden-dropout", 0.1, 1);
    s.attention_dropout = decimal("attention-dropout", 0.1, 1);
    const bool query_bias = is_on("add-qkv-bias");
    shape.family = s.gated ? (query_bias ? "qwen2" : "llama") : "gpt2";
    read_vocabulary();
    read_latents(grouped);
    if (result_.has_model) tell_how_layers_are_played();
  }

  void read_head_size() {
    DecoderShape& shape = result_.settings.shape;
    const auto stated = number("kv-channels");
    const bool divides = shape.heads > 0 && shape.hidden % shape.heads == 0;
    shape.head_size = stated.value_or(shape.heads > 0 ? shape.hidden / shape.heads : 0);
    if (!stated && shape.heads > 0 && !divides)
      unread("num-attention-heads",
             fmt::format("the hidden size of {} does not divide over {} heads", shape.hidden,
                         shape.heads),
             "give --kv-channels, or a number of heads that divides --hidden-size");
  }

  void read_positions() {
    Settings& s = result_.settings;
    const std::string type =
        choice("position-embedding-type", "learned_absolute",
               {"learned_absolute", "rope", "yarn", "mrope", "none"}, "relative");
    const Flag* old_flag = take("use-rotary-position-embeddings");
    if (old_flag != nullptr)
      remark(Remark::Kind::deprecated, *old_flag, "give --position-embedding-type rope");
    const bool rotary = old_flag != nullptr || type == "rope" || type == "yarn" || type == "mrope";
    s.positions = rotary           ? Positions::rotary
                  : type == "none" ? Positions::none
                                   : Positions::learned;
    if (is_on("no-position-embedding") && !rotary)
      problem("no-position-embedding", "Megatron-LM takes it beside rotary positions only",
              "give --position-embedding-type none");
    s.max_positions = number("max-position-embeddings", 0);
    s.rotary_base = number("rotary-base", s.rotary_base);
  }

  /// Time is that of a family's layers; memory follows the flags.
  void tell_how_layers_are_played() {
    const Settings& s = result_.settings;
    const bool like_llama = !s.layer_norm && !s.biases && s.positions == Positions::rotary;
    const bool like_gpt2 = s.layer_norm && s.biases && s.positions == Positions::learned &&
                           s.shape.kv_heads == s.shape.heads;
    if (s.gated && !like_llama)
      assume("time of gated layers with RMSNorm and rotary positions, without biases");
    if (!s.gated && !like_gpt2)
      assume(
          "time of layers of GPT-2: LayerNorm, biases, learned positions, as many query groups as "
          "heads");
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

  void read_latents(bool grouped) {
    constexpr std::string_view sizes[] = {"q-lora-rank", "kv-lora-rank", "qk-head-dim",
                                          "qk-pos-emb-head-dim", "v-head-dim"};
    if (!is_on("multi-latent-attention")) {
      for (const std::string_view name : sizes)
        ignore(name, "counts only beside --multi-latent-attention");
      return;
    }
    result_.settings.shape.latents = {.query_rank = number("q-lora-rank", 0),
                                      .rank = number("kv-lora-rank", 32),
                                      .plain = number("qk-head-dim", 128),
                                      .rotary = number("qk-pos-emb-head-dim", 64),
                                      .value = number("v-head-dim", 128)};
    if (grouped)
      problem("group-query-attention", "attention over latents has no query groups",
              "leave one of --group-query-attention and --multi-latent-attention out");
  }

  void read_experts() {
    Settings& s = result_.settings;
    ExpertShape& experts = s.shape.experts;
    experts.experts = number("num-experts", 0);
    s.expert = size("expert-model-parallel-size");
    if (experts.experts == 0) return read_no_experts();
    experts.chosen = number("moe-router-topk", 2);
    experts.inner = number("moe-ffn-hidden-size", s.shape.ffn);
    read_shared_expert();
    read_capacity();
    if (const auto pattern = word("moe-layer-freq")) experts.dense_layers = dense_layers(*pattern);
    if (number("expert-tensor-parallel-size", 1) > 1)
      leave("expert-tensor-parallel-size", "experts whose columns are divided",
            "give --expert-tensor-parallel-size 1");
    const bool latents = s.shape.latents.rank > 0;
    s.shape.family = latents ? "deepseek_v3" : s.norms_queries ? "qwen3_moe" : "mixtral";
    if (!latents && experts.shared > 0)
      assume("time without the shared expert: it is predicted beside attention over latents only");
  }

  void read_no_experts() {
    result_.settings.shape.experts = {};
    if (given("moe-ffn-hidden-size"))
      problem("moe-ffn-hidden-size", "the model has no experts",
              "give --num-experts, or leave it out");
    for (const std::string_view name :
         {"moe-router-topk", "moe-shared-expert-intermediate-size", "moe-layer-freq",
          "moe-expert-capacity-factor", "moe-pad-expert-input-to-capacity",
          "expert-tensor-parallel-size"})
      ignore(name, "counts only beside --num-experts");
  }

  void read_shared_expert() {
    ExpertShape& experts = result_.settings.shape.experts;
    const std::int64_t shared = number("moe-shared-expert-intermediate-size", 0);
    if (experts.inner == 0) return;
    experts.shared = (shared + experts.inner - 1) / experts.inner;
    if (shared % experts.inner != 0)
      assume(fmt::format("a shared expert of {} columns as {} of {}", shared, experts.shared,
                         experts.inner));
  }

  void read_capacity() {
    constexpr double most = 1 << 20;
    const double factor = decimal("moe-expert-capacity-factor", 0, most);
    const bool pads = is_on("moe-pad-expert-input-to-capacity");
    result_.settings.pads_experts = pads;
    if (pads && factor == 0)
      problem("moe-pad-expert-input-to-capacity", "there is no capacity to fill up to",
              "give --moe-expert-capacity-factor, too");
    else if (pads && factor != 1)
      leave("moe-expert-capacity-factor",
            fmt::format("experts filled up to {} of their equal share", factor),
            "give --moe-expert-capacity-factor 1.0");
    else if (!pads && factor > 0)
      assume("tokens above an expert's capacity are computed, too");
  }

  /// "1", or "[0]*3+[1]*58", "([0]+[1]*3)": so many layers without experts, then all with them.
  std::int64_t dense_layers(std::string pattern) {
    std::erase_if(pattern, [](char c) { return c == '(' || c == ')' || c == ' '; });
    if (pattern == "1") return 0;
    const std::size_t plus = pattern.find('+');
    const std::string_view first = std::string_view(pattern).substr(0, plus);
    const std::string_view then =
        plus == std::string::npos ? std::string_view() : std::string_view(pattern).substr(plus + 1);
    const auto all = times(first, "[1]"), dense = times(first, "[0]"), sparse = times(then, "[1]");
    const std::int64_t layers = result_.settings.shape.layers;
    const bool is_known = (all && then.empty()) || (dense && sparse);
    if (!is_known) {
      leave("moe-layer-freq", fmt::format("the pattern \"{}\"", shown(pattern)),
            "give layers without experts first, as in [0]*3+[1]*58");
      return 0;
    }
    const std::int64_t said = all ? *all : *dense + *sparse;
    if (said != layers)
      unread("moe-layer-freq",
             fmt::format("the pattern is of {} layers, and the model has {}", said, layers),
             "give a pattern of as many layers as --num-layers");
    return all ? 0 : *dense;
  }

  /// 3 of "[0]*3", 1 of "[0]".
  static std::optional<std::int64_t> times(std::string_view text, std::string_view list) {
    constexpr std::int64_t most = 1 << 20;
    if (!text.starts_with(list)) return std::nullopt;
    text.remove_prefix(list.size());
    if (text.empty()) return 1;
    if (text.front() != '*') return std::nullopt;
    const auto value = whole_number(std::string(text.substr(1)));
    return value && *value >= 0 && *value < most ? value : std::nullopt;
  }

  void read_division() {
    Settings& s = result_.settings;
    s.tensor = size("tensor-model-parallel-size");
    s.pipeline = size("pipeline-model-parallel-size");
    s.context = size("context-parallel-size");
    s.sequence_parallel = is_on("sequence-parallel");
    s.overlaps_tensor = is_on("tp-comm-overlap");
    s.distributed_optimizer = is_on("use-distributed-optimizer");
    s.overlaps_gradients = is_on("overlap-grad-reduce");
    s.overlaps_parameters = is_on("overlap-param-gather");
    s.embedding_as_layer = is_on("account-for-embedding-in-pipeline-split");
    s.loss_as_layer = is_on("account-for-loss-in-pipeline-split");
    s.first_rank_layers = layers_of_rank("decoder-first-pipeline-num-layers");
    s.last_rank_layers = layers_of_rank("decoder-last-pipeline-num-layers");
    if (s.overlaps_gradients && !s.distributed_optimizer)
      assume(
          "all-reduces of gradients behind the backward: they are hidden under the distributed "
          "optimizer only");
    read_stages();
    read_world();
  }

  std::int64_t layers_of_rank(std::string_view name) {
    const auto layers = number(name);
    if (layers && *layers == 0) problem(name, "the value is 0", "give 1 or more layers");
    return layers.value_or(0);
  }

  void read_stages() {
    constexpr std::string_view by_layers = "num-layers-per-virtual-pipeline-stage";
    Settings& s = result_.settings;
    const auto layers = number(by_layers);
    s.stages_per_rank = size("num-virtual-stages-per-pipeline-rank");
    if (!layers) return;
    if (given("num-virtual-stages-per-pipeline-rank"))
      return unread(by_layers, "--num-virtual-stages-per-pipeline-rank is given, too",
                    "leave one of the two out");
    if (s.first_rank_layers > 0 || s.last_rank_layers > 0)
      return unread(by_layers, "stages are uneven",
                    "give --num-virtual-stages-per-pipeline-rank instead");
    const std::int64_t counted = s.layers_to_share();
    const std::int64_t of_rank = counted / s.pipeline;
    if (*layers < 1 || counted % s.pipeline != 0 || of_rank % *layers != 0)
      return unread(
          by_layers,
          fmt::format("{} layers on {} pipeline ranks are no stages of {} layers", counted,
                      s.pipeline, *layers),
          fmt::format("give a number that divides {}", std::max<std::int64_t>(1, of_rank)));
    constexpr std::int64_t most = 1 << 20;
    s.stages_per_rank = static_cast<int>(std::min(most, of_rank / *layers));
  }

  /// What a launcher is not given in numbers ("$SLURM_NNODES", "1:4") leaves the world unknown.
  void read_world() {
    constexpr std::int64_t most = 1 << 20;
    const Flag* per_node = find("nproc-per-node");
    if (per_node == nullptr) return;
    const auto count = [&](const Flag* flag) -> std::int64_t {
      if (flag == nullptr || flag->values.empty()) return 1;
      const auto value = whole_number(flag->values.front());
      return value && *value > 0 && *value <= most ? *value : 0;
    };
    const std::int64_t world = count(per_node) * count(find("nnodes"));
    if (world == 0 || world > most) return;
    result_.settings.world = static_cast<int>(world);
    result_.has_world = true;
  }

  void read_precision() {
    Settings& s = result_.settings;
    const bool bf16 = is_on("bf16"), fp16 = is_on("fp16");
    if (bf16 && fp16) problem("fp16", "--bf16 is given, too", "leave one of the two out");
    s.parameters = bf16 ? Dtype::bfloat16 : fp16 ? Dtype::float16 : Dtype::float32;
    const bool wide = is_on("accumulate-allreduce-grads-in-fp32");
    const bool narrow = is_on("grad-reduce-in-bf16");
    s.gradients = bf16 && narrow  ? Dtype::bfloat16
                  : fp16 && !wide ? Dtype::float16
                                  : Dtype::float32;
    const std::string format = choice("fp8-format", "", {"e4m3", "hybrid"});
    const std::string recipe =
        choice("fp8-recipe", "delayed", {"delayed", "tensorwise", "blockwise", "mxfp8"}, "custom");
    if (!format.empty()) s.float8 = recipe == "delayed" ? Float8::delayed : Float8::current;
    if (!format.empty() && (recipe == "blockwise" || recipe == "mxfp8"))
      assume(fmt::format("FP8 scaling of whole tensors in the place of {}", recipe));
    s.fused_accumulation = !is_on("no-gradient-accumulation-fusion");
    s.compiled_loss = is_on("cross-entropy-loss-fusion");
    if (choice("cross-entropy-fusion-impl", "native", {"native", "te"}) == "te" && s.compiled_loss)
      problem("cross-entropy-fusion-impl",
              "Megatron-LM refuses Transformer Engine's fused cross entropy",
              "give --cross-entropy-fusion-impl native, or leave --cross-entropy-loss-fusion out");
    read_attention();
  }

  void read_attention() {
    Settings& s = result_.settings;
    const bool local = choice("transformer-impl", "transformer_engine",
                              {"local", "transformer_engine"}, "inference_optimized") == "local";
    const bool flash = is_on("use-flash-attn");
    const std::string backend =
        choice("attention-backend", "auto", {"flash", "fused", "unfused", "local", "auto"});
    if (flash || backend == "flash")
      s.attention = Attention::flash;
    else if (backend == "unfused" || backend == "local" || (local && backend == "auto"))
      s.attention = Attention::unfused;
  }

  void read_recomputation() {
    Settings& s = result_.settings;
    const bool by_short_flag = is_on("recompute-activations");
    const std::string said = choice("recompute-granularity", "", {"selective", "full"});
    const std::string granularity = by_short_flag ? "selective" : said;
    const bool has_method = given("recompute-method");
    const auto layers = number("recompute-num-layers");
    s.distributes_recomputed = is_on("distribute-saved-activations");
    s.by_block = choice("recompute-method", "uniform", {"uniform", "block"}) == "block";
    s.recompute_layers = layers.value_or(1);
    if (granularity == "full") {
      s.recompute = Recompute::full;
      if (!has_method)
        problem("recompute-granularity", "full recomputation has no method",
                "give --recompute-method uniform or block");
      else if (!layers)
        problem("recompute-granularity", "the number of layers to run again is not given",
                "give --recompute-num-layers");
    } else if (granularity == "selective") {
      s.recompute = Recompute::selective;
      for (const std::string_view name : {"recompute-method", "recompute-num-layers"})
        if (given(name))
          problem(name, "selective recomputation does not take it",
                  "leave it out, or give --recompute-granularity full");
    }
    // The first 0 layers of each stage.
    if (s.recompute == Recompute::full && s.by_block && s.recompute_layers == 0)
      s.recompute = Recompute::none;
    if (s.recompute == Recompute::full && s.by_block)
      assume("time of all layers run again; --recompute-num-layers counts in memory alone");
    read_recomputed_modules();
  }

  void read_recomputed_modules() {
    constexpr std::string_view others[] = {"moe_act", "layernorm", "mla_up_proj",
                                           "mlp",     "moe",       "shared_experts"};
    const Flag* flag = take("recompute-modules");
    if (flag == nullptr || result_.settings.recompute != Recompute::selective) return;
    const auto names = [&](std::string_view module) {
      return std::ranges::find(flag->values, module) != flag->values.end();
    };
    if (std::ranges::any_of(others, names))
      assume("only core attention is run again: other --recompute-modules are not predicted");
    else if (!names("core_attn"))
      leave("recompute-modules", "recomputation without core attention",
            "give --recompute-modules core_attn");
  }

  void read_batch() {
    Settings& s = result_.settings;
    s.micro_batch = number("micro-batch-size", 1);
    s.global_batch = number("global-batch-size", 0);
    if (given("global-batch-size") && s.global_batch == 0)
      problem("global-batch-size", "the value is 0", "give sequences of a step, or leave it out");
    if (!given("micro-batch-size") && result_.has_model)
      assume("micro-batches of 1 sequence (--micro-batch-size)");
  }

  /// Source: arguments.py, validate_args (required_args, micro_batch_size, encoder_seq_length).
  void list_missing() {
    for (const std::string_view name :
         {"num-layers", "hidden-size", "num-attention-heads", "seq-length",
          "max-position-embeddings", "micro-batch-size"})
      if (find(name) == nullptr) result_.missing.emplace_back(name);
  }

  bool is_known(std::string_view name) const {
    return std::ranges::find(known_, name) != known_.end() || has_no_bearing(name) ||
           not_predicted(name);
  }

  void list_rest() {
    for (const auto& [name, flag] : flags_) {
      const bool is_megatrons = !is_launchers(name) && (is_known(name) || left_out(name));
      if (is_megatrons && flag.written != name)
        problem(name, fmt::format("Megatron-LM has no --{}", shown(flag.written)),
                fmt::format("write --{}", name));
      if (const auto instead = left_out(name)) {
        if (matters(flag)) assume(fmt::format("--{}: {}", name, *instead));
        continue;
      }
      if (!is_known(name)) remark(Remark::Kind::unknown, flag, "is not known here");
    }
    for (const Remark& one : result_.remarks)
      if (one.kind == Remark::Kind::ambiguous)
        assume(fmt::format("--{} (line {}): {}", shown(one.flag), one.line, one.what));
  }

  /// Some values of these flags say nothing new.
  bool matters(const Flag& flag) const {
    const std::string value = flag.values.empty() ? "" : flag.values.front();
    if (flag.name == "cp-comm-type") return value != "p2p";
    if (flag.name == "moe-token-dispatcher-type") return value != "alltoall";
    if (flag.name == "cuda-graph-impl") return value != "none";
    return flag.name != "num-distributed-optimizer-instances" || value != "1";
  }

  /// Of flags that say the same as another, or a part of it.
  void place_settings() {
    auto& places = result_.origin.places;
    const auto same = [&](const char* setting, const char* flag) {
      if (const auto found = places.find(flag); found != places.end())
        places.try_emplace(setting, found->second);
    };
    same("num-virtual-stages-per-pipeline-rank", "num-layers-per-virtual-pipeline-stage");
    same("pipeline-model-parallel-size", "num-layers");
    same("vocab-size", "padded-vocab-size");
    same("global-batch-size", "micro-batch-size");
  }

  const std::string& file_;
  Flags flags_;
  std::vector<std::string_view> known_;
  Arguments result_;
};

}  // namespace

bool is_megatron(std::string_view text) {
  const auto has = [&](std::string_view flag) { return text.find(flag) != std::string_view::npos; };
  return has("--tensor-model-parallel-size") ||
         (has("--num-layers") && has("--hidden-size") && has("--num-attention-heads"));
}

Arguments inspect_arguments(std::string_view text, const std::string& file) {
  return Reader(read_shell(text, file), file).read();
}

Arguments read_arguments(std::string_view text, const std::string& file) {
  Arguments arguments = inspect_arguments(text, file);
  if (arguments.problems.empty()) return arguments;
  const Problem& first = arguments.problems.front();
  throw Error({.where = arguments.origin.place_of(first.flag),
               .what = first.what,
               .way_out = first.way_out});
}

}  // namespace shardscope::megatron
