#include "cli/megatron_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "cli/on_off.h"
#include "cli/refused_option.h"
#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/config/megatron/model_shape.h"
#include "core/model/huggingface.h"
#include "core/pipeline/pipeline_schedule.h"

namespace shardscope {
namespace {

using megatron::Attention;
using megatron::Settings;

Error mesh_error(std::string what) {
  return Error({.where = "--mesh",
                .what = std::move(what),
                .way_out = "give axes as in tensor=8,pipeline=4,shard=2, of tensor, pipeline, "
                           "context, shard or replicate, and expert"});
}

/// Sizes of --mesh; 0: not named.
struct Axes {
  int tensor = 0, pipeline = 0, context = 0, shard = 0, replicate = 0, expert = 0;
};

int* axis_of(Axes& axes, std::string_view word) {
  const std::pair<std::string_view, int*> known[] = {
      {"tensor", &axes.tensor}, {"pipeline", &axes.pipeline},   {"context", &axes.context},
      {"shard", &axes.shard},   {"replicate", &axes.replicate}, {"expert", &axes.expert}};
  for (const auto& [name, size] : known)
    if (name == word) return size;
  return nullptr;
}

Axes parse_axes(std::string_view text) {
  Axes axes;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::string_view word = part.substr(0, part.find('='));
    int* axis = axis_of(axes, word);
    if (axis == nullptr)
      throw mesh_error(fmt::format(
          "\"{}\" is none of tensor, pipeline, context, shard, replicate, expert", word));
    if (*axis != 0) throw mesh_error(fmt::format("axis {} stands twice", word));
    if (part.size() == word.size()) throw mesh_error(fmt::format("axis {} has no size", word));
    const std::string_view size = part.substr(word.size() + 1);
    const auto [end, code] = std::from_chars(size.data(), size.data() + size.size(), *axis);
    constexpr int most = 1 << 20;
    if (code != std::errc() || end != size.data() + size.size() || *axis < 1 || *axis > most)
      throw mesh_error(fmt::format("axis {} has size \"{}\"", word, size));
  }
  return axes;
}

/// Puts together settings from a command line and from options, which go before it.
class Resolver {
 public:
  Resolver(const PytorchQuestion& q, const std::optional<megatron::Arguments>& arguments,
           const std::string& file)
      : q_(q), arguments_(arguments) {
    origin_.otherwise = file.empty() ? "--runtime megatron" : file;
    if (!arguments_) return;
    scenario_.settings = arguments_->settings;
    scenario_.assumed = arguments_->assumed;
    origin_ = arguments_->origin;
  }

  MegatronScenario resolve() {
    refuse_foreign_to_megatron(q_);
    take_length();
    take_model();
    take_megatron_dropout(q_.pytorch.dropout, q_.job.model.has_value(), s());
    take_mesh();
    take_strategy();
    take_overlap();
    turn_off_sequence_parallel();
    take_precision();
    take_kernels();
    take_pipeline();
    take_batch();
    megatron::check(scenario_.settings, origin_);
    take_rank();
    return std::move(scenario_);
  }

 private:
  Settings& s() { return scenario_.settings; }
  void assume(std::string text) { scenario_.assumed.push_back(std::move(text)); }
  bool by_options() const { return !arguments_; }
  /// An option goes before the file's flags.
  void says(std::string_view option, std::initializer_list<const char*> flags) {
    for (const char* flag : flags) origin_.places[flag] = option;
  }

  void take_length() {
    if (q_.job.seq) {
      s().take_length(std::clamp<std::int64_t>(*q_.job.seq, 0, 1 << 30));
      says("--seq", {"seq-length"});
    } else if (s().shape.seq == 0) {
      throw Error({.where = origin_.otherwise,
                   .what = "the length of a sequence is not given",
                   .way_out = "give --seq, or --seq-length in the command line"});
    }
  }

  void take_model() {
    if (!q_.job.model) {
      if (!arguments_ || !arguments_->has_model)
        throw Error({.where = origin_.otherwise,
                     .what = "no model was given",
                     .way_out = "give --model, or --num-layers, --hidden-size and "
                                "--num-attention-heads in the command line"});
      scenario_.model = fmt::format("a decoder of {} layers", s().shape.layers);
      return;
    }
    const JsonValue config =
        JsonValue::read_file(config_path(*q_.job.model), DuplicateKeys::last_wins);
    scenario_.model = model_of_config(config).class_name;
    megatron::take_model(config, s());
    says("--model", {"num-layers", "hidden-size", "num-attention-heads", "num-query-groups",
                     "ffn-hidden-size", "kv-channels", "vocab-size", "num-experts"});
  }

