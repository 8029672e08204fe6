// What "auto" in a DeepSpeed configuration needs to know of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/deepspeed/hf_config.h"
#include "core/format/json_reader.h"

namespace shardscope {

struct ModelWidths {
  bool has_config = true;                   ///< model.config exists
  std::optional<std::int64_t> hidden_size;  ///< config.hidden_size
  std::vector<std::int64_t> hidden_sizes;   ///< config.hidden_sizes; empty: there are none
  std::vector<std::string> classes;         ///< class names of all modules; for MoE leaf modules

  /// The width that both tools multiply: hidden_size, else the largest of hidden_sizes.
  std::optional<std::int64_t> width() const;
};

/// The width that the "auto" among hidden_size_keys() need; none where none stands there. Throws
/// Refusal (ValueError), as both tools raise, where the model's config has none.
std::optional<std::int64_t> width_for_autos(const HfDeepSpeedConfig& config,
                                            const ModelWidths& model);

/// int(0.9 * width * width) as Python computes it: elements of stage3_prefetch_bucket_size.
std::int64_t prefetch_elements(std::int64_t width);
/// The widths in a Hugging Face config.json, under the names that transformers reads them by
/// ("n_embd" of gpt2, "d_model" of t5).
ModelWidths widths_of_config(const JsonValue& config);

}  // namespace shardscope
