#include "backend/checkpoint/checkpoint_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/checkpoint/checksum.h"
#include "core/base/bfloat16.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

constexpr std::int64_t read_at_once = 64 * checksum_chunk;  ///< bytes

bool is_read(Dtype dtype) { return dtype == Dtype::float32 || dtype == Dtype::bfloat16; }

void to_floats(Dtype dtype, const std::byte* from, std::span<float> out) {
  if (dtype == Dtype::float32) {
    std::memcpy(out.data(), from, out.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    Bfloat16 value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    out[i] = to_float(value);
  }
}

}  // namespace

CheckpointReader::CheckpointReader(std::filesystem::path folder)
    : folder_(std::move(folder)), index_(read_checkpoint_index(folder_)) {
  open_files();
  for (std::size_t f = 0; f < index_.files.size(); ++f)
    for (const StoredKey& key : index_.files[f].keys)
      for (const StoredPiece& piece : key.pieces) add_piece(f, key, piece);
  for (auto& [name, entry] : entries_)
    std::sort(entry.places.begin(), entry.places.end(),
              [](const Place& a, const Place& b) { return a.piece->first < b.piece->first; });
}

Error CheckpointReader::error(std::string what) const {
  return Error({.where = folder_.string(),
                .what = std::move(what),
                .way_out = "take another checkpoint; `shardscope checkpoint list` shows them"});
}

DamagedCheckpoint CheckpointReader::damaged(const Place& place, const std::string& what) const {
  return DamagedCheckpoint(
      {.where = folder_.string(),
       .what = fmt::format("{} in {} {}", place.key->key, index_.files[place.file].name, what),
       .way_out = "take another checkpoint; `shardscope checkpoint list` shows them"});
}

void CheckpointReader::open_files() {
  for (const StoredFile& file : index_.files) {
    files_.emplace_back(folder_ / file.name);
    const SafetensorsHeader& header = files_.back().header();
    if (header.file_bytes != file.bytes)
      throw error(fmt::format("{} has {} bytes, the index says {}", file.name, header.file_bytes,
                              file.bytes));
    if (crc32_of(header_bytes(header)) != file.header_crc32)
      throw error(fmt::format("the header of {} is not the one that was written", file.name));
    for (const StoredKey& key : file.keys) {
      const SafetensorsTensor* tensor = files_.back().find(key.key);
      if (!tensor) throw error(fmt::format("{} has no tensor {}", file.name, key.key));
      const std::int64_t bytes = tensor->end - tensor->begin;
      const std::int64_t chunks = (bytes + checksum_chunk - 1) / checksum_chunk;
      const bool matches = tensor->dtype == key.dtype && is_read(key.dtype) &&
                           chunks == static_cast<std::int64_t>(key.crc32.size());
      if (!matches)
        throw error(fmt::format("{} of {} is not as the index says", key.key, file.name));
      for (const StoredPiece& piece : key.pieces)
        if (piece.key_first > tensor->elements() ||
            piece.elements > tensor->elements() - piece.key_first)
          throw error(fmt::format("{} lies outside of {} in {}", piece.tensor, key.key, file.name));
    }
  }
}

void CheckpointReader::add_piece(std::size_t file, const StoredKey& key, const StoredPiece& piece) {
  const auto [found, is_new] = entries_.try_emplace(piece.tensor);
  Entry& entry = found->second;
  if (is_new) {
    entry.shape = piece.shape;
    entry.dtype = key.dtype;
  }
  if (entry.shape != piece.shape || entry.dtype != key.dtype)
    throw error(fmt::format("the pieces of {} differ in shape or dtype", piece.tensor));
  entry.places.push_back({.file = file, .key = &key, .piece = &piece});
}

std::vector<CheckpointReader::Tensor> CheckpointReader::tensors() const {
  std::vector<Tensor> all;
  for (const auto& [name, entry] : entries_)
    all.push_back({.name = name, .shape = entry.shape, .dtype = entry.dtype});
  return all;
}

std::optional<CheckpointReader::Tensor> CheckpointReader::find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return std::nullopt;
  return Tensor{.name = name, .shape = found->second.shape, .dtype = found->second.dtype};
}