  void take_mesh() {
    if (q_.job.mesh) return take_axes(parse_axes(*q_.job.mesh));
    if (q_.place.world) {
      s().world = static_cast<int>(std::clamp<std::int64_t>(*q_.place.world, 0, 1 << 21));
      says("--world", {"nproc-per-node"});
    } else if (!arguments_ || !arguments_->has_world) {
      throw Error({.where = origin_.otherwise,
                   .what = "the number of ranks is not given",
                   .way_out = "give --world, or --mesh such as tensor=8,pipeline=4,shard=2"});
    }
  }

  void take_axes(const Axes& axes) {
    says("--mesh", {"tensor-model-parallel-size", "pipeline-model-parallel-size",
                    "context-parallel-size", "expert-model-parallel-size", "nproc-per-node"});
    s().tensor = std::max(1, axes.tensor);
    s().pipeline = std::max(1, axes.pipeline);
    s().context = std::max(1, axes.context);
    s().expert = std::max(1, axes.expert);
    if (axes.shard > 0 && axes.replicate > 0)
      throw mesh_error(
          "Megatron-LM's data-parallel ranks either share optimizer states (shard) "
          "or do not (replicate)");
    const std::int64_t parts = std::int64_t{s().tensor} * s().pipeline;
    const std::int64_t data = std::max({1, axes.shard, axes.replicate});
    constexpr std::int64_t most = 1 << 20;
    if (parts > most || parts * s().context > most || parts * s().context * data > most)
      throw mesh_error(fmt::format("its axes multiply to more than {} ranks", most));
    const std::int64_t named = parts * s().context * data;
    const bool free = axes.shard == 0 && axes.replicate == 0;
    const std::int64_t world = q_.place.world.value_or(named);
    if (world < 1 || world > most || (free ? world % named != 0 : world != named))
      throw mesh_error(
          fmt::format("its axes multiply to {} ranks and --world is {}", named, world));
    s().world = static_cast<int>(world);
    if (!free) mesh_shards_ = axes.shard > 0;
  }

  /// The distributed optimizer: by --strategy, by the mesh's axis, else by the file's flag.
  void take_strategy() {
    const auto& strategy = q_.job.strategy;
    if (strategy && *strategy != "zero1" && *strategy != "no_shard")
      throw Error({.where = "--strategy",
                   .what = fmt::format("Megatron-LM has no \"{}\"", *strategy),
                   .way_out = "give zero1 (the distributed optimizer) or no_shard"});
    std::optional<bool> shards = mesh_shards_;
    if (strategy) shards = *strategy == "zero1";
    if (strategy && mesh_shards_ && *mesh_shards_ != *shards)
      throw Error({.where = "--strategy",
                   .what = fmt::format("{} is given, and --mesh says {}", *strategy,
                                       *mesh_shards_ ? "shard" : "replicate"),
                   .way_out = fmt::format("give {} in --mesh, or --strategy {}",
                                          *shards ? "shard" : "replicate",
                                          *mesh_shards_ ? "zero1" : "no_shard")});
    if (!shards && by_options()) {
      shards = true;
      assume("the distributed optimizer (without: --strategy no_shard)");
    }
    if (shards) s().distributed_optimizer = *shards;
  }

  void take_overlap() {
    if (by_options() && s().tensor > 1) {
      s().sequence_parallel = true;
      assume("sequence parallelism beside tensor parallelism (--sequence-parallel in --config)");
    }
    if (by_options() && s().distributed_optimizer) {
      s().overlaps_gradients = s().overlaps_parameters = true;
      assume("--overlap-grad-reduce and --overlap-param-gather beside the distributed optimizer");
    }
    const bool taken_away =
        arguments_ && arguments_->settings.distributed_optimizer && !s().distributed_optimizer;
    if (!taken_away || !s().overlaps_parameters) return;
    s().overlaps_parameters = false;
    assume("no --overlap-param-gather: the options leave the distributed optimizer out");
  }

