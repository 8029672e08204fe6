// Sections and flags of the file that the launcher does not look at.
#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "core/config/accelerate/lint_rules.h"
#include "core/format/python_text.h"

namespace shardscope::accelerate {
namespace {

bool several_machines(const LintContext& context) {
  const ConfigValue machines = context.file().get("num_machines");
  return machines.is_integer() && machines.integer() > 1;
}

/// Flags whose default is not None: a file cannot change them.
void lint_flags(LintContext& context) {
  constexpr std::array<std::string_view, 5> names{
      "rdzv_backend", "same_network", "enable_cpu_affinity", "downcast_bf16", "tpu_use_sudo"};
  for (const std::string_view name : names) {
    const ConfigValue::Entry* entry = context.top(name);
    if (entry == nullptr) continue;
    const ConfigValue& value = entry->value;
    const bool says_nothing = !value.truthy() || value.is("static") || value.is("no");
    // Where there is one machine, the wizard's "same_network: true" would change nothing anyway.
    const bool about_machines = name == "same_network" || name == "rdzv_backend";
    if (says_nothing || (about_machines && !several_machines(context) && name == "same_network"))
      continue;
    context.add({.rule = "ignored-flag",
                 .message = "the key has no effect in a file: the launcher's own default is kept",
                 .mend = fmt::format("give --{} on the command line", name)},
                *entry);
  }
}

struct Owner {
  std::string_view section, type;
};

void lint_unused_sections(LintContext& context) {
  constexpr std::array<Owner, 3> owners{Owner{"fsdp_config", "FSDP"},
                                        Owner{"deepspeed_config", "DEEPSPEED"},
                                        Owner{"megatron_lm_config", "MEGATRON_LM"}};
  for (const Owner& owner : owners) {
    const ConfigValue::Entry* entry = context.top(owner.section);
    if (entry == nullptr || !entry->value.truthy() || context.has_type(owner.type)) continue;
    context.add(
        {.rule = "unused-section",
         .message = fmt::format("the section does nothing: distributed_type is {}",
                                context.file().get("distributed_type").str()),
         .mend = fmt::format("write distributed_type: {}, or remove the section", owner.type)},
        *entry);
  }
}

void lint_old_keys(LintContext& context) {
  if (const ConfigValue::Entry* entry = context.top("fp16"))
    context.add({.rule = "old-key",
                 .message = context.file().has("mixed_precision")
                                ? "fp16 is dropped: mixed_precision decides"
                                : fmt::format("fp16 is an old key: it becomes mixed_precision {}",
                                              entry->value.truthy() ? "fp16" : "no"),
                 .mend = "write mixed_precision: fp16"},
                *entry);
  if (const ConfigValue::Entry* entry = context.top("dynamo_backend"))
    context.add({.rule = "old-key",
                 .severity = Severity::note,
                 .message = "dynamo_backend at top level is an old key; it replaces dynamo_config",
                 .mend = "write dynamo_config: {dynamo_backend: ...}"},
                *entry);
}

/// What is installed where the file will run is not known here.
void lint_fp8(LintContext& context) {
  const ConfigValue::Entry* entry = context.top("mixed_precision");
  if (entry == nullptr || !entry->value.is_string() || lower_of(entry->value.string()) != "fp8")
    return;
  context.add(
      {.rule = "fp8-libraries",
       .message = "fp8 needs Transformer Engine, MS-AMP or torchao; accelerate launch fails "
                  "with RuntimeError where none of them is installed",
       .mend = "install one of them, or write mixed_precision: bf16"},
      *entry);
}

/// Numbers that are out of their range: of machines, of this machine, of the port.
void lint_impossible_machines(LintContext& context) {
  constexpr std::int64_t largest_port = 65535;
  const auto number = [&](std::string_view name) -> std::optional<std::int64_t> {
    const ConfigValue::Entry* entry = context.top(name);
    if (entry == nullptr || !entry->value.is_integer()) return std::nullopt;
    return entry->value.integer();
  };
  const auto add = [&](std::string_view name, std::string message, std::string mend) {
    context.add({.rule = "machines",
                 .severity = Severity::error,
                 .message = std::move(message),
                 .mend = std::move(mend)},
                *context.top(name));
  };
  const auto machines = number("num_machines");
  if (machines && *machines < 1)
    add("num_machines", fmt::format("must be 1 or more, got {}", *machines),
        "write the number of machines");
  const auto rank = number("machine_rank");
  if (rank && several_machines(context) && (*rank < 0 || *rank >= *machines))
    add("machine_rank",
        fmt::format("must be 0 to {} of {} machines, got {}", *machines - 1, *machines, *rank),
        "write another number on each machine, from 0 on");
  const auto port = number("main_process_port");
  if (port && (*port < 0 || *port > largest_port))
    add("main_process_port", fmt::format("must be 0 to {}, got {}", largest_port, *port),
        "write the port of the first machine, or 0 for any that is free");
}

/// Several machines find each other by an address and start equal numbers of processes.
void lint_machines(LintContext& context) {
  const ConfigValue::Entry* processes = context.top("num_processes");
  const bool counts = processes != nullptr && processes->value.is_integer();
  if (counts && processes->value.integer() < 1)
    context.add(
        {.rule = "processes",
         .severity = Severity::error,
         .message = fmt::format("{} processes cannot be started", processes->value.integer()),
         .mend = "write the number of GPUs of all machines"},
        *processes);
  if (!several_machines(context)) return;
  const std::int64_t machines = context.file().get("num_machines").integer();
  if (context.file().get("main_process_ip").is_null())
    context.add({.rule = "no-main-process-ip",
                 .message = fmt::format("{} machines look for each other at the address \"None\" "
                                        "unless --main_process_ip is on the command line",
                                        machines),
                 .mend = "write main_process_ip: the address of the machine of rank 0"},
                *context.top("num_machines"));
  if (!counts || processes->value.integer() < 1 || processes->value.integer() % machines == 0)
    return;
  const std::int64_t each = processes->value.integer() / machines;
  context.add({.rule = "processes",
               .severity = Severity::error,
               .message = fmt::format("{} processes on {} machines: accelerate starts {} on each, "
                                      "{} in all",
                                      processes->value.integer(), machines, each, each * machines),
               .mend = fmt::format("write a multiple of {}", machines)},
              *processes);
}

void lint_precision(LintContext& context) {
  if (context.file().has("mixed_precision") || context.file().has("fp16")) return;
  context.add({.rule = "precision-default",
               .severity = Severity::note,
               .message = "mixed_precision is not given: training is in the model's own type",
               .mend = "write mixed_precision: bf16, or 'no' with quotes"},
              0, "mixed_precision");
}

void lint_use_cpu(LintContext& context) {
  const ConfigValue::Entry* entry = context.top("use_cpu");
  if (entry == nullptr || !entry->value.truthy() || context.has_type("MULTI_CPU") ||
      context.has_type("NO"))
    return;
  context.add({.rule = "ignored-flag",
               .message = "use_cpu does not stop the launcher from starting GPU workers",
               .mend = "give --cpu on the command line, or write distributed_type: MULTI_CPU"},
              *entry);
}

/// Variables that the launcher sets only where the file or the command line names them.
void lint_shell(LintContext& context) {
  for (const std::string_view name :
       {"FSDP_AUTO_WRAP_POLICY", "FSDP_TRANSFORMER_CLS_TO_WRAP", "FSDP_BACKWARD_PREFETCH",
        "FSDP_STATE_DICT_TYPE", "FSDP_IGNORED_MODULES"}) {
    const Launch& launch = context.resolution().launch;
    const auto found = launch.from_shell.find(name);
    if (!launch.uses("use_fsdp") || found == launch.from_shell.end()) continue;
    context.add({.rule = "from-shell",
                 .message = fmt::format("{}={} comes from the shell: the file does not say it",
                                        found->first, found->second),
                 .mend = "write the key into fsdp_config, or unset the variable"},
                0, "fsdp_config");
  }
}

}  // namespace

void lint_sections(LintContext& context) {
  lint_flags(context);
  lint_unused_sections(context);
  lint_old_keys(context);
  lint_precision(context);
  lint_fp8(context);
  lint_impossible_machines(context);
  lint_machines(context);
  lint_use_cpu(context);
  lint_shell(context);
}

}  // namespace shardscope::accelerate
