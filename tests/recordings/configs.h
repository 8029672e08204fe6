// The kind `configs`: what accelerate, transformers and DeepSpeed make of configuration files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/config/values/finding.h"

namespace shardscope::recordings {

/// One recorded file of the kind.
struct ConfigsFile {
  std::string name;  ///< "accelerate_yaml"
  /// A case's input to its result, as record.py writes it but without the messages: what is not in
  /// the result of ours is a difference.
  nlohmann::ordered_json (*result)(const nlohmann::ordered_json& input);
  /// Compares what lint finds with the whole recorded result; null: lint is not asked.
  std::string (*findings_difference)(const nlohmann::ordered_json& input,
                                     const nlohmann::ordered_json& recorded) = nullptr;
};

/// What lint leaves out: an error where a stage failed, anything where the real tool warned; empty
/// where it says so.
std::string accelerate_findings_difference(const nlohmann::ordered_json& input,
                                           const nlohmann::ordered_json& recorded);

std::string deepspeed_findings_difference(const nlohmann::ordered_json& input,
                                          const nlohmann::ordered_json& recorded);
std::string training_args_findings_difference(const nlohmann::ordered_json& input,
                                              const nlohmann::ordered_json& recorded);
/// The same of findings that are there already.
std::string findings_difference(const std::vector<Finding>& findings,
                                const nlohmann::ordered_json& recorded);

/// Each takes a case's input.
nlohmann::ordered_json accelerate_yaml_result(const nlohmann::ordered_json& input);
nlohmann::ordered_json to_fsdp2_result(const nlohmann::ordered_json& input);
nlohmann::ordered_json wizard_result(const nlohmann::ordered_json& input);
nlohmann::ordered_json auto_accelerate_result(const nlohmann::ordered_json& input);
nlohmann::ordered_json auto_transformers_result(const nlohmann::ordered_json& input);
nlohmann::ordered_json deepspeed_estimators_result(const nlohmann::ordered_json& input);
nlohmann::ordered_json deepspeed_result(const nlohmann::ordered_json& input);
nlohmann::ordered_json estimate_result(const nlohmann::ordered_json& input);
nlohmann::ordered_json training_args_result(const nlohmann::ordered_json& input);

}  // namespace shardscope::recordings
