#include "cli/model_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "cli/name_pattern.h"
#include "cli/table.h"
#include "core/base/grouped.h"
#include "core/base/quantities.h"
#include "core/schedule/model_states.h"

namespace shardscope {
namespace {

/// Parameters that are alike but for the number of their layer.
struct ParameterGroup {
  std::string name;
  const Parameter* first = nullptr;
  std::int64_t count = 0;
};

std::vector<ParameterGroup> grouped_parameters(const Model& model) {
  std::vector<ParameterGroup> groups;
  std::map<std::tuple<std::string, decltype(Parameter::shape), bool>, std::size_t> places;
  for (const Parameter& parameter : model.parameters) {
    const std::string name = without_indices(parameter.name);
    const auto [place, is_new] =
        places.try_emplace({name, parameter.shape, parameter.trainable}, groups.size());
    if (is_new) groups.push_back({.name = name, .first = &parameter});
    ++groups[place->second].count;
  }
  return groups;
}

/// "GPT2LMHeadModel (gpt2)", as far as it is known.
std::string class_and_family(const Model& model) {
  if (model.class_name.empty()) return "A model of unknown classes";
  return model.family.empty() ? model.class_name
                              : fmt::format("{} ({})", model.class_name, model.family);
}

std::string headline(const Model& model) {
  const std::int64_t all = model.parameter_elements();
  const std::int64_t trained = model.trainable_elements();
  std::string text = fmt::format("{}: {} parameters in {} tensors, {}, {}\n",
                                 class_and_family(model), grouped(all), model.parameters.size(),
                                 name_of(model.dtype), rounded_text(bytes_of(all, model.dtype)));
  if (trained != all)
    text += fmt::format("{} of them are trained, the rest is frozen\n", grouped(trained));
  if (model.trace)
    text += fmt::format("traced with {} x {} tokens: {} operators, {} kept for backward\n",
                        model.trace->batch, model.trace->sequence,
                        grouped(model.trace->operators()), rounded_text(model.trace->saved()));
  for (const TiedName& tied : model.tied) text += fmt::format("{} is {}\n", tied.later, tied.first);
  return text;
}

std::string parameter_table(const Model& model, const Painter& painter) {
  Table table(
      {{"parameter"}, {"shape"}, {"times", Align::right}, {"elements", Align::right}, {""}});
  for (const ParameterGroup& group : grouped_parameters(model)) {
    table.row({group.name, fmt::format("{}", fmt::join(group.first->shape, " x ")),
               grouped(group.count), grouped(group.count * group.first->elements()),
               Cell(group.first->trainable ? "" : "frozen", Paint::dim)});
  }
  return table.text(painter);
}

std::string module_table(const Model& model, const Painter& painter) {
  Table table({{"module"}, {"class"}});
  for (const Module& module : model.modules)
    table.row({module.name.empty() ? "(root)" : module.name, module.class_name});
  return table.text(painter);
}

/// Units that are alike but for the number of their block stand in one row.
std::string unit_table(const ShardingPlan& plan, const Painter& painter) {
  Table table({{"unit"},
               {"class"},
               {"times", Align::right},
               {"elements", Align::right},
               {"padded", Align::right},
               {"shard", Align::right},
               {"fill", Align::right}});
  const auto& units = plan.units;
  for (std::size_t i = 0; i < units.size();) {
    std::size_t end = i + 1;
    const auto alike = [&](const PlannedUnit& unit) {
      return without_indices(unit.name) == without_indices(units[i].name) &&
             unit.elements == units[i].elements;
    };
    while (end < units.size() && alike(units[end])) ++end;
    const PlannedUnit& unit = units[i];
    const std::string name = unit.name.empty() ? "(root)"
                             : end - i > 1     ? without_indices(unit.name)
                                               : unit.name;
    table.row({name, unit.class_name, grouped(static_cast<std::int64_t>(end - i)),
               grouped(unit.elements), grouped(unit.padded_elements), grouped(unit.shard_elements),
               grouped(unit.padded_elements - unit.elements)});
    i = end;
  }
  return table.text(painter);
}

std::int64_t padding_of_buckets(const ShardingPlan& plan) {
  std::int64_t padding = 0;
  for (const PlannedBucket& bucket : plan.buckets)
    padding += bucket.padded_elements - bucket.elements;
  return padding;
}

/// "18 buckets of 592,130 to 23,440,896 elements; padding 0".
std::string bucket_text(const ShardingPlan& plan) {
  const auto [least, most] = std::minmax_element(
      plan.buckets.begin(), plan.buckets.end(),
      [](const PlannedBucket& a, const PlannedBucket& b) { return a.elements < b.elements; });
  const std::string sizes =
      least->elements == most->elements
          ? grouped(most->elements)
          : fmt::format("{} to {}", grouped(least->elements), grouped(most->elements));
  std::string text =
      fmt::format("{} bucket{} of {} elements; padding {}\n", plan.buckets.size(),
                  plan.buckets.size() == 1 ? "" : "s", sizes, grouped(padding_of_buckets(plan)));
  if (plan.runtime == Runtime::ddp)
    text +=
        "by DDP's limits of 1 MiB and 25 MiB; without find_unused_parameters the first "
        "iteration has one bucket, and later ones follow the order of the backward\n";
  return text;
}

std::string partition_text(const ShardingPlan& plan) {
  std::int64_t persistent = 0, persistent_elements = 0, padding = 0;
  int sub_groups = 0;
  for (const PlannedPartition& partition : plan.partitions) {
    persistent += partition.persistent;
    persistent_elements += partition.persistent ? partition.elements : 0;
    padding += partition.padding_elements;
    sub_groups = std::max(sub_groups, partition.sub_group + 1);
  }
  return fmt::format(
      "{} partitioned parameters in {} sub-group{}, {} elements of padding; {} of them persistent "
      "({} elements stay gathered on every rank)\n",
      plan.partitions.size(), sub_groups, sub_groups == 1 ? "" : "s", grouped(padding), persistent,
      grouped(persistent_elements));
}

/// A column of the table of model states.
struct StatesColumn {
  std::string heading;
  ModelStates states;
};

std::vector<StatesColumn> states_columns(const ShardingPlan& plan) {
  if (plan.paper)
    return {{"whole", plan.whole},
            {"a rank, ZeRO paper", *plan.paper},
            {"a rank, schedule", plan.per_rank},
            {"of it padding", plan.padding}};
  return {{"whole", plan.whole}, {"a rank", plan.per_rank}, {"of it padding", plan.padding}};
}

std::string states_table(const std::vector<StatesColumn>& columns, const Painter& painter) {
  std::vector<Column> headings{{"model states"}};
  for (const StatesColumn& column : columns) headings.push_back({column.heading, Align::right});
  Table table(std::move(headings));
  const auto row = [&](const char* name, auto part) {
    std::vector<Cell> cells{name};
    for (const StatesColumn& column : columns)
      cells.emplace_back(rounded_text(part(column.states)));
    table.row(std::move(cells));
  };
  row("P   parameters", [](const ModelStates& states) { return states.parameters; });
  row("G   gradients", [](const ModelStates& states) { return states.gradients; });
  row("OS  optimizer states", [](const ModelStates& states) { return states.optimizer_states; });
  table.rule();
  row("sum", [](const ModelStates& states) {
    return states.parameters + states.gradients + states.optimizer_states;
  });
  return table.text(painter);
}

std::string plan_headline(const ShardingPlan& plan) {
  const std::string runtime =
      plan.runtime == Runtime::native ? "" : fmt::format(", {}", name_of(plan.runtime));
  return fmt::format("{} on {} rank{}{}, mesh {}, wrap {}, {}, {}", plan.strategy, plan.world,
                     plan.world == 1 ? "" : "s", runtime, plan.mesh, plan.wrap, plan.precision,
                     plan.optimizer);
}

std::string plan_text(const ShardingPlan& plan, const Painter& painter) {
  std::string text = fmt::format("\n{}\n\n", painter(Paint::bold, plan_headline(plan)));
  if (!plan.units.empty()) text += unit_table(plan, painter) + "\n";
  if (!plan.buckets.empty()) text += bucket_text(plan) + "\n";
  if (!plan.partitions.empty()) text += partition_text(plan) + "\n";
  text += states_table(states_columns(plan), painter);
  for (const PlanWarning& warning : plan.warnings)
    text += fmt::format("\n{}: {}", painter(Paint::warning, "warning"), warning.text);
  return plan.warnings.empty() ? text : text + "\n";
}

}  // namespace

std::string text_of(const ModelReport& report, bool with_modules, const Painter& painter) {
  std::string text = painter(Paint::bold, headline(report.model));
  text += "\n" + parameter_table(report.model, painter);
  if (with_modules) text += "\n" + module_table(report.model, painter);
  if (report.plan) return text + plan_text(*report.plan, painter);
  return text + "\n" + states_table({{"whole", report.whole}}, painter);
}

}  // namespace shardscope
