// The model families: one file each, listed in family.cpp.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/model/config_reader.h"
#include "core/model/model.h"

namespace shardscope {

struct ModelFamily {
  std::string_view model_type;  ///< config.json's model_type
  std::string_view
      default_class;  ///< where config.json names no architecture: its causal language model
  std::vector<std::string_view> classes;  ///< those that can be built, the default one among them
  std::string_view default_config;  ///< JSON: every key that the config class has, with its default
  /// Other names of keys, as the config class's attribute_map: {"hidden_size", "n_embd"}.
  std::vector<std::pair<std::string_view, std::string_view>> config_aliases;
  /// `model` comes with family, class and dtype; parameters, modules and the decoder are filled in.
  void (*build)(const ConfigReader& config, Model& model);
};

/// In alphabetical order.
const std::vector<ModelFamily>& model_families();
/// Null if there is none.
const ModelFamily* find_family(std::string_view model_type);
/// The family's default_config, parsed.
JsonValue defaults_of(const ModelFamily& family);

ModelFamily gpt2_family();
ModelFamily llama_family();

}  // namespace shardscope
