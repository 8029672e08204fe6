#include "sim/planner/shallow.h"

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "core/pytorch/runtimes/training/requested_setup.h"

namespace shardscope::planner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array depth_keys{"num_hidden_layers", "n_layer", "num_layers", "n_layers"};

bool is_of(std::string_view name, std::string_view block) {
  return name == block || (name.starts_with(block) && name.substr(block.size()).starts_with('.'));
}

/// Names inside a block, shapes and dtypes of its parameters.
using Inside = std::vector<std::pair<std::string, Parameter>>;

Inside inside(const Model& model, const std::string& block) {
  Inside result;
  for (const Parameter& parameter : model.parameters)
    if (is_of(parameter.name, block)) {
      Parameter alike = parameter;
      alike.name = parameter.name.substr(block.size());
      alike.initialization = {};
      result.emplace_back(alike.name, std::move(alike));
    }
  return result;
}

bool are_alike(const Model& model, const std::vector<std::string>& blocks) {
  const Inside first = inside(model, blocks.front());
  return !first.empty() && std::all_of(blocks.begin() + 1, blocks.end(), [&](const auto& block) {
    return inside(model, block) == first;
  });
}

bool says_depth(const Json& config, std::size_t blocks) {
  return std::any_of(depth_keys.begin(), depth_keys.end(), [&](const char* key) {
    return config.contains(key) && config[key] == blocks;
  });
}

/// Layers that attend differently, or of another kind.
bool tells_layers_apart(const Json& config) {
  const auto is_set = [&](const char* key) {
    return config.contains(key) && !config[key].is_null() && config[key] != false;
  };
  if (is_set("use_sliding_window")) return true;
  const auto has_list = [](const Json& value) {
    return value.is_array() && value.size() > 1 &&
           std::any_of(value.begin(), value.end(),
                       [&](const Json& one) { return one != value[0]; });
  };
  return std::any_of(config.begin(), config.end(), has_list);
}

Json cut_config(Json config, std::size_t from, std::size_t to) {
  for (auto& [key, value] : config.items()) {
    if (std::any_of(depth_keys.begin(), depth_keys.end(),
                    [&, &k = key](const char* depth) { return k == depth; }) &&
        value == from)
      value = to;
    if (value.is_array() && value.size() == from)
      value.erase(value.begin() + long(to), value.end());
  }
  return config;
}

std::vector<std::string> block_names(const Model& model) {
  return eager::checkpointing_of(model, {.every = 1}).modules;
}

Model cut_model(Model model, std::span<const std::string> left_out) {
  const auto is_cut = [&](std::string_view name) {
    return std::ranges::any_of(left_out,
                               [&](const std::string& block) { return is_of(name, block); });
  };
  std::erase_if(model.parameters, [&](const Parameter& p) { return is_cut(p.name); });
  std::erase_if(model.tied, [&](const TiedName& t) { return is_cut(t.later) || is_cut(t.first); });
  std::erase_if(model.buffers, [&](const ModelBuffer& b) { return is_cut(b.name); });
  std::erase_if(model.modules, [&](const Module& m) { return is_cut(m.name); });
  std::erase_if(model.registered_names, [&](const std::string& name) { return is_cut(name); });
  // They index the parameters of all blocks, and PyTorch's runtimes do not read them.
  model.stored.clear();
  model.decoder.reset();
  return model;
}

/// The first `blocks` of the model's.
Model with_first(const Model& model, int blocks) {
  const std::vector<std::string> names = block_names(model);
  return cut_model(model, std::span(names).subspan(static_cast<std::size_t>(blocks)));
}

}  // namespace

std::optional<Depths> depths_of(int blocks, int period, int periods) {
  const int rest = blocks % period;
  const int few = std::max(2, period * periods) + rest;
  const Depths depths{.few = few, .more = few + period};
  const bool has_rest = (blocks - few) % period != 0;
  if (has_rest || 5 * (depths.few + depths.more) > 3 * blocks) return std::nullopt;
  return depths;
}

ShallowModels::ShallowModels(const Model& model, const JsonValue& config, const Training& training)
    : model_(model), training_(training), text_(config.dump()) {
  const std::vector<std::string> names = block_names(model);
  const Json json = Json::parse(text_, nullptr, false);
  if (names.size() > 1 && json.is_object() && says_depth(json, names.size()) &&
      !tells_layers_apart(json) && are_alike(model, names))
    blocks_ = static_cast<int>(names.size());
}

const ShallowModels::Cut& ShallowModels::with(int blocks) const {
  const std::scoped_lock lock(mutex_);
  std::unique_ptr<Cut>& cut = cuts_[blocks];
  if (cut) return *cut;
  const Json config = cut_config(Json::parse(text_), static_cast<std::size_t>(blocks_),
                                 static_cast<std::size_t>(blocks));
  cut = std::make_unique<Cut>(Cut{.model = with_first(model_, blocks),
                                  .config = JsonValue::parse(config.dump(), "config.json"),
                                  .training = training_});
  if (auto& tuning = cut->training.fine_tuning)
    tuning->base = std::make_shared<const Model>(with_first(*tuning->base, blocks));
  return *cut;
}

}  // namespace shardscope::planner
