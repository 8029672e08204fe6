// What the forwards of one model share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/format/json_reader.h"
#include "core/pytorch/engine/models/make_module.h"
#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

/// The config object as transformers completes it.
class ModelConfig {
 public:
  /// Without dropout every probability of it is 0.
  explicit ModelConfig(JsonValue json, bool dropout = true)
      : json_(std::move(json)), dropout_(dropout) {}

  /// Missing or null.
  bool lacks(std::string_view key) const { return !find(key); }
  std::int64_t integer(std::string_view key) const { return json_.at(key).integer(); }
  double number(std::string_view key) const;
  std::string text(std::string_view key) const { return json_.at(key).string(); }
  bool flag(std::string_view key) const;  ///< missing: false
  std::optional<std::int64_t> find_integer(std::string_view key) const;
  std::optional<double> find_number(std::string_view key) const;
  /// layer_types[layer]; empty: the config has none.
  std::string layer_type(std::size_t layer) const;
  std::optional<JsonValue> find(std::string_view key) const { return json_.find(key); }

 private:
  bool is_switched_off(std::string_view key) const;

  JsonValue json_;
  bool dropout_;
};

/// DynamicCache: keys and values of each layer. Lives for one forward.
struct KeyValueCache {
  struct Layer {
    Tensor keys, values;
    Tensor window;  ///< of a sliding layer: its size as a tensor
  };
  std::vector<Layer> layers;
};

struct ModelContext {
  ModelConfig config;
  ModelSettings settings;
  /// Of the forward that is running; null: use_cache is off.
  std::shared_ptr<KeyValueCache> cache = nullptr;
  /// Of the forward that is running, where the config wants them: its routers' logits, by layer.
  Tensors router_logits = {};
};
using Context = std::shared_ptr<ModelContext>;

/// How the modules of a class run. Classes are asked by full name.
struct ClassForward {
  std::string_view class_name;
  Module::Forward (*make)(const Context& context, const Module& module);
};

/// The tables of the families.
std::span<const ClassForward> afmoe_forwards();
std::span<const ClassForward> bert_forwards();
std::span<const ClassForward> bloom_forwards();
std::span<const ClassForward> deepseek_v3_forwards();
std::span<const ClassForward> gated_decoder_forwards();
std::span<const ClassForward> gemma4_forwards();
std::span<const ClassForward> gpt2_forwards();
std::span<const ClassForward> gpt_neox_forwards();
std::span<const ClassForward> gpt_oss_forwards();
std::span<const ClassForward> gptj_forwards();
std::span<const ClassForward> lfm2_forwards();
std::span<const ClassForward> litgpt_forwards();
std::span<const ClassForward> llama4_forwards();
std::span<const ClassForward> mixtral_forwards();
std::span<const ClassForward> mixtral_head_forwards();
std::span<const ClassForward> opt_forwards();
std::span<const ClassForward> qwen_forwards();
std::span<const ClassForward> roberta_forwards();
std::span<const ClassForward> t5_attention_forwards();
std::span<const ClassForward> t5_forwards();
/// Classes of PyTorch and those that several families have.
std::span<const ClassForward> common_forwards();

/// The number in a layer's name: 3 of "model.layers.3.self_attn".
std::size_t layer_number(std::string_view module_name);
bool has_child(const Module& module, std::string_view own_name);
/// The last part of a name.
std::string_view own_name(std::string_view module_name);

}  // namespace shardscope::eager
