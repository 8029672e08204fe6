#include "core/model/model_folder.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "core/format/atomic_file.h"
#include "core/model/checkpoint_files.h"
#include "core/model/config_text.h"

namespace shardscope {
namespace {

constexpr std::int64_t piece_elements = std::int64_t{1} << 22;

/// The model as it is written: the native runtime trains in float32, and nothing of that is rounded
/// away.
Model as_written(Model model) {
  model.dtype = Dtype::float32;
  for (Parameter& parameter : model.parameters) parameter.dtype = Dtype::float32;
  return model;
}

/// What the tensors of the files are parts of, by key.
using Sources = std::unordered_map<std::string, StoredTensor>;

Sources sources_of(const Model& model) {
  Sources sources;
  for (StoredTensor& tensor : stored_tensors(model)) sources.emplace(tensor.key, tensor);
  return sources;
}

std::vector<ParameterPiece> pieces_of(const StoredTensor& tensor) {
  std::vector<ParameterPiece> pieces;
  for (std::int64_t first = 0; first < tensor.elements(); first += piece_elements)
    pieces.push_back({.parameter = tensor.parameter,
                      .first = tensor.first + first,
                      .elements = std::min(piece_elements, tensor.elements() - first)});
  return pieces;
}

void write_file(const std::filesystem::path& folder, const CheckpointFile& file,
                const Sources& sources, const ParameterSource& source) {
  SafetensorsWriter writer(folder / file.name, file.header);
  std::vector<float> values;
  for (const SafetensorsTensor& tensor : file.header.tensors) {
    const auto known = sources.find(tensor.name);
    if (known == sources.end()) {  // a buffer, which is zeros when it is made
      const std::vector<std::byte> zeros(
          static_cast<std::size_t>(bytes_of(elements_of(tensor.shape), tensor.dtype).count));
      writer.write(zeros);
      continue;
    }
    for (const ParameterPiece& piece : pieces_of(known->second)) {
      values.resize(static_cast<std::size_t>(piece.elements));
      source(piece.parameter, piece.first, values);
      writer.write(std::as_bytes(std::span(values)));
    }
  }
  writer.commit();
}

}  // namespace

std::vector<ParameterPiece> pieces_to_write(const Model& model) {
  std::vector<ParameterPiece> pieces;
  const Sources sources = sources_of(model);
  for (const CheckpointFile& file : checkpoint_files(as_written(model)).files)
    for (const SafetensorsTensor& tensor : file.header.tensors)
      for (const ParameterPiece& piece : pieces_of(sources.at(tensor.name)))
        pieces.push_back(piece);
  return pieces;
}

void write_model_folder(const std::filesystem::path& folder, const Model& model,
                        const JsonValue& config, const ParameterSource& source) {
  const Model written = as_written(model);
  const CheckpointFiles checkpoint = checkpoint_files(written);
  const Sources sources = sources_of(written);
  create_folder(folder);
  for (const CheckpointFile& file : checkpoint.files) write_file(folder, file, sources, source);
  if (!checkpoint.index.empty())
    write_atomically(folder / "model.safetensors.index.json", checkpoint.index);
  const std::string generation = generation_config_text(config, written);
  if (!generation.empty()) write_atomically(folder / "generation_config.json", generation);
  write_atomically(folder / "config.json", config_text(config, written));
}

}  // namespace shardscope
