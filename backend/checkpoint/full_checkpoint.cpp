#include "backend/checkpoint/full_checkpoint.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "backend/checkpoint/checksum.h"
#include "backend/checkpoint/streamed_file.h"
#include "core/format/safetensors.h"
#include "core/model/checkpoint_files.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t elements_at_once = std::int64_t{1} << 22;

Model in_float32(Model model) {
  model.dtype = Dtype::float32;
  for (Parameter& parameter : model.parameters) parameter.dtype = Dtype::float32;
  return model;
}

class StateWriter {
 public:
  StateWriter(const fs::path& folder, const Model& model)
      : folder_(folder), model_(in_float32(model)), files_(checkpoint_files(model_)) {
    for (StoredTensor& tensor : stored_tensors(model_)) stored_.emplace(tensor.key, tensor);
  }

  /// Of the files that write_model_folder has written.
  std::vector<StoredFile> described(const WholeState& state) const {
    std::vector<StoredFile> files;
    for (const CheckpointFile& file : files_.files) {
      const SafetensorsHeader header = read_safetensors_header(folder_ / file.name);
      files.push_back({.name = file.name,
                       .bytes = header.file_bytes,
                       .header_crc32 = crc32_of(header_bytes(header)),
                       .keys = {}});
      for (const SafetensorsTensor& tensor : header.tensors) {
        StreamedTensor stored = streamed(state, tensor);
        stored.key.crc32 = checksums_of(stored, tensor.elements());
        files.back().keys.push_back(std::move(stored.key));
      }
    }
    return files;
  }

  std::vector<StoredFile> written(const WholeState& state) const {
    std::vector<StoredFile> files;
    for (const CheckpointFile& file : files_.files) {
      std::vector<StreamedTensor> trained;
      for (const SafetensorsTensor& tensor : file.header.tensors)
        if (parameter_of(tensor.name).trainable) trained.push_back(streamed(state, tensor));
      if (trained.empty()) continue;
      const std::string name = state.name + file.name.substr(std::string_view("model").size());
      files.push_back(stream_file(folder_, name, std::move(trained)));
    }
    return files;
  }

 private:
  const Parameter& parameter_of(const std::string& key) const {
    return model_.parameters[stored_.at(key).parameter.value];
  }

  StreamedTensor streamed(const WholeState& state, const SafetensorsTensor& tensor) const {
    const StoredTensor& stored = stored_.at(tensor.name);
    const Parameter& parameter = parameter_of(tensor.name);
    return {.key = {.key = tensor.name,
                    .dtype = Dtype::float32,
                    .crc32 = {},
                    .pieces = {{.tensor = tensor_name(state.name, parameter.name),
                                .shape = parameter.shape,
                                .first = stored.first,
                                .elements = stored.elements()}}},
            .shape = tensor.shape,
            .values = [&state, &stored](std::int64_t first, std::span<float> out) {
              state.source(stored.parameter, stored.first + first, out);
            }};
  }

  static std::vector<std::uint32_t> checksums_of(const StreamedTensor& tensor,
                                                 std::int64_t elements) {
    ChunkChecksums checksums;
    std::vector<float> values;
    for (std::int64_t done = 0; done < elements; done += elements_at_once) {
      values.resize(static_cast<std::size_t>(std::min(elements_at_once, elements - done)));
      tensor.values(done, values);
      checksums.add(std::as_bytes(std::span(values)));
    }
    return checksums.take();
  }

  const fs::path& folder_;
  Model model_;
  CheckpointFiles files_;
  std::unordered_map<std::string, StoredTensor> stored_;
};

}  // namespace

std::vector<StoredFile> write_whole_states(const fs::path& folder, const Model& model,
                                           const JsonValue& config,
                                           const std::vector<WholeState>& states) {
  const StateWriter writer(folder, model);
  std::vector<StoredFile> all;
  for (const WholeState& state : states) {
    const bool is_model = state.name == parameters_state;
    if (is_model) write_model_folder(folder, model, config, state.source);
    std::vector<StoredFile> files = is_model ? writer.described(state) : writer.written(state);
    std::move(files.begin(), files.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace shardscope
