// Safetensors files: an 8-byte header length, a JSON header, the tensors' bytes (row-major,
// little-endian). Source: huggingface/safetensors, safetensors/src/tensor.rs and the README's
// "Format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/json_reader.h"

namespace shardscope {

/// One tensor of a file; begin and end count from the end of the header.
struct SafetensorsTensor {
  std::string name;
  Dtype dtype = Dtype::float32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t elements() const;
  bool operator==(const SafetensorsTensor&) const = default;
};

using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

struct SafetensorsHeader {
  SafetensorsMetadata metadata;            ///< sorted by key
  std::vector<SafetensorsTensor> tensors;  ///< in the order of their bytes
  std::int64_t data_begin = 0;             ///< of the first tensor's bytes in the file
  std::int64_t file_bytes = 0;
};

/// The header of tensors named, typed and shaped as `tensors` (their begin and end are ignored), in
/// the order that the library writes: by dtype (large ones first), then by name.
SafetensorsHeader safetensors_header(std::vector<SafetensorsTensor> tensors,
                                     SafetensorsMetadata metadata);
/// The 8 bytes of length and the header as the library writes it: compact, padded with spaces to a
/// multiple of 8.
std::string header_bytes(const SafetensorsHeader& header);

/// The header's JSON: lengths, overlaps, holes, shapes times dtypes, UTF-8 are checked as in a
/// whole file. data_begin and file_bytes stay 0.
SafetensorsHeader parse_safetensors_header(const JsonValue& header);
/// The header of a file whose tensors may be missing: the first bytes of one are enough.
SafetensorsHeader read_safetensors_header(const std::filesystem::path& path);

/// Reads tensors out of a file whose header was checked whole: lengths inside the file, no overlap,
/// no hole, shape times dtype equal to the bytes, no key twice, valid UTF-8. Anything else throws
/// Error (bad_input) naming file and tensor.
class SafetensorsFile {
 public:
  static constexpr std::int64_t largest_header_bytes = 100'000'000;  // the library's limit

  explicit SafetensorsFile(std::filesystem::path path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  /// Null if there is no such tensor.
  const SafetensorsTensor* find(std::string_view name) const;
  /// Bytes [first_byte, first_byte + out.size()) of one tensor.
  void read(const SafetensorsTensor& tensor, std::int64_t first_byte,
            std::span<std::byte> out) const;
  /// These bytes are read soon: the disk can begin with them. A hint, which never fails.
  void expect(const SafetensorsTensor& tensor, std::int64_t first_byte, std::int64_t bytes) const;
  /// Elements [first, first + out.size()) of a tensor, float32, float16, bfloat16 or float64, as
  /// float.
  void read_floats(const SafetensorsTensor& tensor, std::int64_t first, std::span<float> out) const;

 private:
  friend SafetensorsHeader read_safetensors_header(const std::filesystem::path& path);
  enum class Data : std::uint8_t { whole, may_be_missing };
  SafetensorsFile(std::filesystem::path path, Data data);

  void read_header();
  std::string read_header_text();
  void check_data() const;
  void read_at(std::int64_t offset, std::span<std::byte> out) const;
  Error error(std::string what) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  SafetensorsHeader header_;
  std::vector<std::uint32_t> by_name_;  ///< indices into header_.tensors
};

/// Writes a file tensor by tensor, in the header's order, through an AtomicFile.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, SafetensorsHeader header);
  const SafetensorsHeader& header() const { return header_; }
  /// The next bytes of the data; pieces of any size, one tensor after the other.
  void write(std::span<const std::byte> bytes);
  /// Everything has been written: the file takes its place.
  void commit();

 private:
  SafetensorsHeader header_;
  AtomicFile file_;
  std::int64_t written_ = 0;
};

}  // namespace shardscope
