#include "core/model/checkpoint_files.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

namespace shardscope {
namespace {

Dtype dtype_of(const Model& model, const StoredTensor& tensor) {
  return model.parameters[tensor.parameter.value].dtype;
}

Bytes bytes_of_tensor(const Model& model, const StoredTensor& tensor) {
  return bytes_of(tensor.elements(), dtype_of(model, tensor));
}

using Shard = std::vector<StoredTensor>;

/// The tensors in the order of the first of each block, blocks together.
std::vector<Shard> blocks_of(const Model& model) {
  std::vector<Shard> blocks;
  std::map<std::int64_t, std::size_t> place;
  for (StoredTensor& tensor : stored_tensors(model)) {
    const auto known = tensor.block < 0 ? place.end() : place.find(tensor.block);
    if (known != place.end()) {
      blocks[known->second].push_back(std::move(tensor));
      continue;
    }
    if (tensor.block >= 0) place[tensor.block] = blocks.size();
    blocks.push_back({std::move(tensor)});
  }
  return blocks;
}

std::vector<Shard> shards_of(const Model& model, Bytes max_shard) {
  std::vector<Shard> shards;
  Shard current;
  Bytes filled;
  for (Shard& block : blocks_of(model)) {
    Bytes bytes;
    for (const StoredTensor& tensor : block) bytes += bytes_of_tensor(model, tensor);
    if (bytes > max_shard) {
      shards.push_back(std::move(block));
      continue;
    }
    if (filled + bytes > max_shard) {
      shards.push_back(std::move(current));
      current.clear();
      filled = {};
    }
    current.insert(current.end(), block.begin(), block.end());
    filled += bytes;
  }
  if (!current.empty()) shards.push_back(std::move(current));
  return shards;
}

SafetensorsHeader header_of(const Model& model, const Shard& shard) {
  std::vector<SafetensorsTensor> tensors;
  for (const StoredTensor& tensor : shard)
    tensors.push_back(
        {.name = tensor.key, .dtype = dtype_of(model, tensor), .shape = tensor.shape});
  return safetensors_header(std::move(tensors), {{"format", "pt"}});
}

std::string index_text(const Model& model, const std::vector<CheckpointFile>& files) {
  Bytes total;
  for (const Parameter& parameter : model.parameters)
    total += bytes_of(parameter.elements(), parameter.dtype);
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

std::vector<StoredTensor> stored_tensors(const Model& model) {
  if (!model.stored.empty()) return model.stored;
  std::vector<StoredTensor> tensors;
  for (std::size_t i = 0; i < model.parameters.size(); ++i)
    tensors.push_back({.key = model.parameters[i].name,
                       .parameter = ParameterId::of(i),
                       .shape = model.parameters[i].shape});
  return tensors;
}

CheckpointFiles checkpoint_files(const Model& model, Bytes max_shard) {
  const std::vector<Shard> shards = shards_of(model, max_shard);
  CheckpointFiles result;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name =
        shards.size() == 1 ? "model.safetensors"
                           : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    result.files.push_back({.name = name, .header = header_of(model, shards[i])});
  }
  if (shards.size() > 1) result.index = index_text(model, result.files);
  return result;
}

}  // namespace shardscope
