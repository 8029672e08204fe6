#include "core/model/checkpoint_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/model/natural_order.h"

namespace shardscope {
namespace {

/// A tensor of the files: a parameter's, or a buffer.
struct Written {
  std::string key;
  Dtype dtype = Dtype::float32;
  Shape shape;
  std::int64_t block = -1;
  std::string_view name;  ///< in the model

  Bytes bytes() const { return bytes_of(elements_of(shape), dtype); }
};
using Shard = std::vector<Written>;

/// A buffer is renamed as a parameter of its module is.
std::string key_of(const std::string& buffer, const Shard& parameters) {
  const std::string module = buffer.substr(0, buffer.rfind('.') + 1);
  for (const Written& written : parameters) {
    if (!written.name.starts_with(module)) continue;
    const std::string_view own = written.name.substr(module.size());
    if (!written.key.ends_with(own)) continue;
    return written.key.substr(0, written.key.size() - own.size()) + buffer.substr(module.size());
  }
  return buffer;
}

/// Buffers that last stand in natural order, as the tensors that were renamed do.
Shard written_tensors(const Model& model) {
  Shard all;
  for (const StoredTensor& tensor : stored_tensors(model)) {
    const Parameter& parameter = model.parameters[tensor.parameter.value];
    all.push_back({.key = tensor.key,
                   .dtype = parameter.dtype,
                   .shape = tensor.shape,
                   .block = tensor.block,
                   .name = parameter.name});
  }
  if (model.stored.empty()) return all;
  for (const ModelBuffer& buffer : model.buffers) {
    if (!buffer.persistent) continue;
    const auto next = std::ranges::find_if(
        all, [&](const Written& other) { return comes_before(buffer.name, other.name); });
    all.insert(next, {.key = key_of(buffer.name, all),
                      .dtype = buffer.dtype,
                      .shape = buffer.shape,
                      .name = buffer.name});
  }
  return all;
}

/// The tensors in the order of the first of each block, blocks together.
std::vector<Shard> blocks_of(const Model& model) {
  std::vector<Shard> blocks;
  std::map<std::int64_t, std::size_t> place;
  for (Written& tensor : written_tensors(model)) {
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
    for (const Written& tensor : block) bytes += tensor.bytes();
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

SafetensorsHeader header_of(const Shard& shard) {
  std::vector<SafetensorsTensor> tensors;
  for (const Written& tensor : shard)
    tensors.push_back({.name = tensor.key, .dtype = tensor.dtype, .shape = tensor.shape});
  return safetensors_header(std::move(tensors), {{"format", "pt"}});
}

std::string index_text(const Model& model, const std::vector<CheckpointFile>& files) {
  Bytes total;
  for (const Parameter& parameter : model.parameters)
    total += bytes_of(parameter.elements(), parameter.dtype);
  if (!model.stored.empty())
    for (const ModelBuffer& buffer : model.buffers)
      if (buffer.persistent) total += bytes_of(elements_of(buffer.shape), buffer.dtype);
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
    result.files.push_back({.name = name, .header = header_of(shards[i])});
  }
  if (shards.size() > 1) result.index = index_text(model, result.files);
  return result;
}

}  // namespace shardscope
