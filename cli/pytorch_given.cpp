#include "cli/pytorch_given.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/config/config_file.h"
#include "core/config/script_arguments.h"
#include "core/config/trainer/trainer_loop.h"
#include "core/config/workers.h"
#include "core/format/json_reader.h"
#include "core/native/job.h"

namespace shardscope {
namespace {

template <class Value, class Given>
void fill(std::optional<Value>& option, Given value) {
  if (!option) option = Value(std::move(value));
}

/// A job's pipeline is the native runtime's, as --mesh's is.
void refuse_pipeline(const JsonValue& file, const Job& job, const ShardingOptions& sharding,
                     const JobOptions& given) {
  if (job.strategy.mesh.pipeline == 1 || given.mesh || sharding.names_file()) return;
  throw file.at("mesh").error(
      fmt::format("{} has no pipeline axis", sharding.runtime.value_or("PyTorch's runtime")),
      "leave pipeline out, or give --mesh");
}

/// Keys of the job file that say how the native runtime shards; others mean the same everywhere.
void add_job(const ShardingOptions& sharding, PytorchGiven& given) {
  if (!given.job.job) return;
  const JsonValue file = JsonValue::read_file(*given.job.job);
  const Job job = read_job(*given.job.job);
  refuse_pipeline(file, job, sharding, given.job);
  // A job of another runtime was written by us: what a file beside it says, it says once more.
  const bool native = job.strategy.runtime == Runtime::native;
  std::vector<std::string_view> unused;
  const auto take = [&](std::string_view key, std::optional<std::string>& option,
                        std::string text) {
    if (!file.has(key) || option) return;
    if (sharding.names_file()) {
      if (native) unused.push_back(key);
    } else {
      option = std::move(text);
    }
  };
  // No option sets ZeRO-3's second copy within nodes: the place of the plan does.
  const bool is_place_of_hybrid = sharding.choice && job.strategy.runtime == Runtime::deepspeed &&
                                  is_hybrid(job.strategy.sharding);
  const ShardingStrategy strategy =
      is_place_of_hybrid ? ShardingStrategy::full_shard : job.strategy.sharding;
  const bool is_beside_file = job.strategy.mesh.pipeline > 1 && sharding.names_file();
  if (!given.job.strategy && (is_hybrid(strategy) || is_beside_file))
    take("mesh", given.job.mesh, text_of(job.strategy.mesh));
  // Beside an axis tensor the model's own fsdp_plan says both.
  if (!given.job.mesh || !has_axis_tensor(*given.job.mesh)) {
    take("strategy", given.job.strategy, std::string(name_of(strategy)));
    take("wrap", given.job.wrap, text_of(job.strategy.wrap));
  }
  if (!sharding.deepspeed)
    take("precision", given.job.precision,
         native ? std::string(name_of(job.strategy.precision)) : job.pytorch_precision);
  if (file.has("checkpointing") && (native || !sharding.names_file()))
    fill(given.job.checkpointing,
         native ? text_of(job.strategy.checkpointing) : job.pytorch_checkpointing);
  if (file.has("ranks")) fill(given.place.world, job.ranks);
  for (const std::string_view key :
       {"prefetch", "reduce_every_micro_batch", "offload", "memory_budget"})
    if (native && file.has(key)) unused.push_back(key);
  if (!unused.empty())
    given.notes.push_back(
        fmt::format("{} of {} not used", fmt::join(unused, ", "), *given.job.job));
}

void add_optimizer(const TrainerLoop& loop, std::string_view file, PytorchGiven& given) {
  if (!loop.optimizer && !given.job.optimizer)
    throw Error({.where = fmt::format("{}: optim", file),
                 .what = fmt::format("this optimizer is not simulated: {}", loop.named_optimizer),
                 .way_out = "write adamw_torch, adamw_torch_fused, sgd, adafactor or AdamW, Lion "
                            "or RMSprop of bitsandbytes, or give --optimizer"});
  if (given.job.optimizer) return;
  given.job.optimizer = loop.optimizer;
  if (!loop.implementation.empty())
    fill(given.pytorch.optimizer_implementation, loop.implementation);
}

void add_checkpointing(const TrainerLoop& loop, PytorchGiven& given) {
  if (loop.checkpoint_every == 0 || given.job.checkpointing) return;
  const bool all = loop.checkpoint_every == 1;
  const std::string which = all ? "" : fmt::format(":{}", loop.checkpoint_every);
  given.not_reentrant = all ? std::string("full") : "every" + which;
  given.job.checkpointing = loop.reentrant ? "reentrant" + which : *given.not_reentrant;
}

void add_training_arguments(const ShardingOptions& sharding, PytorchGiven& given) {
  if (!sharding.training_arguments && !sharding.recipe) return;
  const ConfigFile file =
      sharding.training_arguments
          ? read_config_file(*sharding.training_arguments, ConfigKind::training_arguments)
          : *sharding.recipe;
  given.pytorch.by_trainer = true;
  const TrainerLoop loop = trainer_loop(value_of(file), file.name());
  fill(given.job.batch, loop.batch);
  if (!given.job.tokens_per_batch) fill(given.job.accumulate, loop.micro_batches);
  add_checkpointing(loop, given);
  if (!loop.liger.empty()) fill(given.pytorch.liger, loop.liger);
  if (loop.eval_batch > 0) fill(given.pytorch.eval_batch, loop.eval_batch);
  if (!loop.uses_deepspeed) {
    fill(given.job.clip, loop.clip);
    add_optimizer(loop, file.name(), given);
  }
  if (!loop.defaults.empty())
    given.notes.push_back(
        fmt::format("{} as TrainingArguments' defaults", fmt::join(loop.defaults, ", ")));
  if (sharding.training_arguments)
    if (const auto own = script_arguments(file).own; !own.empty())
      given.notes.push_back(
          fmt::format("{} of {}: the script's own, not read", fmt::join(own, ", "), file.name()));
  if (!loop.unused.empty())
    given.notes.push_back(
        fmt::format("{} of {} not simulated", fmt::join(loop.unused, ", "), file.name()));
}

}  // namespace

PytorchGiven with_keys_of_files(const PytorchGiven& given, const ShardingOptions& sharding) {
  PytorchGiven result = given;
  add_job(sharding, result);
  add_training_arguments(sharding, result);
  return result;
}

}  // namespace shardscope
