// Settings of a DeepSpeed configuration that contradict one another or the run.
#include <fmt/format.h>

#include "core/base/refusal.h"
#include "core/config/deepspeed/batch_sizes.h"
#include "core/config/deepspeed/lint_rules.h"
#include "core/config/values/python_arithmetic.h"

namespace shardscope {
namespace {

using Entry = ConfigValue::Entry;

constexpr std::int64_t large_model_elements = 10'000'000'000;

void add_batch(const DeepSpeedLint& lint, const std::string& message, const std::string& mend) {
  const Entry* entry = entry_of(lint.config, "train_batch_size");
  if (entry == nullptr) entry = entry_of(lint.config, "train_micro_batch_size_per_gpu");
  lint.findings.add(
      {.rule = "batch-size", .severity = Severity::error, .message = message, .mend = mend},
      entry != nullptr ? entry->line : 0, "train_batch_size");
}

/// Sizes that no number of ranks makes right: texts, and numbers below 1.
bool has_impossible_batch(const DeepSpeedLint& lint) {
  bool found = false;
  for (const char* key :
       {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}) {
    const Entry* entry = entry_of(lint.config, key);
    if (entry == nullptr) continue;
    const ConfigValue& value = entry->value;
    if (!value.is_string() && !(value.is_number() && value.number() < 1)) continue;
    found = true;
    lint.findings.add(
        {.rule = "batch-size",
         .severity = Severity::error,
         .message = fmt::format("expected a whole number above 0, got {}", value.repr()),
         .mend = "write the number of sequences or steps"},
        *entry, "");
  }
  return found;
}

/// Without a world only what holds for every world is asked.
void lint_batch(const DeepSpeedLint& lint) {
  const DeepSpeedBatch batch{.train = lint.config.get("train_batch_size"),
                             .micro = lint.config.get("train_micro_batch_size_per_gpu"),
                             .accumulation = lint.config.get("gradient_accumulation_steps")};
  for (const ConfigValue* value : {&batch.train, &batch.micro, &batch.accumulation})
    if (value->is("auto")) return;
  if (!lint.run.world && has_impossible_batch(lint)) return;
  if (batch.train.is_null() && batch.micro.is_null())
    return add_batch(lint,
                     "neither train_batch_size nor train_micro_batch_size_per_gpu is given: plain "
                     "DeepSpeed refuses the file, and the Trainer fills in only what says \"auto\"",
                     "add \"train_micro_batch_size_per_gpu\"");
  const bool whole = batch.train.is_integer() && batch.micro.is_integer() &&
                     (batch.accumulation.is_integer() || batch.accumulation.is_null());
  if (!lint.run.world) {
    if (!whole || batch.micro.integer() <= 0) return;
    const std::int64_t steps = batch.accumulation.is_null() ? 1 : batch.accumulation.integer();
    const std::int64_t per_rank = batch.micro.integer();
    if (steps <= 0 || batch.train.integer() / per_rank % steps != 0 ||
        batch.train.integer() % per_rank != 0)
      return add_batch(lint,
                       "train_batch_size is no multiple of train_micro_batch_size_per_gpu * "
                       "gradient_accumulation_steps, for no number of ranks",
                       "drop one of the three");
    return;
  }
  const std::int64_t world = *lint.run.world;
  try {
    ConfigValue ranks = world;
    if (lint.config.has("sequence_parallel_size"))
      ranks = divided(ranks, lint.config.at("sequence_parallel_size"));
    completed_batch(batch, ranks);
  } catch (const Error& error) {
    add_batch(lint, fmt::format("on {} ranks DeepSpeed refuses it: {}", world, error.parts().what),
              error.parts().way_out.empty() ? "drop one of the three" : error.parts().way_out);
  }
}

bool enabled(const ConfigValue& config, std::string_view section) {
  const ConfigValue* value = config.find(section);
  return value != nullptr && value->is_dict() && value->get("enabled") == ConfigValue(true);
}

void lint_precision(const DeepSpeedLint& lint) {
  const Entry* fp16 = entry_of(lint.config, "fp16");
  const Entry* bf16 = entry_of(lint.config, "bf16");
  if (bf16 == nullptr) bf16 = entry_of(lint.config, "bfloat16");
  if (fp16 == nullptr || bf16 == nullptr || !enabled(lint.config, "fp16") ||
      !enabled(lint.config, bf16->key))
    return;
  lint.findings.add({.rule = "two-precisions",
                     .severity = Severity::error,
                     .message = "fp16 and bf16 are both enabled, which DeepSpeed refuses",
                     .mend = "enable only one of them"},
                    bf16->line > fp16->line ? *bf16 : *fp16, "");
}

void lint_hpz(const DeepSpeedLint& lint) {
  if (lint.stage() != 3) return;
  const Entry* entry = entry_of(lint.zero(), "zero_hpz_partition_size");
  if (entry == nullptr || !entry->value.is_integer() || entry->value.integer() <= 1) return;
  const std::int64_t size = entry->value.integer();
  const auto add = [&](Severity severity, std::string message, std::string mend) {
    lint.findings.add({.rule = "hpz-size",
                       .severity = severity,
                       .message = std::move(message),
                       .mend = std::move(mend)},
                      *entry, "zero_optimization");
  };
  if (lint.run.world && *lint.run.world % size != 0)
    add(Severity::error, fmt::format("{} does not divide {} ranks", size, *lint.run.world),
        "give the GPUs of one node");
  else if (lint.run.world && size >= *lint.run.world)
    add(Severity::warning,
        "on one node the second copy of the parameters costs memory and saves no traffic",
        "remove it");
  else if (lint.run.ranks_per_node && size != *lint.run.ranks_per_node)
    add(Severity::warning,
        fmt::format("a node has {} GPUs: groups of {} do not stay within nodes",
                    *lint.run.ranks_per_node, size),
        fmt::format("write {}", *lint.run.ranks_per_node));
}

void lint_saving(const DeepSpeedLint& lint) {
  if (lint.stage() != 3) return;
  const std::string_view key = "stage3_gather_16bit_weights_on_model_save";
  const Entry* entry = entry_of(lint.zero(), key);
  const bool gathers = entry != nullptr && entry->value == ConfigValue(true);
  if (gathers && lint.run.model_elements && *lint.run.model_elements >= large_model_elements)
    lint.findings.add(
        {.rule = "full-weights",
         .message = fmt::format("every save gathers the whole model on one rank: {:.0f} GiB in 16 "
                                "bits",
                                static_cast<double>(*lint.run.model_elements) * 2 / (1 << 30)),
         .mend = "save shards, and merge them with zero_to_fp32.py"},
        *entry, "zero_optimization");
  if (!gathers && (entry == nullptr || !entry->value.is("auto")))
    lint.findings.add({.rule = "weights-not-gathered",
                       .severity = Severity::note,
                       .message = "stage 3 saves no model of its own: save_16bit_model and "
                                  "save_pretrained write only shards to be merged",
                       .mend = "set it to true, or merge checkpoints with zero_to_fp32.py"},
                      entry != nullptr ? entry->line : 0, "zero_optimization." + std::string(key));
}

void lint_optimizer(const DeepSpeedLint& lint) {
  const Entry* entry = entry_of(lint.config, "optimizer");
  if (entry == nullptr) return;
  lint.findings.add({.rule = "optimizer-in-file",
                     .severity = Severity::note,
                     .message = "under accelerate a script with an optimizer of its own is refused "
                                "then",
                     .mend = "use accelerate.utils.DummyOptim in the script, or remove it here"},
                    *entry, "");
}

void lint_zero_for_accelerate(const DeepSpeedLint& lint) {
  if (lint.config.has("zero_optimization")) return;
  lint.findings.add({.rule = "no-zero-section",
                     .severity = Severity::note,
                     .message = "without zero_optimization DeepSpeed shards nothing (stage 0), and "
                                "accelerate refuses the file",
                     .mend = "add \"zero_optimization\": {\"stage\": 2}"},
                    0, "zero_optimization");
}

}  // namespace

void lint_together(const DeepSpeedLint& lint) {
  lint_batch(lint);
  lint_precision(lint);
  lint_hpz(lint);
  lint_saving(lint);
  lint_optimizer(lint);
  lint_zero_for_accelerate(lint);
}

}  // namespace shardscope
