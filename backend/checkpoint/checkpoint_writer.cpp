#include "backend/checkpoint/checkpoint_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "backend/base/time_limit.h"
#include "backend/checkpoint/checksum.h"
#include "backend/checkpoint/direct_file.h"
#include "core/base/error.h"
#include "core/format/is_there.h"
#include "core/format/safetensors.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

SafetensorsHeader header_of(const std::vector<TensorToWrite>& tensors) {
  std::vector<SafetensorsTensor> stored;
  std::vector<StoredKey> keys;
  for (const TensorToWrite& tensor : tensors) {
    stored.push_back({.name = tensor.key.key, .dtype = tensor.key.dtype, .shape = tensor.shape});
    keys.push_back(tensor.key);
  }
  return safetensors_header(std::move(stored),
                            {{"format", "pt"}, {std::string(keys_metadata), keys_to_json(keys)}});
}

StoredFile entry_of(const std::string& name, const SafetensorsHeader& header,
                    std::vector<StoredKey> keys) {
  return {.name = name,
          .bytes = header.file_bytes,
          .header_crc32 = crc32_of(header_bytes(header)),
          .keys = std::move(keys)};
}

std::size_t chunks_of(std::span<const std::byte> bytes) {
  constexpr auto chunk = static_cast<std::size_t>(checksum_chunk);
  return (bytes.size() + chunk - 1) / chunk;
}

/// Writes bytes while they are in the processor's cache for their checksums.
std::vector<std::uint32_t> write_summed(DirectFile& file, std::span<const std::byte> bytes) {
  ChunkChecksums checksums;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), static_cast<std::size_t>(checksum_chunk)));
    checksums.add(part);
    file.write(part);
    bytes = bytes.subspan(part.size());
  }
  return checksums.take();
}

std::string list_of(const std::vector<int>& ranks) {
  constexpr std::size_t shown = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, ranks.size()); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  return ranks.size() > shown ? text + ", ..." : text;
}

std::vector<int> ranks_missing(const fs::path& folder, int world) {
  std::vector<int> missing;
  for (int rank = 0; rank < world; ++rank)
    if (!is_there(folder / shard_file_name(rank, world))) missing.push_back(rank);
  return missing;
}

}  // namespace

std::string shard_file_name(int rank, int world) {
  return fmt::format("shard-{:05d}-of-{:05d}.safetensors", rank, world);
}

StoredFile write_shard_file(const fs::path& folder, const std::string& name,
                            std::vector<TensorToWrite> tensors) {
  // Each checksum has as many digits, so that the header can be written again once they are known.
  for (TensorToWrite& tensor : tensors) tensor.key.crc32.assign(chunks_of(tensor.bytes), 0);
  std::map<std::string_view, TensorToWrite*> by_key;
  for (TensorToWrite& tensor : tensors) by_key.emplace(tensor.key.key, &tensor);
  DirectFile file(folder / name);
  const SafetensorsHeader placeholder = header_of(tensors);
  file.write(std::as_bytes(std::span<const char>(header_bytes(placeholder))));
  for (const SafetensorsTensor& tensor : placeholder.tensors) {
    TensorToWrite& to_write = *by_key.at(tensor.name);
    to_write.key.crc32 = write_summed(file, to_write.bytes);
  }
  const SafetensorsHeader header = header_of(tensors);
  file.commit(header.file_bytes, std::as_bytes(std::span<const char>(header_bytes(header))));
  std::vector<StoredKey> keys;
  for (TensorToWrite& tensor : tensors) keys.push_back(std::move(tensor.key));
  return entry_of(name, header, std::move(keys));
}

StoredFile read_shard_file(const fs::path& folder, const std::string& name) {
  const SafetensorsFile file(folder / name);
  for (const auto& [key, text] : file.header().metadata)
    if (key == keys_metadata)
      return entry_of(name, file.header(),
                      keys_of_json(JsonValue::parse(text, (folder / name).string())));
  throw Error({.where = (folder / name).string(),
               .what = fmt::format("its header has no {}", keys_metadata)});
}

std::vector<StoredFile> wait_for_shard_files(
    const fs::path& folder, int world, std::chrono::milliseconds limit,
    const std::function<std::optional<std::string>()>& failure) {
  const auto fail = [&](std::string what, std::string way_out) {
    return Error({.where = folder.string(),
                  .what = std::move(what),
                  .way_out = std::move(way_out),
                  .code = ExitCode::outside});
  };
  const TimeLimit end(limit);
  for (std::vector<int> missing = ranks_missing(folder, world); !missing.empty();
       missing = ranks_missing(folder, world)) {
    if (const auto why = failure()) throw fail(*why, {});
    if (end.passed())
      throw fail(fmt::format("the parts of ranks {} did not come within {} ms", list_of(missing),
                             limit.count()),
                 "all ranks must see one folder");
    constexpr std::chrono::milliseconds between_looks{5};
    std::this_thread::sleep_for(between_looks);
  }
  std::vector<StoredFile> files;
  for (int rank = 0; rank < world; ++rank)
    files.push_back(read_shard_file(folder, shard_file_name(rank, world)));
  return files;
}

}  // namespace shardscope
