// Cases of tests/data/*/steps.json: steps that PyTorch ran, and the memory that they took.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/format/json_reader.h"

namespace shardscope {

struct RecordedStep {
  JsonValue json;
  std::string name() const { return json.at("name").string(); }
  bool flag(const char* key) const { return json.at(key).integer() != 0; }
  /// Missing: 0.
  bool optional_flag(const char* key) const {
    const auto value = json.find(key);
    return value && value->integer() != 0;
  }
};

inline std::vector<RecordedStep> recorded_steps(const std::string& path) {
  const JsonValue file = JsonValue::read_file(path);
  std::vector<RecordedStep> all;
  for (std::size_t i = 0; i < file.size(); ++i) all.push_back({file[i]});
  return all;
}

}  // namespace shardscope
