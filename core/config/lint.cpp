#include "core/config/lint.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <tuple>
#include <utility>

#include "core/config/accelerate/lint.h"
#include "core/config/deepspeed/lint.h"
#include "core/config/lint_model.h"
#include "core/config/megatron/lint.h"
#include "core/config/recipe_file.h"
#include "core/config/trainer/training_args_lint.h"
#include "core/config/values/config_json.h"
#include "core/config/values/finding_list.h"

namespace shardscope {
namespace {

std::vector<std::string> words_of(const ConfigPlace& place) {
  if (!place.world) return {};
  return {"--num_processes=" + std::to_string(*place.world)};
}

std::vector<Finding> lint_accelerate(const ConfigFile& file, const LintQuestion& question) {
  const accelerate::PreparedModel* model = question.model ? &question.model->prepared : nullptr;
  // Without classes, what prepare() would find in the model is not known.
  const accelerate::PreparedModel* prepared = model && names_classes(model->tree) ? model : nullptr;
  const accelerate::Resolution resolution = accelerate::resolve({.file_name = file.name(),
                                                                 .text = file.text,
                                                                 .words = words_of(question.place),
                                                                 .machine = {.has_fp8 = true},
                                                                 .model = prepared,
                                                                 .read_file = files_beside(file)});
  return accelerate::lint(resolution, file.text, model);
}

/// Elements of the question's model; none without one.
std::optional<std::int64_t> elements_of(const LintQuestion& question) {
  if (!question.model) return std::nullopt;
  std::int64_t elements = 0;
  for (const TreeParameter& parameter : question.model->prepared.tree.parameters)
    if (!parameter.same_as) elements += parameter.elements();
  return elements;
}

TrainerRun trainer_run(const ConfigFile& file, const LintQuestion& question) {
  TrainerRun run{.model_elements = elements_of(question), .read_file = files_beside(file)};
  if (question.model)
    for (const TreeModule& module : question.model->prepared.tree.modules)
      run.model_classes.push_back(module.class_name);
  return run;
}

std::vector<Finding> lint_deepspeed(const ConfigFile& file, const LintQuestion& question) {
  return lint_deepspeed_config(file.text, file.name(),
                               {.world = question.place.world,
                                .ranks_per_node = question.place.ranks_per_node,
                                .model_elements = elements_of(question)});
}

/// A refusal of the reader, "file:line: key", as a finding.
Finding refused_by(const ConfigFile& file, const Error& error) {
  Finding finding{.rule = "refused",
                  .severity = Severity::error,
                  .file = file.name(),
                  .message = error.parts().what,
                  .mend = error.parts().way_out};
  std::string_view where = error.parts().where;
  if (where.starts_with(file.name())) where.remove_prefix(file.name().size());
  if (where.starts_with(':')) {
    const auto read = std::from_chars(where.data() + 1, where.data() + where.size(), finding.line);
    where.remove_prefix(static_cast<std::size_t>(read.ptr - where.data()));
  }
  if (where.starts_with(": ")) finding.key = std::string(where.substr(2));
  return finding;
}

/// The line and the name of the file's own key; tools also take members of fsdp_config with the
/// prefix "fsdp_".
void place_in(const ConfigValue& file, Finding& finding) {
  if (finding.key == "optim" && entry_of(file, "optim") == nullptr) finding.key = "optimizer";
  const std::size_t dot = finding.key.find('.');
  const ConfigValue::Entry* entry = entry_of(file, finding.key.substr(0, dot));
  finding.line = entry ? entry->line : 0;
  if (entry == nullptr || dot == std::string::npos) return;
  const std::string member = finding.key.substr(dot + 1);
  for (const std::string& name : {member, "fsdp_" + member})
    if (const ConfigValue::Entry* inner = entry_of(entry->value, name)) {
      finding.line = inner->line;
      finding.key = finding.key.substr(0, dot + 1) + name;
      return;
    }
}

/// Source: axolotl's utils/schemas/enums.py, CustomSupportedOptimizers. LLaMA-Factory and ms-swift
/// make Muon by keys of their own.
std::vector<std::string_view> more_optimizers_of(ConfigKind tool) {
  if (tool == ConfigKind::axolotl)
    return {"optimi_adamw", "ao_adamw_4bit", "ao_adamw_8bit", "ao_adamw_fp8", "adopt_adamw",
            "came_pytorch", "muon",          "dion",          "sinkgd",       "flash_adamw",
            "flash_adam",   "flash_sgd",     "flash_sgdw",    "flash_lion",   "q_galore_adamw8bit"};
  if (tool == ConfigKind::llama_factory || tool == ConfigKind::ms_swift) return {"muon"};
  return {};
}

/// Of what the Trainer is told; lines are those of the file's own keys.
std::vector<Finding> lint_recipe(const ConfigFile& file, const LintQuestion& question) try {
  const Recipe recipe = read_recipe(file);
  std::vector<Finding> findings = recipe.findings;
  if (!recipe.training_arguments.is_dict()) return findings;
  TrainerRun run = trainer_run(file, question);
  run.more_optimizers = more_optimizers_of(file.kind);
  // What a checkpoint takes then follows neither from the elements nor from float32.
  if (recipe.adapter.is_dict() || !recipe.quantization.empty()) run.model_elements.reset();
  const ConfigValue value = value_of(file);
  for (Finding& finding :
       lint_training_arguments(json_text(recipe.training_arguments), file.name(), run)) {
    place_in(value, finding);
    findings.push_back(std::move(finding));
  }
  return findings;
} catch (const Error& error) {
  return {refused_by(file, error)};
}

std::vector<Finding> lint_megatron(const ConfigFile& file, const LintQuestion& question) try {
  return megatron::lint_command_line(file.text, file.name(), question.place.world);
} catch (const Error& error) {
  return {refused_by(file, error)};
}

std::vector<Finding> lint_alone(const ConfigFile& file, const LintQuestion& question) {
  switch (file.kind) {
    case ConfigKind::accelerate:
      return lint_accelerate(file, question);
    case ConfigKind::deepspeed:
      return lint_deepspeed(file, question);
    case ConfigKind::training_arguments:
      return lint_training_arguments(file.text, file.name(), trainer_run(file, question));
    case ConfigKind::fsdp_config:
      return lint_fsdp_config(file.text, file.name(), trainer_run(file, question));
    case ConfigKind::megatron:
      return lint_megatron(file, question);
    default:
      return lint_recipe(file, question);
  }
}

/// What the file makes of the model; where it is refused, the rules about the file alone said so
/// already, or the refusal is the finding.
std::vector<Finding> lint_model(const ConfigFile& file, const LintQuestion& question,
                                bool already_refused) {
  if (file.kind == ConfigKind::megatron) return {};  // it names its model itself
  try {
    if (is_recipe(file.kind) && !read_recipe(file).training_arguments.is_dict()) return {};
    const ConfigValue value = value_of(file);
    const Workers workers = workers_of(file, value, question.place);
    if (!question.model) return {};
    return lint_with_model(file, value, workers, *question.model);
  } catch (const Error& error) {
    if (already_refused) return {};
    return {{.rule = "refused",
             .severity = Severity::error,
             .file = file.name(),
             .message = error.what(),
             .mend = ""}};
  }
}

bool is_error(const Finding& finding) { return finding.severity == Severity::error; }

}  // namespace

std::vector<Finding> lint(const ConfigFile& file, const LintQuestion& question) {
  std::vector<Finding> findings = lint_alone(file, question);
  const bool refused = std::any_of(findings.begin(), findings.end(), is_error);
  std::vector<Finding> more = lint_model(file, question, refused);
  // A rule that knows the reason takes the place of the bare refusal.
  if (std::any_of(more.begin(), more.end(), is_error))
    std::erase_if(findings, [](const Finding& finding) { return finding.rule == "refused"; });
  findings.insert(findings.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.line < b.line; });
  return findings;
}

}  // namespace shardscope
