#include "backend/checkpoint/streamed_file.h"

#include <algorithm>
#include <functional>
#include <future>
#include <map>
#include <string_view>
#include <utility>

#include "backend/checkpoint/checksum.h"
#include "backend/checkpoint/direct_file.h"
#include "core/base/bfloat16.h"
#include "core/format/safetensors.h"

namespace shardscope {
namespace {

constexpr std::int64_t elements_at_once = std::int64_t{1} << 21;

/// The values as `dtype` stores them; `rounded` is room for that.
std::span<const std::byte> stored(std::span<const float> values, Dtype dtype,
                                  std::vector<Bfloat16>& rounded) {
  if (dtype == Dtype::float32) return std::as_bytes(values);
  rounded.resize(values.size());
  std::ranges::transform(values, rounded.begin(), to_bfloat16);
  return std::as_bytes(std::span<const Bfloat16>(rounded));
}

struct Piece {
  StreamedTensor* tensor = nullptr;
  std::int64_t first = 0, elements = 0;
};

/// Gives the values of each piece to `use`, in order, while those of the next are made on another
/// thread.
void for_values(const std::vector<Piece>& pieces,
                const std::function<void(const Piece&, std::span<const float>)>& use) {
  std::vector<float> now, next;
  std::future<void> making;
  const auto make = [&](const Piece& piece) {
    next.resize(static_cast<std::size_t>(piece.elements));
    making = std::async(std::launch::async, [&] { piece.tensor->values(piece.first, next); });
  };
  if (!pieces.empty()) make(pieces.front());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    making.get();
    now.swap(next);
    if (i + 1 < pieces.size()) make(pieces[i + 1]);
    use(pieces[i], now);
  }
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
  const SafetensorsHeader written = safetensors_header(std::move(header), {{"format", "pt"}});
  const std::string begin = header_bytes(written);
  DirectFile file(folder / name);
  file.write(std::as_bytes(std::span(begin)));
  std::vector<Piece> pieces;
  for (const SafetensorsTensor& in_file : written.tensors)
    for (std::int64_t done = 0; done < in_file.elements(); done += elements_at_once)
      pieces.push_back({.tensor = by_key.at(in_file.name),
                        .first = done,
                        .elements = std::min(elements_at_once, in_file.elements() - done)});
  std::map<const StreamedTensor*, ChunkChecksums> checksums;
  std::vector<Bfloat16> rounded;
  for_values(pieces, [&](const Piece& piece, std::span<const float> values) {
    const auto bytes = stored(values, piece.tensor->key.dtype, rounded);
    checksums[piece.tensor].add(bytes);
    file.write(bytes);
  });
  for (StreamedTensor& tensor : tensors) tensor.key.crc32 = checksums[&tensor].take();
  file.commit(written.file_bytes);
  StoredFile stored_file{
      .name = name, .bytes = written.file_bytes, .header_crc32 = crc32_of(begin), .keys = {}};
  for (StreamedTensor& tensor : tensors) stored_file.keys.push_back(std::move(tensor.key));
  return stored_file;
}

}  // namespace shardscope
