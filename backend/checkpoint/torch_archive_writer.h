// Archives as torch.save writes them: a zip with a pickle, and the numbers of its tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/format/atomic_file.h"
#include "core/model/model.h"

namespace shardscope {

/// Float32 numbers, asked for piece by piece: elements [first, first + out.size()).
struct FloatSource {
  std::int64_t elements = 0;
  std::function<void(std::int64_t first, std::span<float> out)> read;
};

/// In the archive's pickle: a contiguous tensor that is all of storage number `storage`.
std::string pickled_tensor(const Shape& shape, std::size_t storage);

/// The same of bytes (torch.uint8), in one dimension.
std::string pickled_byte_tensor(std::int64_t bytes, std::size_t storage);

/// The largest number in a zip without zip64's fields.
inline constexpr std::int64_t largest_of_zip = 0xfffffffe;

/// Appends an archive of `value`, which is pickled already, and its storages. Returns its bytes.
/// Sizes and places above `largest_narrow` are written as zip64 has them. Each storage is read
/// twice: its checksum stands before it. Throws Error.
std::int64_t write_torch_archive(AtomicFile& file, std::string_view value,
                                 std::span<const FloatSource> storages,
                                 std::int64_t largest_narrow = largest_of_zip);
/// The same with storages of bytes: `pickled_byte_tensor`.
std::int64_t write_byte_archive(AtomicFile& file, std::string_view value,
                                std::span<const std::string> storages);

}  // namespace shardscope
