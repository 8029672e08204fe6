#include "core/config/lint_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "core/base/nearest_word.h"
#include "core/base/refusal.h"

namespace shardscope {
namespace {

/// Findings about one file, with the line of the key that they are about.
class Report {
 public:
  Report(const ConfigFile& file, const ConfigValue& value) : file_(file), value_(value) {}

  /// `key` is dotted; where the file does not have it, the line of the nearest section above it.
  void add(Severity severity, std::string_view rule, const std::string& key, std::string message,
           std::string mend) {
    findings_.push_back({.rule = std::string(rule),
                         .severity = severity,
                         .file = file_.name(),
                         .line = line_of(key),
                         .key = key,
                         .message = std::move(message),
                         .mend = std::move(mend)});
  }
  std::vector<Finding> take() { return std::move(findings_); }

 private:
  /// A key of fsdp_config may be written without its prefix.
  static bool same_key(std::string_view written, std::string_view key) {
    return written == key || (key.starts_with("fsdp_") && written == key.substr(5));
  }

  int line_of(std::string_view key) const {
    const ConfigValue* section = &value_;
    int line = 0;
    while (section && section->is_dict() && !key.empty()) {
      const std::size_t dot = std::min(key.find('.'), key.size());
      const ConfigValue* next = nullptr;
      for (const ConfigValue::Entry& entry : section->entries()) {
        if (!same_key(entry.key, key.substr(0, dot))) continue;
        line = entry.line;
        next = &entry.value;
      }
      section = next;
      key.remove_prefix(std::min(dot + 1, key.size()));
    }
    return line;
  }

