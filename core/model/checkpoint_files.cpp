#include "core/model/checkpoint_files.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace shardscope {
namespace {

Bytes bytes_of_parameter(const Parameter& parameter) {
  return bytes_of(parameter.elements(), parameter.dtype);
}

using Shard = std::vector<const Parameter*>;

std::vector<Shard> shards_of(const Model& model, Bytes max_shard) {
  std::vector<Shard> shards;
  Shard current;
  Bytes filled;
  for (const Parameter& parameter : model.parameters) {
    const Bytes bytes = bytes_of_parameter(parameter);
    if (bytes > max_shard) {
      shards.push_back({&parameter});
      continue;
    }
    if (filled + bytes > max_shard) {
      shards.push_back(std::move(current));
      current.clear();
      filled = {};
    }
    current.push_back(&parameter);
    filled += bytes;
  }
  if (!current.empty()) shards.push_back(std::move(current));
  return shards;
}

SafetensorsHeader header_of(const Shard& shard) {
  std::vector<SafetensorsTensor> tensors;
  for (const Parameter* parameter : shard)
    tensors.push_back(
        {.name = parameter->name, .dtype = parameter->dtype, .shape = parameter->shape});
  return safetensors_header(std::move(tensors), {{"format", "pt"}});
}

std::string index_text(const Model& model, const std::vector<CheckpointFile>& files) {
  Bytes total;
  for (const Parameter& parameter : model.parameters) total += bytes_of_parameter(parameter);
  nlohmann::json weight_map;  // sorted by key
  for (const CheckpointFile& file : files)
    for (const SafetensorsTensor& tensor : file.header.tensors) weight_map[tensor.name] = file.name;
  const nlohmann::json index{
      {"metadata", {{"total_parameters", model.parameter_elements()}, {"total_size", total.count}}},
      {"weight_map", weight_map}};
  constexpr int indent = 2;
  return index.dump(indent) + "\n";
}

}  // namespace

CheckpointFiles checkpoint_files(const Model& model, Bytes max_shard) {
  const std::vector<Shard> shards = shards_of(model, max_shard);
  CheckpointFiles result;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name =
        shards.size() == 1 ? "model.safetensors"
                           : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    result.files.push_back({.name = name, .header = header_of(shards[i])});
  }
  if (shards.size() > 1) result.index = index_text(model, result.files);
  return result;
}

}  // namespace shardscope
