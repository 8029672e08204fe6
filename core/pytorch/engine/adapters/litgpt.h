// litgpt's adapters: LLaMA-Adapter and LLaMA-Adapter v2. Source: litgpt 2685705, adapter.py and
// adapter_v2.py.
#pragma once

#include <cstdint>

#include "core/format/json_reader.h"
#include "core/pytorch/engine/adapters/quantized.h"
#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

struct LitgptAdapter {
  /// v2: every linear layer's result is shifted and scaled, and norms train.
  bool of_version_2 = false;
  std::int64_t prompt_length = 10;  ///< adapter_prompt_length
  std::int64_t first_layer = 2;     ///< adapter_start_layer
  bool operator==(const LitgptAdapter&) const = default;
};

struct LitgptAdapterRequest {
  const LitgptAdapter& adapter;
  const JsonValue& config;  ///< config.json of the model
  const QuantizedLayers& quantized;
  Dtype dtype;  ///< of what is trained
};
/// Freezes `root` and gives it what the adapter trains.
void put_litgpt_adapter(Session& s, Module& root, const LitgptAdapterRequest& request);

}  // namespace shardscope::eager
