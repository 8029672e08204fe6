#include "gui/data/new_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <system_error>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"
#include "core/format/json_reader.h"
#include "gui/data/child_process.h"
#include "gui/data/open_run.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t largest_config = 256 * 1024;

bool is_model(const fs::path& file) {
  try {
    const JsonValue value = JsonValue::read_file(file, DuplicateKeys::last_wins);
    return value.is_object() && value.find("model_type").has_value();
  } catch (const Error&) {
    return false;
  }
}

/// The option of `simulate` that takes such a file.
std::string_view option_of(ConfigKind kind) {
  switch (kind) {
    case ConfigKind::accelerate:
      return "--accelerate";
    case ConfigKind::deepspeed:
      return "--deepspeed";
    case ConfigKind::training_arguments:
      return "--training-arguments";
    case ConfigKind::fsdp_config:
      return "--fsdp-config";
    default:
      return "--config";
  }
}

fs::path folder_of(const NewComparison& comparison, std::size_t place) {
  return comparison.folder / fmt::format("{}", place + 1);
}

/// Of the prediction at `place`.
std::vector<std::string> common(const NewComparison& comparison, std::size_t place) {
  return {"simulate",
          "--model",
          comparison.model.string(),
          "--cluster",
          comparison.cluster,
          "--seq",
          fmt::format("{}", comparison.seq),
          "--batch",
          fmt::format("{}", comparison.batch),
          "--quiet",
          "-o",
          folder_of(comparison, place).string()};
}

void append(std::vector<std::string>& arguments, std::initializer_list<std::string_view> more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
}

}  // namespace

const std::vector<OfferedStrategy>& offered_strategies() {
  static const std::vector<OfferedStrategy> all{
      {"ddp", "no_shard", true},        {"fsdp2", "full_shard", true},
      {"fsdp2", "shard_grad_op", true}, {"fsdp1", "full_shard"},
      {"fsdp1", "shard_grad_op"},       {"deepspeed", "zero1"},
      {"deepspeed", "shard_grad_op"},   {"deepspeed", "full_shard"}};
  return all;
}

std::optional<NewComparison> comparison_of(const fs::path& file) {
  const std::string end = file.extension().string();
  constexpr std::string_view texts[] = {".yaml", ".yml", ".json", ".toml", ".sh"};
  const bool is_text = std::ranges::find(texts, end) != std::end(texts);
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  if (!is_text || error || size > largest_config) return std::nullopt;
  if (end == ".json" && is_model(file)) return NewComparison{.model = file.parent_path()};
  try {
    NewComparison comparison{.model = {}, .config = read_config_file(file)};
    if (is_there(file.parent_path() / "config.json")) comparison.model = file.parent_path();
    return comparison;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string what_is_missing(const NewComparison& comparison) {
  if (comparison.model.empty())
    return "Choose a model: a folder of Hugging Face, or its config.json.";
  if (!is_there(comparison.model))
    return fmt::format("There is no model at {}.", comparison.model.string());
  if (!comparison.config && comparison.strategies.empty()) return "Choose at least one strategy.";
  if (comparison.cluster.empty()) return "Choose a cluster.";
  return "";
}

fs::path make_new_folder(const fs::path& wanted) {
  create_folder(wanted.parent_path());
  fs::path folder = wanted;
  for (int number = 2;; ++number) {
    std::error_code error;
    if (fs::create_directory(folder, error)) return folder;
    if (error)
      throw Error({.where = folder.string(), .what = error.message(), .code = ExitCode::outside});
    folder = fmt::format("{}_{}", wanted.string(), number);
  }
}

std::vector<std::vector<std::string>> simulations_of(const NewComparison& comparison) {
  const std::string world = fmt::format("{}", comparison.world);
  std::vector<std::vector<std::string>> all;
  if (comparison.config) {
    std::vector<std::string> arguments = common(comparison, 0);
    append(arguments, {option_of(comparison.config->kind), comparison.config->name()});
    // num_processes stands in the file.
    if (comparison.config->kind != ConfigKind::accelerate) append(arguments, {"--world", world});
    return {arguments};
  }
  for (const OfferedStrategy& offered : comparison.strategies) {
    std::vector<std::string> arguments = common(comparison, all.size());
    append(arguments, {"--world", world, "--precision", comparison.precision, "--runtime",
                       offered.runtime, "--strategy", offered.strategy});
    all.push_back(std::move(arguments));
  }
  return all;
}

std::vector<ScenarioPointer> predict_comparison(const NewComparison& comparison,
                                                const OpenOptions& options) {
  const auto program = shardscope_program();
  if (!program)
    throw Error({.where = "shardscope",
                 .what = "the program that predicts is neither beside this one nor in PATH",
                 .way_out = "SHARDSCOPE=FILE names it",
                 .code = ExitCode::outside});
  create_folder(comparison.folder);
  const auto simulations = simulations_of(comparison);
  std::vector<Finding> refused;
  for (std::size_t i = 0; i < simulations.size(); ++i) {
    if (options.stop.stop_requested()) return {};
    if (options.on_progress)
      options.on_progress(static_cast<double>(i) / static_cast<double>(simulations.size() + 1),
                          fmt::format("predicting {} of {}", i + 1, simulations.size()));
    const ChildResult result =
        run_child({.program = *program, .arguments = simulations[i]}, options.stop);
    if (!is_run_folder(folder_of(comparison, i)))
      refused.push_back({Severity::error, fmt::format("prediction {}", i + 1), reason_of(result)});
  }
  if (refused.size() == simulations.size())
    throw Error({.where = {}, .what = refused.front().what, .code = ExitCode::no});
  std::vector<ScenarioPointer> opened = open_scenarios(comparison.folder, options);
  if (opened.empty() || refused.empty()) return opened;
  auto first = std::make_shared<Scenario>(*opened.front());
  first->findings.insert(first->findings.begin(), refused.begin(), refused.end());
  opened.front() = first;
  return opened;
}

}  // namespace shardscope::gui
