#include "core/config/accelerate/lint.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/config/accelerate/lint_rules.h"
#include "core/format/python_text.h"

namespace shardscope::accelerate {
namespace {

/// Which key of the file a variable of the workers comes from.
std::string key_of_variable(std::string_view variable) {
  if (variable == "FSDP_TRANSFORMER_CLS_TO_WRAP") return "fsdp_transformer_layer_cls_to_wrap";
  return lower_of(variable);
}

/// The key path whose key or value stands in a line.
std::string key_at(const ConfigValue& dict, int line) {
  if (!dict.is_dict()) return {};
  for (const ConfigValue::Entry& entry : dict.entries()) {
    const std::string below = key_at(entry.value, line);
    if (!below.empty()) return entry.key + "." + below;
    if (entry.line == line || entry.value.line() == line) return entry.key;
  }
  return {};
}

/// A reader's complaint begins with "file:line".
int line_in(const std::string& where, const std::string& file) {
  if (!where.starts_with(file + ":")) return 0;
  return std::atoi(where.c_str() + file.size() + 1);
}

void add_stage_error(LintContext& context, std::string_view stage, const Refusal& refusal) {
  const std::string message =
      fmt::format("{} fails here with {}: {}", stage, refusal.exception(), refusal.parts().what);
  const Remark remark{.rule = "refused",
                      .severity = Severity::error,
                      .message = message,
                      .mend = refusal.parts().way_out};
  const bool has_file = context.resolution().file.value.has_value();
  const std::string& where = refusal.parts().where;
  if (has_file && where.starts_with("FSDP_")) {
    const std::string key = key_of_variable(where);
    if (const ConfigValue::Entry* entry = context.fsdp(key))
      return context.add(remark, *entry, "fsdp_config");
    return context.add(remark, 0, "fsdp_config." + key);
  }
  const int line =
      refusal.line() > 0 ? refusal.line() : line_in(where, context.resolution().file_name);
  context.add(remark, line, has_file ? key_at(context.file(), line) : std::string());
}

/// The sizes of parallelism_config need no model to be checked.
void lint_mesh(LintContext& context) {
  const Resolution& r = context.resolution();
  const Environment& environment = r.launch.environment;
  if (!r.launch.uses("use_parallelism_config") || !r.launch.torchrun || !r.world()) return;
  const auto checked = attempt([&] {
    ParallelismConfig config = make_parallelism(environment);
    const FsdpPlugin* plugin = context.plugin();
    check_parallelism(config, {.world = *r.world(),
                               .is_fsdp = plugin != nullptr,
                               .is_fsdp2 = plugin != nullptr && plugin->is_version(2),
                               .is_deepspeed = r.launch.uses("use_deepspeed")});
    return config;
  });
  if (!checked.error) return;
  const ConfigValue::Entry* entry = context.top("parallelism_config");
  context.add({.rule = "refused",
               .severity = Severity::error,
               .message = fmt::format("Accelerator fails here with {}: {}",
                                      checked.error->exception(), checked.error->parts().what),
               .mend = "let the sizes multiply to num_processes"},
              entry == nullptr ? 0 : entry->line, "parallelism_config");
}

/// How the model is loaded is the script's.
void lint_undivided(LintContext& context) {
  const ConfigValue::Entry* entry = context.top("parallelism_config");
  context.add(
      {.rule = "refused",
       .message = "Accelerator.prepare raises NotImplementedError unless the model was loaded "
                  "with a tensor-parallel plan",
       .mend = "load it with from_pretrained(..., "
               "distributed_config=DistributedConfig(tp_size=...))"},
      entry == nullptr ? 0 : entry->line, "parallelism_config");
}

/// Every stage that failed; a later one is absent then.
void lint_stages(LintContext& context) {
  const Resolution& r = context.resolution();
  if (r.file.error) return add_stage_error(context, "reading the file", *r.file.error);
  if (r.loaded.error) return add_stage_error(context, "accelerate launch", *r.loaded.error);
  if (r.launch.error) return add_stage_error(context, "accelerate launch", *r.launch.error);
  if (r.plugin && r.plugin->error)
    return add_stage_error(context, "the FSDP plugin in every worker", *r.plugin->error);
  if (r.deepspeed_plugin && r.deepspeed_plugin->error)
    return add_stage_error(context, "the DeepSpeed plugin in every worker",
                           *r.deepspeed_plugin->error);
  if (!r.prepared) lint_mesh(context);
  if (!r.prepared || !r.prepared->error) return;
  if (r.prepared->error->exception() == "NotImplementedError") return lint_undivided(context);
  add_stage_error(context, "Accelerator.prepare", *r.prepared->error);
}

void lint_warnings(LintContext& context) {
  const Resolution& r = context.resolution();
  for (const std::string& warning : r.launch.warnings)
    context.add({.rule = "guessed",
                 .severity = Severity::note,
                 .message = warning,
                 .mend = "write it into the file"},
                0, {});
}

}  // namespace

std::vector<Finding> lint(const Resolution& resolution, std::string_view text,
                          const PreparedModel* model) {
  LintContext context(resolution, text, model);
  if (resolution.file && resolution.file.value->is_dict()) {
    lint_keys(context);
    lint_scalars(context);
    lint_sections(context);
    if (context.has_type("FSDP")) lint_fsdp(context);
    if (context.has_type("DEEPSPEED")) lint_deepspeed(context);
  }
  lint_stages(context);
  lint_warnings(context);
  std::vector<Finding> findings = context.take();
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.line < b.line; });
  return findings;
}

}  // namespace shardscope::accelerate