const CheckpointReader::Place& CheckpointReader::place_at(const Entry& entry,
                                                          const std::string& tensor,
                                                          std::int64_t first) const {
  // The last piece that begins here or before; one before it may be longer, where ranks wrote the
  // same.
  auto behind =
      std::upper_bound(entry.places.begin(), entry.places.end(), first,
                       [](std::int64_t at, const Place& place) { return at < place.piece->first; });
  while (behind != entry.places.begin()) {
    const Place& place = *--behind;
    if (first < place.piece->first + place.piece->elements) return place;
  }
  throw error(fmt::format("no file holds element {} of {}", first, tensor));
}

void CheckpointReader::read(const std::string& tensor, std::int64_t first, std::span<float> out) {
  const auto found = entries_.find(tensor);
  if (found == entries_.end()) throw error(tensor + " is not in the checkpoint");
  while (!out.empty()) {
    const Place& place = place_at(found->second, tensor, first);
    const std::int64_t inside = first - place.piece->first;
    const std::int64_t most = read_at_once / size_of(place.key->dtype).count;
    const std::int64_t count =
        std::min({static_cast<std::int64_t>(out.size()), place.piece->elements - inside, most});
    read_checked(place, place.piece->key_first + inside,
                 out.first(static_cast<std::size_t>(count)));
    out = out.subspan(static_cast<std::size_t>(count));
    first += count;
  }
}

void CheckpointReader::read_checked(const Place& place, std::int64_t first, std::span<float> out) {
  const SafetensorsFile& file = files_[place.file];
  const SafetensorsTensor& tensor = *file.find(place.key->key);
  const std::int64_t size = size_of(tensor.dtype).count;
  const std::int64_t begin = first * size;
  const std::int64_t end = begin + static_cast<std::int64_t>(out.size()) * size;
  const std::int64_t first_chunk = begin / checksum_chunk;
  const std::int64_t from = first_chunk * checksum_chunk;
  const std::int64_t to = std::min(tensor.end - tensor.begin,
                                   (end + checksum_chunk - 1) / checksum_chunk * checksum_chunk);
  chunks_.resize(static_cast<std::size_t>(to - from));
  try {
    file.read(tensor, from, chunks_);
  } catch (const Error& error) {
    throw damaged(place, fmt::format("cannot be read: {}", error.parts().what));
  }
  bytes_read_ += to - from;
  const std::vector<std::uint32_t> found = chunk_checksums(chunks_);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::uint32_t said = place.key->crc32[static_cast<std::size_t>(first_chunk) + i];
    if (found[i] == said) continue;
    throw damaged(place, fmt::format("is damaged after byte {}: its checksum is {} and was {}",
                                     from + static_cast<std::int64_t>(i) * checksum_chunk,
                                     crc32_text(found[i]), crc32_text(said)));
  }
  to_floats(tensor.dtype, chunks_.data() + (begin - from), out);
}

std::vector<std::string> CheckpointReader::verify() {
  std::vector<std::string> faults;
  std::vector<float> values;
  for (std::size_t f = 0; f < index_.files.size(); ++f) {
    for (const StoredKey& key : index_.files[f].keys) {
      const Place place{.file = f, .key = &key};
      const std::int64_t elements = files_[f].find(key.key)->elements();
      const std::int64_t most = read_at_once / size_of(key.dtype).count;
      for (std::int64_t done = 0; done < elements; done += most) {
        values.resize(static_cast<std::size_t>(std::min(most, elements - done)));
        try {
          read_checked(place, done, values);
        } catch (const Error& error) {
          faults.emplace_back(error.parts().what);
        }
      }
    }
  }
  for (const auto& [name, entry] : entries_) {
    const std::int64_t elements = elements_of(entry.shape);
    try {
      for (std::int64_t at = 0; at < elements;) {
        const StoredPiece& piece = *place_at(entry, name, at).piece;
        at = piece.first + piece.elements;
      }
    } catch (const Error& error) {
      faults.emplace_back(error.parts().what);
    }
  }
  return faults;
}

}  // namespace shardscope
