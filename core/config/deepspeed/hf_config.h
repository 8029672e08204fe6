// accelerate's and transformers' view of a DeepSpeed configuration: a dict asked by long keys, with
// "auto" still in it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/values/config_value.h"
#include "core/config/values/environment.h"

namespace shardscope {

/// accelerate.utils.deepspeed.HfDeepSpeedConfig. Long keys are "zero_optimization.stage"; a section
/// that is no dict raises AttributeError, as there. Source: accelerate 1.15.0 utils/deepspeed.py.
class HfDeepSpeedConfig {
 public:
  /// `config` is a dict; anything else raises AttributeError.
  explicit HfDeepSpeedConfig(ConfigValue config);
  /// From a dict, the path of a file (read strictly as JSON: a comment raises JSONDecodeError),
  /// JSON text, or base64 of such.
  static HfDeepSpeedConfig load(const ConfigValue& file_or_dict, const ReadFile& read_file);

  const ConfigValue& config() const { return config_; }
  ConfigValue& config() { return config_; }

  /// config[long key] = value where the key stands at "auto"; nothing happens elsewhere.
  void replace_auto(std::string_view long_key, const ConfigValue& value);
  /// The value, or None.
  ConfigValue value(std::string_view long_key) const;
  bool is_auto(std::string_view long_key) const { return value(long_key).is("auto"); }
  bool is_true(std::string_view long_key) const { return value(long_key).truthy(); }

  /// Stage and offload are remembered when the configuration is made, and again when asked to.
  void set_stage_and_offload();
  bool is_zero2() const { return stage_ == ConfigValue(2); }
  bool is_zero3() const { return stage_ == ConfigValue(3); }
  bool is_offload() const { return offload_; }

 private:
  ConfigValue config_;
  ConfigValue stage_;
  bool offload_ = false;
};

/// value.get(key) of Python: None where it is missing, Refusal AttributeError where `value` is no
/// dict.
ConfigValue get_of_dict(const ConfigValue& value, std::string_view key);

/// The keys whose "auto" needs the hidden size of a model.
const std::vector<std::string>& hidden_size_keys();

}  // namespace shardscope