  const ConfigFile& file_;
  const ConfigValue& value_;
  std::vector<Finding> findings_;
};

constexpr const char* wrap_key = "fsdp_config.fsdp_auto_wrap_policy";
constexpr const char* classes_key = "fsdp_config.fsdp_transformer_layer_cls_to_wrap";

/// The key that a plan's warning is about.
std::string key_of(std::string_view rule, const Workers& workers) {
  if (!workers.uses_deepspeed()) return wrap_key;
  return rule == "second-partition" ? "zero_optimization.zero_hpz_partition_size"
                                    : "zero_optimization";
}

/// Classes that no module of the model has, with the nearest that one has. True: there are some, or
/// nobody knows.
bool lint_classes(const accelerate::FsdpPlugin& plugin, const ConfiguredModel& model,
                  Report& report) {
  if (plugin.wrap != WrapPolicy::transformer || !plugin.wrap_classes) return false;
  std::set<std::string_view> known;
  for (const TreeModule& module : model.prepared.tree.modules) known.insert(module.class_name);
  if (!names_classes(model.prepared.tree)) {
    report.add(Severity::note, "unknown-class", classes_key,
               "the model's file names no classes: whether it has these cannot be told",
               "give its config.json, or what examples/pytorch/export_model.py writes");
    return true;
  }
  bool missing = false;
  for (const std::string& name : *plugin.wrap_classes) {
    if (known.contains(name)) continue;
    missing = true;
    const auto near = nearest_word(name, {known.begin(), known.end()});
    report.add(
        Severity::error, "unknown-class", classes_key,
        fmt::format("the model has no module of class \"{}\": accelerate raises ValueError", name),
        near ? fmt::format("write {}", *near)
             : fmt::format("its own classes to wrap are {}",
                           fmt::join(model.prepared.facts.no_split_classes, ", ")));
  }
  return missing;
}

void lint_flattening(const accelerate::FsdpPlugin& plugin, Report& report) {
  if (!plugin.is_version(1) || plugin.use_orig_params.value_or(false)) return;
  report.add(Severity::warning, "parameter-groups-lost", "fsdp_config.fsdp_use_orig_params",
             "every unit becomes one flat, one-dimensional parameter: groups of the optimizer (no "
             "decay for biases and norms) and a mix of frozen and trained parameters in a unit are "
             "lost or refused",
             "write fsdp_use_orig_params: true");
}

void lint_size_policy(const accelerate::FsdpPlugin& plugin, const ShardingPlan& plan,
                      Report& report) {
  if (plugin.wrap != WrapPolicy::size || plan.units.size() != 1) return;
  const std::int64_t elements = plan.units.front().elements;
  report.add(Severity::warning, "size-wraps-nothing", "fsdp_config.fsdp_min_num_params",
             fmt::format("no module reaches {} elements: the model is one unit of {}, gathered "
                         "whole",
                         plugin.min_num_params ? plugin.min_num_params->str() : "0", elements),
             "write a smaller fsdp_min_num_params, or TRANSFORMER_BASED_WRAP");
}

/// The tied embedding under FSDP2 stays gathered from the forward to the end of the backward.
void lint_tied_embeddings(const ConfiguredModel& model, const ShardingPlan& plan, Report& report) {
  const auto& facts = model.prepared.facts;
  if (plan.runtime != Runtime::fsdp2 || !facts.input_embeddings) return;
  const auto& modules = model.prepared.tree.modules;
  const auto& own = modules[static_cast<std::size_t>(*facts.input_embeddings)].parameters;
  if (own.empty() || facts.output_embeddings == facts.input_embeddings) return;
  const auto& tree = model.prepared.tree;
  const auto first = static_cast<std::size_t>(own.front());
  const bool tied = std::any_of(
      tree.parameters.begin(), tree.parameters.end(),
      [&](const TreeParameter& p) { return p.same_as == static_cast<std::int32_t>(first); });
  if (!tied) return;
  report.add(Severity::note, "tied-embeddings", wrap_key,
             fmt::format("{} is tied: FSDP2 keeps all {} elements of it gathered from the forward "
                         "to the end of the backward",
                         tree.parameters[first].name, tree.parameters[first].elements()),
             "nothing to change; count it when you size the memory");
}

void lint_persistence(const ShardingPlan& plan, Report& report) {
  std::int64_t whole = 0, all = 0;
  for (const PlannedPartition& partition : plan.partitions) {
    all += partition.elements;
    whole += partition.persistent ? partition.elements : 0;
  }
  if (all == 0 || 2 * whole <= all) return;
  report.add(Severity::warning, "persistence-keeps-the-model",
             "zero_optimization.stage3_param_persistence_threshold",
             fmt::format("{} of {} elements stay gathered on every rank: stage 3 shards little",
                         whole, all),
             "write a smaller threshold; it is compared with the elements of one parameter");
}

std::string mend_of(const std::string& rule) {
  if (rule == "shared-parameters-split") return "wrap so that one unit holds every name of it";
  if (rule == "one-rank") return "start more ranks, or leave FSDP out";
  return {};
}

/// Throws what accelerate and DeepSpeed themselves make a refusal of, before anything is sharded.
void prepare(const ConfiguredModel& model, const Workers& workers, const ConfigFile& file) {
  if (workers.uses_fsdp())
    fsdp_plugin(model, workers);
  else if (workers.uses_deepspeed())
    effective_deepspeed(model, workers, files_beside(file));
}

/// Lint has nothing to say about what counts for memory alone, nor about one rank that nobody gave.
bool is_finding(const PlanWarning& warning, const Workers& workers) {
  if (warning.rule == "one-rank") return workers.assumed.empty();
  return warning.rule != "offloaded-states" && warning.rule != "masters-in-precision";
}

/// What became of the model, or what PyTorch or DeepSpeed's engine said instead.
void lint_plan(const ConfiguredModel& model, const Workers& workers, const ConfigFile& file,
               Report& report) {
  try {
    const ShardingPlan plan = plan_of(model, workers, files_beside(file));
    for (const PlanWarning& warning : plan.warnings)
      if (is_finding(warning, workers))
        report.add(Severity::warning, warning.rule, key_of(warning.rule, workers), warning.text,
                   mend_of(warning.rule));
    if (workers.uses_fsdp()) lint_size_policy(fsdp_plugin(model, workers), plan, report);
    lint_tied_embeddings(model, plan, report);
    lint_persistence(plan, report);
  } catch (const Refusal& refusal) {
    const bool later = refusal.code() == ExitCode::no;
    report.add(Severity::error, later ? "refused-at-first-forward" : "refused-units", wrap_key,
               later ? refusal.what() : fmt::format("{}: {}", refusal.exception(), refusal.what()),
               "name other classes to wrap, or use fsdp_version 1");
  } catch (const Error& error) {
    if (error.code() != ExitCode::no) throw;
    report.add(Severity::error, "ranks-disagree", wrap_key, error.what(),
               "wrap by transformer class, or write fsdp_use_orig_params: false");
  }
}

}  // namespace

std::vector<Finding> lint_with_model(const ConfigFile& file, const ConfigValue& value,
                                     const Workers& workers, const ConfiguredModel& model) {
  Report report(file, value);
  if (workers.uses_fsdp()) {
    const accelerate::FsdpPlugin plugin = accelerate::make_fsdp_plugin(workers.environment);
    lint_flattening(plugin, report);
    if (lint_classes(plugin, model, report)) return report.take();
  }
  prepare(model, workers, file);
  lint_plan(model, workers, file, report);
  return report.take();
}

}  // namespace shardscope