  /// Source: Megatron-LM arguments.py, validate_args: a warning, and the training goes on.
  void turn_off_sequence_parallel() {
    if (!s().sequence_parallel || s().tensor > 1) return;
    s().sequence_parallel = false;
    assume("no sequence parallelism: Megatron-LM turns it off without tensor parallelism");
  }

  void take_precision() {
    if (by_options() && !q_.job.precision) assume("precision bf16_mixed (--precision)");
    if (q_.job.precision) {
      s().parameters = megatron_dtype(*q_.job.precision);
    }
    if (!q_.pytorch.float8) return;
    const std::string& name = *q_.pytorch.float8;
    if (name != "delayed" && name != "tensorwise")
      throw Error({.where = "--float8",
                   .what = fmt::format("Transformer Engine has no \"{}\" here", name),
                   .way_out = "give delayed or tensorwise (--fp8-recipe)"});
    s().float8 = name == "delayed" ? megatron::Float8::delayed : megatron::Float8::current;
  }

  void take_kernels() {
    if (q_.job.checkpointing) {
      const std::string& name = *q_.job.checkpointing;
      using megatron::Recompute;
      const auto all = {Recompute::none, Recompute::selective, Recompute::full};
      const auto found = std::ranges::find(all, name, [](Recompute one) { return name_of(one); });
      if (found == all.end())
        throw Error({.where = "--checkpointing",
                     .what = fmt::format("Megatron-LM has no \"{}\"", name),
                     .way_out = "give none, selective (core attention) or full"});
      s().recompute = *found;
      s().by_block = false;
      s().recompute_layers = 1;
      if (s().recompute != Recompute::full) s().distributes_recomputed = false;
    } else if (by_options()) {
      assume("no recomputation (--checkpointing)");
    }
    if (!q_.pytorch.attention) return;
    s().attention = megatron_attention(*q_.pytorch.attention);
  }

  void take_pipeline() {
    if (q_.job.stages_per_rank) {
      s().stages_per_rank =
          static_cast<int>(std::clamp<std::int64_t>(*q_.job.stages_per_rank, 0, 1 << 20));
      says("--stages-per-rank", {"num-virtual-stages-per-pipeline-rank"});
    }
    if (!q_.job.pipeline_schedule) return;
    const PipelineScheduleKind kind =
        parse_pipeline_schedule(*q_.job.pipeline_schedule, "--pipeline-schedule");
    const bool interleaved = kind == PipelineScheduleKind::interleaved_1f1b;
    if (!interleaved && kind != PipelineScheduleKind::one_f_one_b)
      throw Error({.where = "--pipeline-schedule",
                   .what = fmt::format("Megatron-LM has no {}", name_of(kind)),
                   .way_out = "give 1F1B or Interleaved1F1B"});
    if (s().pipeline == 1)
      throw Error({.where = "--pipeline-schedule",
                   .what = "the mesh has no pipeline",
                   .way_out = "give for example --mesh pipeline=2"});
    if (interleaved && s().stages_per_rank == 1) {
      s().stages_per_rank = 2;
      assume("2 virtual stages a rank (--stages-per-rank)");
    }
    if (!interleaved && s().stages_per_rank > 1)
      throw Error(
          {.where = "--pipeline-schedule",
           .what = fmt::format("1F1B has one stage a rank, and {} are given", s().stages_per_rank),
           .way_out = "give Interleaved1F1B"});
  }

  void take_batch() {
    if (q_.job.batch) {
      s().micro_batch = std::clamp<std::int64_t>(*q_.job.batch, 0, 1 << 30);
      says("--batch", {"micro-batch-size"});
    }
    if (by_options() && !q_.job.batch) assume("batch 1 (--batch)");
    megatron::check(s(), origin_, false);  // a number of sequences is counted with the rest
    if (q_.job.accumulate) take_accumulate(*q_.job.accumulate);
    if (!q_.job.tokens_per_batch) return;
    const std::int64_t tokens = *q_.job.tokens_per_batch;
    const std::int64_t at_once = s().micro_batch * s().data() * s().shape.seq;
    if (tokens < at_once || tokens % at_once != 0)
      throw Error({.where = "--tokens-per-batch",
                   .what = fmt::format("{} tokens are not a whole number of micro-batches of {} "
                                       "sequences x {} tokens x {} data-parallel ranks",
                                       tokens, s().micro_batch, s().shape.seq, s().data()),
                   .way_out = fmt::format("give a multiple of {}", at_once)});
    if (q_.job.accumulate && s().global_batch * s().shape.seq != tokens)
      throw Error({.where = "--tokens-per-batch",
                   .what = fmt::format("{} tokens are {} micro-batches, --accumulate says {}",
                                       tokens, tokens / at_once, *q_.job.accumulate),
                   .way_out = "give one of the two"});
    s().global_batch = tokens / s().shape.seq;
    says("--tokens-per-batch", {"global-batch-size"});
  }

