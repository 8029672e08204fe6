// shardscope model: parameters, modules, units, shards.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/model_report.h"
#include "cli/name_pattern.h"
#include "cli/output_options.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/quantities.h"

namespace shardscope {
namespace {

struct ModelOptions {
  std::optional<std::string> model;
  JobOptions job;
  PlaceOptions place;
  OutputOptions output;
  bool modules = false;
};

/// Parameters that are alike but for the number of their layer.
struct ParameterGroup {
  std::string name;
  const Parameter* first = nullptr;
  std::int64_t count = 0;
};

std::vector<ParameterGroup> grouped_parameters(const Model& model) {
  std::vector<ParameterGroup> groups;
  for (const Parameter& parameter : model.parameters) {
    const std::string name = without_indices(parameter.name);
    const auto same = [&](const ParameterGroup& group) {
      return group.name == name && group.first->shape == parameter.shape &&
             group.first->trainable == parameter.trainable;
    };
    const auto found = std::find_if(groups.begin(), groups.end(), same);
    if (found != groups.end()) {
      ++found->count;
    } else {
      groups.push_back({.name = name, .first = &parameter, .count = 1});
    }
  }
  return groups;
}

std::string headline(const Model& model) {
  const std::int64_t all = model.parameter_elements();
  const std::int64_t trained = model.trainable_elements();
  std::string text = fmt::format("{} ({}): {} parameters in {} tensors, {}, {}\n", model.class_name,
                                 model.family, grouped(all), model.parameters.size(),
                                 name_of(model.dtype), rounded_text(bytes_of(all, model.dtype)));
  if (trained != all)
    text += fmt::format("{} of them are trained, the rest is frozen\n", grouped(trained));
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
std::string unit_table(const ModelReport& report, const Painter& painter) {
  Table table({{"unit"},
               {"class"},
               {"times", Align::right},
               {"elements", Align::right},
               {"padded", Align::right},
               {"shard", Align::right},
               {"fill", Align::right}});
  const auto& units = report.units;
  for (std::size_t i = 0; i < units.size();) {
    std::size_t end = i + 1;
    const auto alike = [&](const Unit& unit) {
      return without_indices(unit.name) == without_indices(units[i].name) &&
             unit.elements == units[i].elements;
    };
    while (end < units.size() && alike(units[end])) ++end;
    const Unit& unit = units[i];
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

std::string states_table(const ModelReport& report, const Painter& painter) {
  Table table({{"model states"},
               {"whole", Align::right},
               {"a rank, ZeRO paper", Align::right},
               {"a rank, schedule", Align::right},
               {"of it padding", Align::right}});
  const auto row = [&](const char* name, Bytes ModelStates::*part) {
    table.row({name, rounded_text(report.whole.*part), rounded_text(report.rank.paper.*part),
               rounded_text(report.rank.schedule.*part), rounded_text(report.rank.padding.*part)});
  };
  const auto sum = [](const ModelStates& states) {
    return rounded_text(states.parameters + states.gradients + states.optimizer_states);
  };
  row("P   parameters", &ModelStates::parameters);
  row("G   gradients", &ModelStates::gradients);
  row("OS  optimizer states", &ModelStates::optimizer_states);
  table.rule();
  table.row({"sum", sum(report.whole), sum(report.rank.paper), sum(report.rank.schedule),
             sum(report.rank.padding)});
  return table.text(painter);
}

std::string text_of(const ModelReport& report, bool with_modules, const Painter& painter) {
  const Scenario& scenario = report.scenario;
  std::string text = painter(Paint::bold, headline(scenario.model));
  text += "\n" + parameter_table(scenario.model, painter);
  if (with_modules) text += "\n" + module_table(scenario.model, painter);
  text += fmt::format(
      "\n{}\n", painter(Paint::bold,
                        fmt::format("{} on {} rank{}, mesh {}, wrap {}, fp32, {}",
                                    name_of(scenario.strategy.sharding), scenario.world,
                                    scenario.world == 1 ? "" : "s", text_of(scenario.strategy.mesh),
                                    text_of(scenario.strategy.wrap),
                                    name_of(scenario.workload.optimizer.kind))));
  text += "\n" + unit_table(report, painter) + "\n" + states_table(report, painter);
  return text;
}

ExitCode run_model(ModelOptions options) {
  if (options.model) options.job.model = options.model;
  const ModelReport report = report_model(resolve_scenario(options.job, options.place));
  if (options.output.json) {
    print(to_json(report));
    return ExitCode::done;
  }
  note_assumptions(options.output, report.scenario.assumed);
  print(text_of(report, options.modules, options.output.painter()));
  return ExitCode::done;
}

}  // namespace

void declare_model(Command& command) {
  const auto options = std::make_shared<ModelOptions>();
  command.positional("MODEL", options->model, "Hugging Face folder or config.json");
  declare_job_options(command, options->job);
  declare_place_options(command, options->place);
  declare_output_options(command, options->output);
  command.flag("--modules", options->modules, "lists the module tree too");
  command.examples(
      {{"shardscope model examples/models/gpt2", "parameters, and what one rank holds of them"},
       {"shardscope model examples/models/gpt2 --strategy full_shard --world 8 --wrap "
        "size:20000000",
        "units, shards and padding on 8 ranks"},
       {"shardscope model examples/models/gpt2 --json | jq .totals", "the same for scripts"}});
  command.action([options] { return run_model(*options); });
}

}  // namespace shardscope
