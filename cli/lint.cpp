// shardscope lint: what the real tools would do with a configuration file that it does not seem to
// say.
#include "core/config/lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/config_options.h"
#include "cli/output_options.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/config/deepspeed/model_widths.h"
#include "core/model/huggingface.h"
#include "core/model/read_model.h"

namespace shardscope {
namespace {

struct LintCommand {
  ConfigOptions config;
  std::optional<std::string> model, transformers;
  OutputOptions output;
  bool rules = false;
};

std::optional<ConfiguredModel> model_of(const LintCommand& command) {
  if (!command.model) return std::nullopt;
  const std::string version = command.transformers.value_or("5");
  const Model model = read_model(
      *command.model, {.transformers = parse_transformers_version(version, "--transformers")});
  return configured(model, widths_of_model(*command.model));
}

Paint paint_of(Severity severity) {
  if (severity == Severity::error) return Paint::bad;
  return severity == Severity::warning ? Paint::warning : Paint::dim;
}

std::string headline(const Finding& finding, const Painter& painter) {
  const std::string line = finding.line > 0 ? fmt::format(":{}", finding.line) : "";
  return fmt::format("{}{}: {}: {}{} [{}]\n", finding.file, line,
                     painter(paint_of(finding.severity), name_of(finding.severity)),
                     finding.key.empty() ? "" : finding.key + ": ", finding.message, finding.rule);
}

/// The same said of several keys stands once, with the lines of the others.
std::string text_of(const std::vector<Finding>& findings, const Painter& painter) {
  const auto same = [](const Finding& a, const Finding& b) {
    return a.rule == b.rule && a.file == b.file && a.message == b.message && a.mend == b.mend;
  };
  std::string text;
  for (auto finding = findings.begin(); finding != findings.end(); ++finding) {
    const auto like = [&](const Finding& other) { return same(*finding, other); };
    if (std::any_of(findings.begin(), finding, like)) continue;
    text += headline(*finding, painter);
    for (auto other = finding + 1; other != findings.end(); ++other)
      if (like(*other)) text += fmt::format("    line {} too: {}\n", other->line, other->key);
    if (!finding->mend.empty()) text += fmt::format("    fix: {}\n", finding->mend);
  }
  return text;
}

std::int64_t count(const std::vector<Finding>& findings, Severity severity) {
  return std::count_if(findings.begin(), findings.end(),
                       [&](const Finding& finding) { return finding.severity == severity; });
}

/// "2 errors, 1 warning, 0 notes".
std::string summary(const std::vector<Finding>& findings) {
  std::string text;
  for (const Severity severity : {Severity::error, Severity::warning, Severity::note}) {
    const std::int64_t number = count(findings, severity);
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", number, name_of(severity),
                        number == 1 ? "" : "s");
  }
  return text;
}

std::string to_json(const ConfigFile& file, const std::vector<Finding>& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings)
    list.push_back({{"rule", finding.rule},
                    {"severity", name_of(finding.severity)},
                    {"file", finding.file},
                    {"line", finding.line},
                    {"key", finding.key},
                    {"message", finding.message},
                    {"mend", finding.mend}});
  const nlohmann::ordered_json json{{"schema", "shardscope.lint/1"},
                                    {"format", name_of(file.kind)},
                                    {"findings", std::move(list)}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string rules_text(const Painter& painter) {
  Table table({{"rule"}, {"fires where"}});
  for (const LintRule& rule : lint_rules())
    table.row({std::string(rule.name), std::string(rule.when)});
  return table.text(painter);
}

ExitCode run_lint(const LintCommand& command) {
  const Painter painter = command.output.painter();
  if (command.rules) return print(rules_text(painter)), ExitCode::done;
  const ConfigFile file = command.config.read();
  const std::optional<ConfiguredModel> model = model_of(command);
  const std::vector<Finding> findings =
      lint(file, {.model = model ? &*model : nullptr, .place = command.config.place()});
  if (command.output.json) {
    print(to_json(file, findings));
  } else {
    print(text_of(findings, painter));
    if (!command.output.quiet)
      print(
          fmt::format("{}: {}, read as {}\n", file.name(), summary(findings), name_of(file.kind)));
  }
  return count(findings, Severity::error) > 0 ? ExitCode::no : ExitCode::done;
}

}  // namespace

void declare_lint(Command& command) {
  const auto options = std::make_shared<LintCommand>();
  declare_config_options(command, options->config);
  command.option("--model", options->model,
                 {"PATH", "the model to train; adds the rules that need a model"});
  command.option("--transformers", options->transformers,
                 {"4|5", "version whose layout the model has (default: 5)"});
  command.flag("--rules", options->rules, "lists every rule");
  declare_output_options(command, options->output);
  command.examples(
      {{"shardscope lint examples/configs/fsdp_v1.yaml", "the file alone"},
       {"shardscope lint examples/configs/fsdp_v1.yaml --model examples/models/gpt2",
        "with the rules that need the model"},
       {"shardscope lint examples/configs/zero3_auto.json --world 16 --ranks-per-node 8 --json",
        "for scripts; exit code 1 where an error was found"},
       {"shardscope lint examples/configs/megatron_llama3_8b.sh",
        "a command line of Megatron-LM: what it would refuse or pass over"},
       {"shardscope lint --rules", "every rule in one line"}});
  command.action([options] { return run_lint(*options); });
}

}  // namespace shardscope