  void take_accumulate(std::int64_t micro_batches) {
    constexpr std::int64_t most = 1 << 24;
    const std::int64_t at_once = s().micro_batch * s().data();
    if (micro_batches < 1 || micro_batches > most / at_once)
      throw Error(
          {.where = "--accumulate",
           .what = fmt::format("{} micro-batches of {} sequences on {} data-parallel ranks "
                               "are not 1 to {} sequences",
                               micro_batches, s().micro_batch, s().data(), most),
           .way_out = fmt::format("give 1 to {}", std::max<std::int64_t>(1, most / at_once))});
    s().global_batch = at_once * micro_batches;
    says("--accumulate", {"global-batch-size"});
  }

  void take_rank() {
    const std::int64_t rank = q_.place.rank.value_or(0);
    if (rank < 0 || rank >= s().world)
      throw Error({.where = "--rank",
                   .what = fmt::format("expected 0 to {}, got {}", s().world - 1, rank)});
    scenario_.rank = static_cast<int>(rank);
  }

  const PytorchQuestion& q_;
  const std::optional<megatron::Arguments>& arguments_;
  megatron::Origin origin_;
  std::optional<bool> mesh_shards_;  ///< by its axis shard, or replicate; none: neither is named
  MegatronScenario scenario_;
};

std::string text_of_mesh(const Settings& s) {
  std::string text;
  const auto add = [&](std::string_view word, int size) {
    if (size > 1) text += fmt::format("{}{}={}", text.empty() ? "" : ",", word, size);
  };
  add("tensor", s.tensor);
  add("context", s.context);
  add("pipeline", s.pipeline);
  add(s.distributed_optimizer ? "shard" : "replicate", s.data());
  add("expert", s.expert);
  return text.empty() ? "one rank" : text;
}

}  // namespace

void refuse_foreign_to_megatron(const PytorchQuestion& q) {
  refuse_if(q.sharding.names_file(), "--runtime megatron",
            "a configuration file of another program says how it shards");
  refuse_if(q.job.wrap.has_value(), "--wrap", "Megatron-LM has no units to wrap");
  refuse_if(q.job.prefetch.has_value(), "--prefetch", "Megatron-LM's own flags say what overlaps");
  refuse_if(q.job.memory_budget.has_value(), "--memory-budget",
            "it chooses the native runtime's checkpointing");
  refuse_if(q.job.offload.has_value(), "--offload",
            "offloading is not predicted under Megatron-LM");
  refuse_if(q.job.pipeline_stages.has_value(), "--pipeline-stages",
            "the command line of Megatron-LM says which ranks have other layers");
  refuse_if(q.job.pipeline_checkpoint.has_value(), "--pipeline-checkpoint", "it is of GPipe");
  refuse_if(q.pytorch.expert_load.has_value(), "--expert-load",
            "experts of Megatron-LM are predicted with equal loads");
  refuse_if(q.pytorch.compile.has_value(), "--compile", "Megatron-LM fuses by kernels of its own");
  refuse_if(q.pytorch.liger.value_or("off") != "off", "--liger", "Megatron-LM does not use Liger");
  refuse_if(q.pytorch.reference.has_value(), "--reference", "Megatron-LM pretrains without one");
  refuse_if(q.pytorch.prompt.has_value(), "--prompt", "all tokens have a label");
  refuse_if(q.pytorch.layers.has_value(), "--layers", "Megatron-LM's layers are its own");
  refuse_if(q.pytorch.transformers.has_value(), "--transformers",
            "Megatron-LM's layers are none of transformers");
  refuse_if(q.pytorch.loss && *q.pytorch.loss != "outside", "--loss",
            "Megatron-LM computes the loss after the output layer");
  refuse_if(q.pytorch.optimizer_implementation.has_value(), "--optimizer-implementation",
            "Megatron-LM's Adam is fused");
  refuse_if(q.job.optimizer && *q.job.optimizer != "adam" && *q.job.optimizer != "adamw",
            "--optimizer", "Megatron-LM is predicted with Adam");
  refuse_if(q.pytorch.fine_tuning.peft.has_value(), "--peft", "the whole model is trained here");
  refuse_if(q.pytorch.fine_tuning.quantization.has_value(), "--quantization",
            "the whole model is trained here");
  refuse_if(q.job.clip && *q.job.clip <= 0, "--clip",
            "a step of Megatron-LM is predicted with its gradients clipped");
  refuse_if(q.pytorch.fine_tuning.peft_version.has_value(), "--peft-version",
            "the whole model is trained here");
  refuse_if(q.sharding.accelerate_version.has_value(), "--accelerate-version",
            "accelerate takes no part here");
  refuse_if(q.sharding.ranks_per_node.has_value(), "--ranks-per-node", "nodes are the cluster's");
  refuse_if(q.sharding.use_orig_params, "--use-orig-params", "it is FSDP1's");
  refuse_if(q.pytorch.allocator.has_value(), "--allocator",
            "no allocator is played under Megatron-LM: its memory is that of tensors");
}

