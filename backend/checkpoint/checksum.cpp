#include "backend/checkpoint/checksum.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <utility>

#include "backend/checkpoint/crc32_folding.h"

namespace shardscope {
namespace {

std::uint32_t by_table(std::span<const std::byte> bytes, std::uint32_t before) {
  return static_cast<std::uint32_t>(
      crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before) {
  if (bytes.size() < least_folded || !can_fold_crc32()) return by_table(bytes, before);
  const FoldedCrc32 folded = fold_crc32(bytes, before);
  // zlib inverts the register before and behind; this one begins with 0.
  constexpr std::uint32_t register_of_0 = 0xffffffff;
  return by_table(bytes.subspan(folded.consumed), by_table(folded.remainder, register_of_0));
}

std::uint32_t crc32_of(std::string_view text) {
  return crc32_of(std::as_bytes(std::span(text.data(), text.size())));
}

std::string crc32_text(std::uint32_t value) { return fmt::format("{:08x}", value); }

void ChunkChecksums::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto room = static_cast<std::size_t>(checksum_chunk - in_chunk_);
    const std::span<const std::byte> part = bytes.first(std::min(room, bytes.size()));
    running_ = crc32_of(part, running_);
    in_chunk_ += static_cast<std::int64_t>(part.size());
    bytes = bytes.subspan(part.size());
    if (in_chunk_ < checksum_chunk) continue;
    finished_.push_back(std::exchange(running_, 0));
    in_chunk_ = 0;
  }
}

std::vector<std::uint32_t> ChunkChecksums::take() {
  if (in_chunk_ > 0) finished_.push_back(std::exchange(running_, 0));
  in_chunk_ = 0;
  return std::exchange(finished_, {});
}

std::vector<std::uint32_t> chunk_checksums(std::span<const std::byte> bytes) {
  ChunkChecksums checksums;
  checksums.add(bytes);
  return checksums.take();
}

}  // namespace shardscope
