#include "backend/checkpoint/checkpoint_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <utility>

#include "backend/checkpoint/checksum.h"
#include "core/base/bfloat16.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

/// Bytes. So few that they are still in the processor's cache when their checksum is made.
constexpr std::int64_t read_at_once = 4 * checksum_chunk;
/// Bytes that a thread verifies before it takes others.
constexpr std::int64_t stretch_bytes = 64 * checksum_chunk;

std::int64_t bytes_of(const SafetensorsTensor& tensor) { return tensor.end - tensor.begin; }

std::int64_t to_chunk_end(std::int64_t byte) {
  return (byte + checksum_chunk - 1) / checksum_chunk * checksum_chunk;
}

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
      const std::int64_t bytes = bytes_of(*tensor);
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
  const Place* begun = nullptr;
  while (!out.empty()) {
    const Place& place = place_at(found->second, tensor, first);
    const std::int64_t inside = first - place.piece->first;
    const std::int64_t count =
        std::min(static_cast<std::int64_t>(out.size()), place.piece->elements - inside);
    const std::int64_t key_first = place.piece->key_first + inside;
    const std::int64_t size = size_of(place.key->dtype).count;
    if (std::exchange(begun, &place) != &place && count * size > read_at_once)
      expect({.place = place, .begin = key_first * size, .end = (key_first + count) * size});
    const std::size_t done =
        read_some(place, key_first, out.first(static_cast<std::size_t>(count)));
    out = out.subspan(done);
    first += static_cast<std::int64_t>(done);
  }
}

/// The first of the elements that are wanted of a stored tensor, with the chunks that they lie in
/// checked. How many.
std::size_t CheckpointReader::read_some(const Place& place, std::int64_t first,
                                        std::span<float> out) {
  const SafetensorsTensor& tensor = *files_[place.file].find(place.key->key);
  const std::int64_t size = size_of(tensor.dtype).count;
  const std::int64_t begin = first * size;
  const std::int64_t from = begin / checksum_chunk * checksum_chunk;
  const std::int64_t wanted_end = begin + static_cast<std::int64_t>(out.size()) * size;
  const std::int64_t to =
      std::min({bytes_of(tensor), to_chunk_end(wanted_end), from + read_at_once});
  const auto count = static_cast<std::size_t>((std::min(to, wanted_end) - begin) / size);
  const auto wanted = out.first(count);
  bytes_read_ += to - from;
  if (tensor.dtype == Dtype::float32 && from == begin && to <= wanted_end) {
    read_checked(place, from, std::as_writable_bytes(wanted));
    return count;
  }
  chunks_.resize(static_cast<std::size_t>(to - from));
  read_checked(place, from, chunks_);
  to_floats(tensor.dtype, chunks_.data() + (begin - from), wanted);
  return count;
}

/// Whole chunks of a stored tensor, from byte `begin` on.
void CheckpointReader::read_checked(const Place& place, std::int64_t begin,
                                    std::span<std::byte> out) const {
  const SafetensorsFile& file = files_[place.file];
  try {
    file.read(*file.find(place.key->key), begin, out);
  } catch (const Error& error) {
    throw damaged(place, fmt::format("cannot be read: {}", error.parts().what));
  }
  const std::vector<std::uint32_t> found = chunk_checksums(out);
  const auto first_chunk = static_cast<std::size_t>(begin / checksum_chunk);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::uint32_t said = place.key->crc32[first_chunk + i];
    if (found[i] == said) continue;
    throw damaged(place, fmt::format("is damaged after byte {}: its checksum is {} and was {}",
                                     begin + static_cast<std::int64_t>(i) * checksum_chunk,
                                     crc32_text(found[i]), crc32_text(said)));
  }
}

std::vector<CheckpointReader::Stretch> CheckpointReader::stretches() const {
  std::vector<Stretch> all;
  for (std::size_t f = 0; f < index_.files.size(); ++f)
    for (const StoredKey& key : index_.files[f].keys) {
      const std::int64_t bytes = bytes_of(*files_[f].find(key.key));
      for (std::int64_t begin = 0; begin < bytes; begin += stretch_bytes)
        all.push_back({.place = {.file = f, .key = &key},
                       .begin = begin,
                       .end = std::min(bytes, begin + stretch_bytes)});
    }
  return all;
}

/// The first fault; empty: none.
std::string CheckpointReader::fault_of(const Stretch& stretch) const {
  std::vector<std::byte> bytes;
  for (std::int64_t at = stretch.begin; at < stretch.end; at += read_at_once) {
    bytes.resize(static_cast<std::size_t>(std::min(read_at_once, stretch.end - at)));
    try {
      read_checked(stretch.place, at, bytes);
    } catch (const Error& error) {
      return error.parts().what;
    }
  }
  return {};
}

void CheckpointReader::expect(const Stretch& stretch) const {
  const SafetensorsFile& file = files_[stretch.place.file];
  file.expect(*file.find(stretch.place.key->key), stretch.begin, stretch.end - stretch.begin);
}

std::vector<std::string> CheckpointReader::verify(int threads) {
  const std::vector<Stretch> all = stretches();
  std::vector<std::string> faults(all.size());
  std::atomic<std::size_t> next = 0;
  const auto ahead = static_cast<std::size_t>(threads);
  for (std::size_t i = 0; i < std::min(ahead, all.size()); ++i) expect(all[i]);
  const auto work = [&] {
    for (std::size_t i = next++; i < all.size(); i = next++) {
      if (i + ahead < all.size()) expect(all[i + ahead]);
      faults[i] = fault_of(all[i]);
    }
  };
  std::vector<std::future<void>> others;
  for (int i = 1; i < threads; ++i) others.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& other : others) other.get();
  std::erase(faults, "");
  for (const Stretch& stretch : all) bytes_read_ += stretch.end - stretch.begin;
  add_holes(faults);
  return faults;
}

/// Elements that no file holds.
void CheckpointReader::add_holes(std::vector<std::string>& faults) const {
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
}

}  // namespace shardscope
