// torchtitan's Trainer.Config of 0.3 as the sections of its older TOML.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/config/python/python_functions.h"
#include "core/config/recipe/recipe_keys.h"
#include "core/config/recipe/tools.h"

namespace shardscope::recipes {
namespace {

std::string callee_of(const ConfigValue& value) {
  const ConfigValue callee = value.get(callee_key);
  return callee.is_string() ? callee.string() : std::string();
}

using Callees = std::initializer_list<std::string_view>;
using Known = std::initializer_list<std::string_view>;

/// Whether the name, or its end behind a dot, is one of these.
bool is_one_of(std::string_view callee, Callees names) {
  return std::ranges::any_of(names, [&](std::string_view name) {
    return callee == name || callee.ends_with(fmt::format(".{}", name));
  });
}

constexpr std::int64_t predicted_chunks = 8;

class Sections {
 public:
  Sections(PythonResult result, std::string file)
      : result_(std::move(result)), file_(std::move(file)) {}

  Recipe read() {
    const ConfigValue& config = result_.value;
    if (config.has("0"))
      throw error(config.line(), "Trainer.Config", "takes arguments by name only");
    if (!is_one_of(callee_of(config), {"Trainer.Config"}))
      warn(config.line(), callee_of(config), "is not modelled: it is predicted as Trainer.Config");
    // The others are read, or change nothing of a step.
    warn_of_others(
        config, "",
        {"model_spec", "hf_assets_path", "dump_folder", "profiler", "metrics", "tokenizer",
         "dataloader", "optimizer", "lr_scheduler", "training", "parallelism", "checkpoint",
         "activation_checkpoint", "compile", "comm", "validator", "debug", "loss"});
    const ConfigValue training = section("training", {"TrainingConfig"});
    sections_.set("training", training);
    for (const ConfigValue::Entry& entry : training.entries())
      if (entry.value.is_null())
        throw error(entry.line, "training." + entry.key, "expected a value, got None");
    sections_.set("parallelism", section("parallelism", {"ParallelismConfig"}));
    set_model(config);
    set_checkpointing(config);
    set_optimizer();
    set_compile();
    set_loss(config.get("loss"));
    for (const PythonResult::Skipped& skipped : result_.skipped)
      warn(skipped.line, skipped.text, "is not followed: what it changes is not predicted");
    return finished();
  }

 private:
  void warn(int line, std::string key, std::string message) {
    findings_.push_back({.rule = "not-modelled",
                         .severity = Severity::warning,
                         .file = file_,
                         .line = line,
                         .key = std::move(key),
                         .message = std::move(message),
                         .mend = {}});
  }

  Error error(int line, std::string_view key, std::string what) const {
    return Error({.where = fmt::format("{}:{}: {}", file_, line, key),
                  .what = std::move(what),
                  .way_out = "write its call with its values in this file, or give the settings "
                             "as options"});
  }

  void warn_of_others(const ConfigValue& call, const std::string& before, Known known) {
    if (!call.is_dict()) return;
    for (const ConfigValue::Entry& entry : call.entries())
      if (entry.key != callee_key && std::ranges::find(known, entry.key) == known.end())
        warn(entry.line, before + entry.key, "is not modelled: it is left out of the prediction");
  }

  /// A section as its call has it, with the callee. None where the file leaves it out.
  ConfigValue call_of(const std::string& name, Callees callees) const {
    const ConfigValue* given = result_.value.find(name);
    if (given == nullptr) return {};
    const std::string callee = callee_of(*given);
    const bool is_read = given->has(callee_key) && (callee.empty() || is_one_of(callee, callees));
    if (!is_read)
      throw error(given->line(), name,
                  fmt::format("expected a call of {}, got {}", fmt::join(callees, " or "),
                              callee.empty() ? given->str() : callee));
    const bool takes_places = is_one_of(callee, {"default_adamw", "model_registry"});
    if (given->has(takes_places ? "1" : "0"))
      throw error(given->line(), name, fmt::format("{} takes arguments by name only", callee));
    return *given;
  }

  /// What the section's call was given by name.
  ConfigValue section(const std::string& name, Callees callees) const {
    ConfigValue arguments = call_of(name, callees);
    if (arguments.is_null()) return ConfigValue::dict();
    arguments.erase(callee_key);
    return arguments;
  }

