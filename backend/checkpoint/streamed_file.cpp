#include "backend/checkpoint/streamed_file.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "backend/checkpoint/checksum.h"
#include "core/base/bfloat16.h"
#include "core/format/safetensors.h"

namespace shardscope {
namespace {

constexpr std::int64_t elements_at_once = std::int64_t{1} << 22;

/// The values as `dtype` stores them; `rounded` is room for that.
std::span<const std::byte> stored(std::span<const float> values, Dtype dtype,
                                  std::vector<Bfloat16>& rounded) {
  if (dtype == Dtype::float32) return std::as_bytes(values);
  rounded.resize(values.size());
  std::ranges::transform(values, rounded.begin(), to_bfloat16);
  return std::as_bytes(std::span<const Bfloat16>(rounded));
}

}  // namespace

StoredFile stream_file(const std::filesystem::path& folder, const std::string& name,
                       std::vector<StreamedTensor> tensors) {
  std::vector<SafetensorsTensor> header;
  std::map<std::string_view, StreamedTensor*> by_key;
  for (StreamedTensor& tensor : tensors) {
    header.push_back({.name = tensor.key.key, .dtype = tensor.key.dtype, .shape = tensor.shape});
    by_key.emplace(tensor.key.key, &tensor);
  }
  SafetensorsWriter writer(folder / name,
                           safetensors_header(std::move(header), {{"format", "pt"}}));
  std::vector<float> values;
  std::vector<Bfloat16> rounded;
  for (const SafetensorsTensor& in_file : writer.header().tensors) {
    StreamedTensor& tensor = *by_key.at(in_file.name);
    ChunkChecksums checksums;
    for (std::int64_t done = 0; done < in_file.elements(); done += elements_at_once) {
      values.resize(
          static_cast<std::size_t>(std::min(elements_at_once, in_file.elements() - done)));
      tensor.values(done, values);
      const auto bytes = stored(values, tensor.key.dtype, rounded);
      checksums.add(bytes);
      writer.write(bytes);
    }
    tensor.key.crc32 = checksums.take();
  }
  writer.commit();
  StoredFile file{.name = name,
                  .bytes = writer.header().file_bytes,
                  .header_crc32 = crc32_of(header_bytes(writer.header())),
                  .keys = {}};
  for (StreamedTensor& tensor : tensors) file.keys.push_back(std::move(tensor.key));
  return file;
}

}  // namespace shardscope
