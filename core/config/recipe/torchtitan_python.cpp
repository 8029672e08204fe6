// torchtitan's Trainer.Config of 0.3 as the sections of its older TOML.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

/// What a call was given by name.
ConfigValue arguments_of(const ConfigValue& call) {
  ConfigValue arguments = call.is_dict() ? call : ConfigValue::dict();
  arguments.erase(callee_key);
  return arguments;
}

class Sections {
 public:
  Sections(PythonResult result, std::string file)
      : result_(std::move(result)), file_(std::move(file)) {}

  Recipe read() {
    const ConfigValue& config = result_.value;
    for (const char* name : {"training", "parallelism"})
      sections_.set(name, arguments_of(config.get(name)));
    set_model(config);
    set_checkpointing(config);
    set_optimizer(config.get("optimizer"));
    set_compile(config.get("compile"));
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

  void set_model(const ConfigValue& config) {
    ConfigValue model = ConfigValue::dict();
    const ConfigValue assets = config.get("hf_assets_path");
    if (assets.is_string()) model.set("hf_assets_path", assets);
    const ConfigValue spec = config.get("model_spec");
    const ConfigValue flavor = spec.has("flavor") ? spec.get("flavor") : spec.get("0");
    if (flavor.is_string()) model.set("flavor", flavor);
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
      std::string name = callee_of(converter);
      if (const std::size_t dot = name.find('.'); dot != std::string::npos) name.resize(dot);
      if (name == "Float8LinearConverter") {
        ConfigValue float8 = arguments_of(converter);
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
    const ConfigValue given = config.get("activation_checkpoint");
    std::string kind = callee_of(given);
    if (!config.has("activation_checkpoint")) kind = "SelectiveAC";
    if (given.is_null() && config.has("activation_checkpoint")) kind = "none";
    if (const std::size_t dot = kind.find('.'); dot != std::string::npos) kind.resize(dot);
    ConfigValue section = ConfigValue::dict({{"mode", kind}, {"selective_ac_option", "op"}});
    if (kind == "SelectiveAC") section.set("mode", "selective");
    if (kind == "FullAC") section.set("mode", "full");
    sections_.set("activation_checkpoint", std::move(section));
  }

  /// default_adamw has one group of AdamW.
  void set_optimizer(const ConfigValue& given) {
    std::vector<std::string> names;
    const ConfigValue groups = given.get("param_groups");
    if (groups.is_list())
      for (const ConfigValue& group : groups.elements())
        names.push_back(group.get("optimizer_name").str());
    std::ranges::sort(names);
    const auto repeated = std::ranges::unique(names);
    names.erase(repeated.begin(), repeated.end());
    ConfigValue section = ConfigValue::dict();
    if (!names.empty()) section.set("name", fmt::format("{}", fmt::join(names, " and ")));
    for (const char* key : {"implementation", "fused"})
      if (const ConfigValue value = given.get(key); !value.is_null()) section.set(key, value);
    sections_.set("optimizer", std::move(section));
  }

  void set_compile(const ConfigValue& given) {
    ConfigValue compile = arguments_of(given);
    constexpr std::string_view pipelined = "enable_async_tensor_parallel";
    if (const ConfigValue value = compile.get(pipelined); !value.is_null()) {
      sections_.find("parallelism")->set(pipelined, value);
      compile.erase(pipelined);
    }
    sections_.set("compile", std::move(compile));
  }

  void set_loss(const ConfigValue& loss) {
    const std::string callee = callee_of(loss);
    if (!loss.is_null() && !callee.starts_with("ChunkedLossWrapper"))
      warn(loss.line(), "loss",
           fmt::format("is not modelled: {} is predicted as a cross-entropy in 8 parts",
                       callee.empty() ? loss.str() : callee));
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
  if (!callee_of(result.value).ends_with("Config"))
    throw Error({.where = fmt::format("{}: {}", name.file, function),
                 .what = "returns no Trainer.Config that can be read",
                 .way_out = "give a function of torchtitan's config_registry.py"});
  return Sections(std::move(result), name.file).read();
}

}  // namespace shardscope::recipes
