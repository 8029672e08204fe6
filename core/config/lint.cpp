#include "core/config/lint.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "core/config/accelerate/lint.h"
#include "core/config/deepspeed/lint.h"
#include "core/config/lint_model.h"
#include "core/config/raised.h"

namespace shardscope {
namespace {

std::vector<std::string> words_of(const ConfigPlace& place) {
  if (!place.world) return {};
  return {"--num_processes=" + std::to_string(*place.world)};
}

std::vector<Finding> lint_accelerate(const ConfigFile& file, const LintQuestion& question) {
  const accelerate::PreparedModel* model = question.model ? &question.model->prepared : nullptr;
  const accelerate::Resolution resolution = accelerate::resolve({.file_name = file.name(),
                                                                 .text = file.text,
                                                                 .words = words_of(question.place),
                                                                 .model = model,
                                                                 .read_file = files_beside(file)});
  return accelerate::lint(resolution, file.text, model);
}

std::vector<Finding> lint_deepspeed(const ConfigFile& file, const LintQuestion& question) {
  DeepSpeedRun run{.world = question.place.world, .ranks_per_node = question.place.ranks_per_node};
  if (question.model) {
    run.model_elements = 0;
    for (const TreeParameter& parameter : question.model->prepared.tree.parameters)
      if (!parameter.same_as) *run.model_elements += parameter.elements();
  }
  return lint_deepspeed_config(file.text, file.name(), run);
}

std::vector<Finding> lint_alone(const ConfigFile& file, const LintQuestion& question) {
  switch (file.kind) {
    case ConfigKind::accelerate:
      return lint_accelerate(file, question);
    case ConfigKind::deepspeed:
      return lint_deepspeed(file, question);
    case ConfigKind::training_arguments:
    case ConfigKind::fsdp_config:
      return {};
  }
  return {};
}

/// What the file makes of the model; where it is refused, the rules about the file alone said so
/// already, or the refusal is the finding.
std::vector<Finding> lint_model(const ConfigFile& file, const LintQuestion& question,
                                bool already_refused) {
  try {
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