void take_megatron_dropout(const std::optional<std::string>& dropout, bool has_config,
                           megatron::Settings& settings) {
  if (!dropout) return;
  const bool is_on = parse_on_off(*dropout, "--dropout");
  if (is_on && !has_config) return;
  settings.hidden_dropout = settings.attention_dropout = is_on ? 0.1 : 0;
}

megatron::Attention megatron_attention(const std::string& name) {
  if (name != "flash" && name != "cudnn" && name != "eager")
    throw Error({.where = "--attention",
                 .what = fmt::format("\"{}\" is not predicted under Megatron-LM", name),
                 .way_out = "give cudnn (Transformer Engine's from Hopper on), flash or eager"});
  return name == "flash"   ? Attention::flash
         : name == "cudnn" ? Attention::engine
                           : Attention::unfused;
}

Dtype megatron_dtype(const std::string& precision) {
  if (precision != "fp32" && precision != "bf16_mixed" && precision != "fp16_mixed")
    throw Error({.where = "--precision",
                 .what = fmt::format("Megatron-LM has no \"{}\"", precision),
                 .way_out = "give bf16_mixed, fp16_mixed or fp32"});
  return precision == "fp32"         ? Dtype::float32
         : precision == "fp16_mixed" ? Dtype::float16
                                     : Dtype::bfloat16;
}

MegatronScenario resolve_megatron_scenario(const PytorchQuestion& question,
                                           const std::optional<megatron::Arguments>& arguments,
                                           const std::string& file) {
  return Resolver(question, arguments, file).resolve();
}

std::string unknown_flags(const megatron::Arguments& arguments) {
  std::string text;
  for (const megatron::Remark& one : arguments.remarks)
    if (one.kind == megatron::Remark::Kind::unknown)
      text += fmt::format("{}--{} (line {})", text.empty() ? "" : ", ", shown(one.flag), one.line);
  return text;
}

std::size_t own_stage(const MegatronScenario& scenario) {
  const Settings& s = scenario.settings;
  return static_cast<std::size_t>(scenario.rank / (s.world / s.pipeline));
}

std::string headline(const MegatronScenario& scenario) {
  const Settings& s = scenario.settings;
  const std::string stage = s.pipeline > 1 ? fmt::format(", rank {} (pipeline rank {})",
                                                         scenario.rank, own_stage(scenario))
                                           : "";
  const std::string_view precision = s.float8 != megatron::Float8::none ? "fp8"
                                     : s.parameters == Dtype::float32   ? "fp32"
                                     : s.parameters == Dtype::float16   ? "fp16_mixed"
                                                                        : "bf16_mixed";
  return fmt::format(
      "megatron{} of {} on {} rank{} ({}), batch {} x {} tokens x {} micro-batches, {}, "
      "recomputation {}{}",
      s.distributed_optimizer ? " with distributed optimizer" : "", scenario.model, s.world,
      s.world == 1 ? "" : "s", text_of_mesh(s), s.micro_batch, s.shape.seq, s.micro_batches(),
      precision, name_of(s.recompute), stage);
}

}  // namespace shardscope
