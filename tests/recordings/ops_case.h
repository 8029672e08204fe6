// One case of the kind `ops`: its settings, its tensors, and the comparison of ours with PyTorch's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/format/safetensors.h"
#include "tests/recordings/recordings.h"

namespace shardscope::recordings {

/// A case of OP.json with the tensors OP.safetensors/CASE/... .
class OpsCase {
 public:
  /// `name` is "layer_norm/odd".
  OpsCase(const std::filesystem::path& folder, const std::string& name, const Options& options);

  const std::string& operation() const { return operation_; }
  const nlohmann::ordered_json& settings() const { return settings_; }
  std::int64_t integer(const char* key) const { return settings_.at(key).get<std::int64_t>(); }
  double number(const char* key) const { return settings_.at(key).get<double>(); }

  std::vector<float> input(const std::string& name) const { return tensor<float>("in/" + name); }
  std::vector<std::int64_t> integers(const std::string& name) const {
    return tensor<std::int64_t>("in/" + name);
  }
  const std::vector<std::int64_t>& shape_of_input(const std::string& name) const {
    return find("in/" + name).shape;
  }

  /// Compares an output with the recorded fp64 one. Allowed is the larger of 8 times the recorded
  /// largest error of PyTorch's own fp32 and 4 units in the last place of the output's largest
  /// value; NaN must stand where NaN was recorded.
  void compare(const std::string& output, const std::vector<double>& ours);
  void compare(const std::string& output, const std::vector<float>& ours) {
    compare(output, std::vector<double>(ours.begin(), ours.end()));
  }
  /// Compares with given numbers, `allowed` absolute.
  void compare(const std::string& output, const std::vector<double>& ours,
               const std::vector<double>& expected, double allowed);

  const Outcome& outcome() const { return outcome_; }

 private:
  template <class T>
  std::vector<T> tensor(const std::string& name) const {
    const SafetensorsTensor& found = find(name);
    std::vector<T> values(static_cast<std::size_t>(found.elements()));
    tensors_.front().read(found, 0, std::as_writable_bytes(std::span(values)));
    return values;
  }
  const SafetensorsTensor& find(const std::string& name) const;
  double recorded_error(const std::string& output) const;

  std::string operation_;
  std::string case_;
  const Options& options_;
  nlohmann::ordered_json settings_;
  std::vector<SafetensorsFile> tensors_;  ///< one, or none where an operation has only JSON
  Outcome outcome_;
};

// One function for each operation: runs our kernels and compares every output.
void check_layer_norm(OpsCase& c);
void check_rms_norm(OpsCase& c);
void check_gelu_tanh(OpsCase& c);
void check_swiglu(OpsCase& c);
void check_rope(OpsCase& c);
void check_causal_attention(OpsCase& c);
void check_cross_entropy(OpsCase& c);
void check_embedding(OpsCase& c);
void check_adamw(OpsCase& c);
void check_sgd(OpsCase& c);
void check_clip_grad_norm(OpsCase& c);
void check_schedule(OpsCase& c);

}  // namespace shardscope::recordings