  void set_model(const ConfigValue& config) {
    ConfigValue model = ConfigValue::dict();
    const ConfigValue assets = config.get("hf_assets_path");
    if (assets.is_string()) model.set("hf_assets_path", assets);
    const bool has_spec = !config.get("model_spec").is_null();
    const ConfigValue spec = has_spec ? call_of("model_spec", {"model_registry"}) : ConfigValue();
    const ConfigValue flavor = spec.has("flavor") ? spec.get("flavor") : spec.get("0");
    if (flavor.is_string()) model.set("flavor", flavor);
    warn_of_others(spec, "model_spec.",
                   {"0", "flavor", "attn_backend", "moe_comm_backend", "tp_gemm_backend",
                    "num_mtp_layers", "converters"});
    played_as(spec, "attn_backend", "flex");
    played_as(spec, "moe_comm_backend", "standard");
    played_as(spec, "tp_gemm_backend", "default");
    if (const ConfigValue layers = spec.get("num_mtp_layers"); layers.truthy())
      warn(spec.line(), "model_spec.num_mtp_layers",
           "is not modelled: layers that predict further tokens are left out");
    set_converters(spec.get("converters"), model);
    sections_.set("model", std::move(model));
  }

  void played_as(const ConfigValue& spec, const char* key, std::string_view as) {
    const ConfigValue value = spec.get(key);
    if (value.is_null() || value.is(as)) return;
    warn(value.line(), fmt::format("model_spec.{}", key),
         fmt::format("is not modelled: {} is predicted as {}", value.str(), as));
  }

  void set_converters(const ConfigValue& converters, ConfigValue& model) {
    if (converters.is_null()) return;
    if (!converters.is_list())
      throw Error({.where = fmt::format("{}:{}: converters", file_, converters.line()),
                   .what = "are not known without running Python",
                   .way_out = "write a list of them"});
    ConfigValue names = ConfigValue::list();
    for (const ConfigValue& converter : converters.elements()) {
      std::string name = converter.is_dict() ? callee_of(converter) : converter.str();
      if (const std::size_t dot = name.find('.'); dot != std::string::npos) name.resize(dot);
      if (name == "Float8LinearConverter") {
        ConfigValue float8 = converter;
        float8.erase(callee_key);
        float8.erase("model_compile_enabled");
        if (!float8.has("recipe_name")) float8.set("recipe_name", "rowwise");
        sections_.set("float8", std::move(float8));
        name = "float8";
      }
      names.elements().emplace_back(name);
    }
    names.set_line(converters.line());
    model.set("converters", std::move(names));
  }

  void set_checkpointing(const ConfigValue& config) {
    ConfigValue section = ConfigValue::dict({{"mode", "none"}, {"selective_ac_option", "op"}});
    if (!config.has("activation_checkpoint") || !config.get("activation_checkpoint").is_null()) {
      const ConfigValue call =
          call_of("activation_checkpoint", {"SelectiveAC.Config", "FullAC.Config"});
      const bool is_full = callee_of(call).ends_with("FullAC.Config");
      section.set("mode", is_full ? "full" : "selective");
      ConfigValue others = call;
      // torchtitan's own list.
      constexpr std::string_view recomputed = "force_recompute_mm_shapes_by_fqns";
      if (others.get(recomputed) == ConfigValue::list({"moe.router.gate"}))
        others.erase(recomputed);
      warn_of_others(others, "activation_checkpoint.",
                     {"preserve_rng_state", "determinism_check", "debug"});
    }
    sections_.set("activation_checkpoint", std::move(section));
  }

  void set_optimizer() {
    const ConfigValue given = call_of("optimizer", {"OptimizersContainer.Config", "default_adamw"});
    std::vector<std::string> names;
    if (is_one_of(callee_of(given), {"default_adamw"}))
      names.emplace_back("AdamW");
    else if (given.has("param_groups") || !callee_of(given).empty())
      names = names_of_groups(given);
    std::ranges::sort(names);
    const auto repeated = std::ranges::unique(names);
    names.erase(repeated.begin(), repeated.end());
    ConfigValue section = ConfigValue::dict();
    if (!names.empty()) section.set("name", fmt::format("{}", fmt::join(names, " and ")));
    for (const char* key : {"implementation", "fused"})
      if (const ConfigValue value = given.get(key); !value.is_null()) section.set(key, value);
    warn_of_others(
        given, "optimizer.",
        {"0", "param_groups", "implementation", "fused", "lr", "betas", "eps", "weight_decay"});
    sections_.set("optimizer", std::move(section));
  }

