#include "cli/job_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string_view>

#include "cli/pytorch_options.h"
#include "core/base/error.h"
#include "core/native/native_abilities.h"
#include "core/schedule/strategy.h"

namespace shardscope {
namespace {

/// Larger sizes are typing errors, and products of them would overflow.
constexpr std::int64_t largest_size = std::int64_t{1} << 31;

constexpr std::int64_t most_stages_per_rank = 1024;  // as of the job's key

void set_size(const std::optional<std::int64_t>& option, std::string_view name, std::int64_t& value,
              std::int64_t most = largest_size - 1) {
  if (!option) return;
  if (*option < 1 || *option > most) {
    throw Error({.where = std::string(name),
                 .what = fmt::format("expected 1 to {}, got {}", most, *option)});
  }
  value = *option;
}

void apply_strategy(const JobOptions& options, Strategy& strategy) {
  if (options.runtime) strategy.runtime = parse_runtime(*options.runtime, "--runtime");
  if (options.strategy == "pipeline")
    throw Error(
        {.where = "--strategy",
         .what = "a pipeline is an axis of the mesh, and --strategy is what its stages shard",
         .way_out = "give for example --mesh pipeline=2 --strategy no_shard"});
  if (options.strategy) {
    strategy.sharding = parse_sharding_strategy(*options.strategy, "--strategy");
    strategy.mesh = {};  // the job's mesh belongs to the job's strategy
  }
  if (options.mesh) strategy.mesh = parse_mesh(*options.mesh, "--mesh");
  if (options.wrap) strategy.wrap = parse_wrap(*options.wrap, "--wrap");
  if (options.checkpointing)
    strategy.checkpointing = parse_checkpointing(*options.checkpointing, "--checkpointing");
  if (options.prefetch) strategy.prefetch = parse_prefetching(*options.prefetch, "--prefetch");
  if (options.offload) strategy.offload = parse_offload(*options.offload, "--offload");
  if (options.precision) strategy.precision = parse_precision(*options.precision, "--precision");
}

void apply_pipeline(const JobOptions& options, Job& job) {
  PipelineChoice& pipeline = job.pipeline;
  if (options.pipeline_schedule)
    pipeline.schedule = parse_pipeline_schedule(*options.pipeline_schedule, "--pipeline-schedule");
  if (options.pipeline_stages)
    parse_stages(*options.pipeline_stages, "--pipeline-stages", pipeline);
  if (options.pipeline_checkpoint)
    pipeline.checkpoint =
        parse_pipeline_checkpoint(*options.pipeline_checkpoint, "--pipeline-checkpoint");
  std::int64_t stages = pipeline.stages_per_rank;
  set_size(options.stages_per_rank, "--stages-per-rank", stages, most_stages_per_rank);
  pipeline.stages_per_rank = static_cast<int>(stages);
  const bool asked = options.pipeline_schedule || options.pipeline_stages ||
                     options.stages_per_rank || options.pipeline_checkpoint;
  if (asked && job.strategy.mesh.pipeline == 1) {
    throw Error({.where = options.pipeline_schedule     ? "--pipeline-schedule"
                          : options.pipeline_stages     ? "--pipeline-stages"
                          : options.pipeline_checkpoint ? "--pipeline-checkpoint"
                                                        : "--stages-per-rank",
                 .what = "the mesh has no pipeline",
                 .way_out = "give for example --mesh pipeline=2"});
  }
}

void apply_optimizer(const JobOptions& options, Job& job) {
  if (options.optimizer) job.optimizer.kind = parse_optimizer(*options.optimizer, "--optimizer");
  if (!options.clip) return;
  if (!std::isfinite(*options.clip) || *options.clip < 0) {
    throw Error({.where = "--clip",
                 .what = fmt::format("expected a norm of 0 or more, got {}", *options.clip),
                 .way_out = "0 turns clipping off"});
  }
  job.clip = *options.clip;
}

}  // namespace

void declare_job_options(Command& command, JobOptions& options) {
  command.heading("What is trained");
  command.option("--job", options.job, {"FILE", "a job file; the options below override its keys"});
  command.option(
      "--model", options.model,
      {"PATH", "Hugging Face folder or config.json, our export, safetensors or their index"});
  command.option("--batch", options.batch,
                 {"B", "sequences per rank and micro-batch (default: 1)"});
  command.option("--seq", options.seq, {"T", "tokens of a sequence (default: 128)"});
  command.option("--accumulate", options.accumulate, {"K", "micro-batches of a step (default: 1)"});
  command.option("--tokens-per-batch", options.tokens_per_batch,
                 {"N", "tokens of a step of all ranks; sets K"});
  command.option("--optimizer", options.optimizer,
                 {"NAME", fmt::format("adamw (default) or sgd; under PyTorch's runtimes {}. Other "
                                      "settings come from the job",
                                      pytorch_optimizer_names())});
  command.option("--clip", options.clip,
                 {"NORM", "largest gradient norm (default: 1); 0 turns clipping off"});
  command.option("--seed", options.seed, {"N", "seed of the initial weights"});
  command.option("--precision", options.precision,
                 {"fp32|bf16|bf16_mixed|fp16_mixed",
                  "element types of compute, master copy and states (default: fp32); fp16_mixed "
                  "under PyTorch's runtimes only"});

  command.heading("How");
  command.option("--strategy", options.strategy, {"NAME", names_of(native_abilities().strategies)});
  command.option(
      "--mesh", options.mesh,
      {"AXES",
       "such as replicate=2,shard=4 or pipeline=2,shard=4; the hybrids need it. fsdp2 also "
       "has tensor (transformers' tp_plan), torchtitan context, tensor and expert"});
  command.option("--pipeline-schedule", options.pipeline_schedule,
                 {"NAME",
                  "order of a pipeline: GPipe, 1F1B (default), Interleaved1F1B, LoopedBFS, "
                  "InterleavedZeroBubble, ZBVZeroBubble, DualPipeV; --accumulate says how many "
                  "micro-batches"});
  command.option(
      "--pipeline-stages", options.pipeline_stages,
      {"layers|work|time|memory|N,N,...|torchtitan[:IN,OUT[,LAYERS]]",
       "deals layers out to stages: as many each (default but under torchtitan), as many "
       "matrix elements each, by predicted time or memory, or as given. torchtitan, the "
       "default under that runtime: embedding and output count as IN and OUT layers (1 "
       "each), and a stage has LAYERS of them where that is given"});
  command.option("--pipeline-checkpoint", options.pipeline_checkpoint,
                 {"never|except_last|always",
                  "micro-batches of GPipe whose stages run their whole forward again before the "
                  "backward, as in PyTorch's Pipe (default: never)"});
  command.option("--stages-per-rank", options.stages_per_rank,
                 {"N",
                  "stages of a rank under the interleaved schedules and LoopedBFS; 2 under the "
                  "V-shaped ones"});
  command.option("--wrap", options.wrap,
                 {"POLICY",
                  "transformer, size:N (elements), none, blocks:0+3,1+2 (units by hand; the native "
                  "runtime only)"});
  command.option("--prefetch", options.prefetch,
                 {"on|off|LIST",
                  "gathers the next unit while the current one computes; LIST: forward=K units "
                  "ahead, backward_pre=K or backward_post=K, limit=N units gathered at once"});
  command.option("--offload", options.offload,
                 {"none|optimizer|all",
                  "keeps optimizer states, or parameters as well, in the host's memory and updates "
                  "them there (native runtime; PyTorch's runtimes have it in their own files)"});
  command.option("--checkpointing", options.checkpointing,
                 {"none|full|every:K|selective|reentrant|reentrant:K",
                  "full: computes each block again in its backward; every:K: every K-th block; "
                  "selective: keeps outputs of matrix products and attention, computes the rest "
                  "again; the native runtime also has first:N and selective+first:N, PyTorch's "
                  "runtimes reentrant and reentrant:K: transformers' use_reentrant"});
  command.option(
      "--memory-budget", options.memory_budget,
      {"SIZE",
       "chooses the least recomputation whose arena is within SIZE, such as 16GiB (native "
       "runtime only)"});
}

void declare_native_training(Command& command) {
  command.fixed("--dropout", "off", {"off", "the native runtime has no other"});
  command.fixed("--loss", "outside",
                {"outside", "cross-entropy after the model; the native runtime has no other"});
}

void declare_native_only(Command& command) {
  declare_native_training(command);
  command.fixed("--runtime", "native", {"native", "`shardscope simulate` has the others too"});
  command.fixed("--transformers", "5", {"5", "`shardscope model` has 4 too"});
  constexpr std::string_view not_run = "PyTorch's runtimes are not run";
  constexpr std::string_view say_it =
      "say it with --strategy, --mesh and --wrap for the native runtime; `shardscope simulate` "
      "predicts what such a file does";
  command.not_yet("--accelerate", not_run, say_it);
  command.not_yet("--deepspeed", not_run, say_it);
  command.not_yet("--training-arguments", not_run, say_it);
  constexpr std::string_view leave_out = "leave it out: the runtime is native";
  command.not_yet("--pytorch", not_run, leave_out);
  command.not_yet("--attention", not_run, leave_out);
  command.not_yet("--optimizer-implementation", not_run, leave_out);
}

namespace {

/// "Qwen/Qwen2.5-0.5B" is a name on the Hub, where there is no such path.
void refuse_name_on_hub(const std::string& model) {
  const std::filesystem::path path(model);
  if (path.extension() == ".json" || path.extension() == ".safetensors") return;
  const bool has_form = std::ranges::count(model, '/') == 1 && !model.starts_with('.') &&
                        !model.starts_with('/') && !model.ends_with('/');
  std::error_code ignored;
  if (!has_form || std::filesystem::exists(path.parent_path(), ignored)) return;
  throw Error({.where = "--model",
               .what = fmt::format("there is no folder {}, and nothing is downloaded", model),
               .way_out = fmt::format("run `hf download {} config.json --local-dir {}`, and give "
                                      "that folder",
                                      model, path.filename().string())});
}

}  // namespace

Job job_of(const JobOptions& options) {
  Job job = options.job ? read_job(*options.job) : Job{};
  if (options.model) {
    refuse_name_on_hub(*options.model);
    job.model = *options.model;
  }
  set_size(options.batch, "--batch", job.batch);
  set_size(options.seq, "--seq", job.seq);
  set_size(options.steps, "--steps", job.steps);
  std::int64_t accumulate = job.accumulate;
  set_size(options.accumulate, "--accumulate", accumulate);
  job.accumulate = static_cast<int>(accumulate);
  if (options.seed) {
    if (*options.seed < 0) {
      throw Error(
          {.where = "--seed", .what = fmt::format("expected 0 or more, got {}", *options.seed)});
    }
    job.seed = static_cast<std::uint64_t>(*options.seed);
  }
  apply_optimizer(options, job);
  apply_strategy(options, job.strategy);
  if (options.memory_budget) {
    job.memory_budget = parse_bytes(*options.memory_budget, "--memory-budget");
    if (job.memory_budget.count == 0)
      throw Error({.where = "--memory-budget", .what = "expected a size above 0, got 0 B"});
  }
  apply_pipeline(options, job);
  job.precision_given = job.precision_given || options.precision.has_value();
  return job;
}

void apply_tokens_per_batch(const JobOptions& options, int world, Job& job) {
  if (!options.tokens_per_batch) return;
  std::int64_t wanted = 0;
  set_size(options.tokens_per_batch, "--tokens-per-batch", wanted);
  // Stages share the sequences of a micro-batch.
  const int stages = job.strategy.mesh.pipeline;
  const int copies = std::max(1, world / stages);
  const double micro_batch = static_cast<double>(job.batch) * static_cast<double>(job.seq) * copies;
  const double times = static_cast<double>(wanted) / micro_batch;
  if (times < 1 || times != std::floor(times)) {
    throw Error({.where = "--tokens-per-batch",
                 .what = fmt::format("{} tokens are not a whole number of micro-batches of {} "
                                     "sequences x {} tokens x {} {}",
                                     wanted, job.batch, job.seq, copies,
                                     stages > 1 ? "ranks of a stage" : "ranks"),
                 .way_out = fmt::format("give a multiple of {:.0f}", micro_batch)});
  }
  if (options.accumulate && *options.accumulate != static_cast<std::int64_t>(times)) {
    throw Error({.where = "--tokens-per-batch",
                 .what = fmt::format("{} tokens are {:.0f} micro-batches, --accumulate says {}",
                                     wanted, times, *options.accumulate),
                 .way_out = "give one of the two"});
  }
  job.accumulate = static_cast<int>(times);
}

std::vector<std::string> assumptions(const JobOptions& options, const Job& job) {
  if (options.job) return {};
  std::vector<std::string> result;
  const auto assume = [&](bool given, std::string text) {
    if (!given) result.push_back(std::move(text));
  };
  assume(options.batch.has_value(), fmt::format("batch {} (--batch)", job.batch));
  assume(options.seq.has_value(), fmt::format("sequences of {} tokens (--seq)", job.seq));
  assume(options.strategy.has_value(),
         fmt::format("strategy {} (--strategy)", name_of(job.strategy.sharding)));
  assume(options.optimizer.has_value(),
         fmt::format("optimizer {} (--optimizer)", name_of(job.optimizer.kind)));
  return result;
}

}  // namespace shardscope