  std::vector<std::string> names_of_groups(const ConfigValue& optimizer) {
    const ConfigValue groups = optimizer.get("param_groups");
    if (!groups.is_list() || groups.elements().empty())
      throw error(optimizer.line(), "optimizer.param_groups",
                  fmt::format("expected a list of ParamGroupConfig, got {}", groups.str()));
    std::vector<std::string> names;
    for (const ConfigValue& group : groups.elements()) {
      const ConfigValue name = group.get("optimizer_name");
      if (!name.is_string() || !is_one_of(callee_of(group), {"ParamGroupConfig"}))
        throw error(group.line(), "optimizer.param_groups",
                    "has a group whose optimizer_name is not known without running Python");
      names.push_back(name.string());
      const ConfigValue arguments = group.get("optimizer_kwargs");
      if (!arguments.is_null() && (!arguments.is_dict() || arguments.has(callee_key)))
        warn(arguments.line(), "optimizer_kwargs",
             "is not known: it is left out of the prediction");
      else
        warn_of_others(arguments, "optimizer_kwargs.", {"lr", "betas", "eps", "weight_decay"});
    }
    return names;
  }

  void set_compile() {
    ConfigValue compile = section("compile", {"CompileConfig"});
    constexpr std::string_view pipelined = "enable_async_tensor_parallel";
    if (const ConfigValue value = compile.get(pipelined); !value.is_null()) {
      sections_.find("parallelism")->set(pipelined, value);
      compile.erase(pipelined);
    }
    const ConfigValue parts = compile.get("components");
    if (parts.is_list() && parts.elements().empty()) compile.set("enable", false);
    sections_.set("compile", std::move(compile));
  }

  void set_loss(const ConfigValue& loss) {
    if (loss.is_null()) return;
    const std::string callee = callee_of(loss);
    if (loss.is_dict() && callee.empty()) return warn_of_others(loss, "loss.", {});
    if (!is_one_of(callee, {"ChunkedLossWrapper.Config"}))
      return warn(loss.line(), "loss", played_loss(callee.empty() ? loss.str() : callee));
    if (const ConfigValue parts = loss.get("num_chunks");
        loss.has("num_chunks") && !(parts == ConfigValue(predicted_chunks)))
      warn(parts.line(), "loss.num_chunks", played_loss(parts.str()));
    if (const ConfigValue of_part = loss.get("loss_fn");
        loss.has("loss_fn") && !is_one_of(callee_of(of_part), {"CrossEntropyLoss.Config"}))
      warn(of_part.line(), "loss.loss_fn",
           played_loss(callee_of(of_part).empty() ? of_part.str() : callee_of(of_part)));
    warn_of_others(loss, "loss.", {"num_chunks", "loss_fn"});
  }

  static std::string played_loss(const std::string& what) {
    return fmt::format("is not modelled: {} is predicted as a cross-entropy in {} parts", what,
                       predicted_chunks);
  }

  Recipe finished() {
    Recipe recipe = read_torchtitan(sections_, file_);
    const ConfigValue& assets = result_.value.get("hf_assets_path");
    recipe.model = assets.is_string() ? assets.string() : std::string();
    recipe.findings = by_line(std::move(recipe.findings), findings_);
    if (recipe.own_loop) recipe.own_loop->layers = "torchtitan-0.3";
    if (!result_.value.get("training").get("disable_cuda_graphs").truthy())
      recipe.assumed.emplace_back(
          "no CUDA graphs: the host launches each kernel (training.disable_cuda_graphs)");
    return recipe;
  }

  PythonResult result_;
  std::string file_;
  ConfigValue sections_ = ConfigValue::dict();
  std::vector<Finding> findings_;
};

std::string only_function(std::string_view text, const std::string& file) {
  const std::vector<std::string> names = python_functions(text, file);
  if (names.size() == 1) return names.front();
  if (names.empty())
    throw Error({.where = file,
                 .what = "has no function that can be called without arguments",
                 .way_out = "give torchtitan's TOML, or a module with a function that returns a "
                            "Trainer.Config"});
  throw Error({.where = file,
               .what = fmt::format("has {} functions", names.size()),
               .way_out = fmt::format("name one: {}:{} (or {})", file, names.front(),
                                      fmt::join(names.begin() + 1, names.end(), ", "))});
}

}  // namespace

Recipe read_torchtitan_python(std::string_view text, const PythonName& name) {
  const std::string function =
      name.function.empty() ? only_function(text, name.file) : name.function;
  PythonResult result = python_result(text, name.file, function);
  if (!callee_of(result.value).ends_with("Trainer.Config"))
    throw Error({.where = fmt::format("{}: {}", name.file, function),
                 .what = "returns no Trainer.Config that can be read",
                 .way_out = "give a function of torchtitan's config_registry.py"});
  return Sections(std::move(result), name.file).read();
}

}  // namespace shardscope::recipes
