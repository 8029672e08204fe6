#include "core/format/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/format/float_formats.h"
#include "core/format/json_reader.h"

namespace shardscope {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are stored and used in little-endian order");

constexpr std::int64_t length_bytes = 8;
constexpr std::int64_t header_alignment = 8;
constexpr std::string_view metadata_key = "__metadata__";

/// The place of a dtype in the library's enumeration, by which it sorts (safetensors/src/tensor.rs,
/// enum Dtype).
int library_rank(Dtype dtype) {
  constexpr Dtype order[] = {Dtype::boolean, Dtype::uint8,    Dtype::int8,  Dtype::int16,
                             Dtype::float16, Dtype::bfloat16, Dtype::int32, Dtype::float32,
                             Dtype::float64, Dtype::int64,    Dtype::uint64};
  return static_cast<int>(std::find(std::begin(order), std::end(order), dtype) - std::begin(order));
}

/// Bytes of a tensor, or Error where the product leaves int64.
std::int64_t checked_bytes(const JsonValue& shape, const SafetensorsTensor& tensor) {
  std::int64_t bytes = size_of(tensor.dtype).count;
  for (const std::int64_t dimension : tensor.shape)
    if (__builtin_mul_overflow(bytes, dimension, &bytes))
      throw shape.error("shape times dtype is more than 2^63 bytes");
  return bytes;
}

SafetensorsTensor read_tensor(const std::string& name, const JsonValue& value) {
  value.only_keys({"dtype", "shape", "data_offsets"});
  SafetensorsTensor tensor{.name = name};
  tensor.dtype = parse_dtype(value.at("dtype").string(), value.at("dtype").where());
  const JsonValue shape = value.at("shape");
  for (const JsonValue& dimension : shape.elements()) tensor.shape.push_back(dimension.integer(0));
  const JsonValue offsets = value.at("data_offsets");
  if (offsets.size() != 2)
    throw offsets.error(fmt::format("expected two offsets, got {}", offsets.size()));
  tensor.begin = offsets[0].integer(0);
  tensor.end = offsets[1].integer(0);
  if (tensor.end < tensor.begin)
    throw offsets.error(
        fmt::format("the end {} lies before the begin {}", tensor.end, tensor.begin));
  const std::int64_t bytes = checked_bytes(shape, tensor);
  if (bytes != tensor.end - tensor.begin)
    throw value.error(fmt::format("shape and dtype need {} bytes, the offsets span {}", bytes,
                                  tensor.end - tensor.begin));
  return tensor;
}

SafetensorsMetadata read_metadata(const JsonValue& value) {
  SafetensorsMetadata metadata;
  for (const auto& [key, text] : value.members()) metadata.emplace_back(key, text.string());
  std::sort(metadata.begin(), metadata.end());
  return metadata;
}

void check_layout(const JsonValue& header, const std::vector<SafetensorsTensor>& tensors) {
  std::int64_t expected = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.begin != expected)
      throw header.error(fmt::format(
          "tensor {} begins at byte {}, the one before it ends at {}: {}", shown(tensor.name),
          tensor.begin, expected, tensor.begin < expected ? "they overlap" : "there is a hole"));
    expected = tensor.end;
  }
}

}  // namespace

std::int64_t SafetensorsTensor::elements() const { return (end - begin) / size_of(dtype).count; }

SafetensorsHeader safetensors_header(std::vector<SafetensorsTensor> tensors,
                                     SafetensorsMetadata metadata) {
  std::sort(tensors.begin(), tensors.end(),
            [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
              const int rank_a = library_rank(a.dtype), rank_b = library_rank(b.dtype);
              return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
            });
  std::int64_t offset = 0;
  for (SafetensorsTensor& tensor : tensors) {
    tensor.begin = offset;
    offset += std::accumulate(tensor.shape.begin(), tensor.shape.end(), size_of(tensor.dtype).count,
                              std::multiplies<>());
    tensor.end = offset;
  }
  std::sort(metadata.begin(), metadata.end());
  SafetensorsHeader header{.metadata = std::move(metadata), .tensors = std::move(tensors)};
  header.data_begin = static_cast<std::int64_t>(header_bytes(header).size());
  header.file_bytes = header.data_begin + offset;
  return header;
}

std::string header_bytes(const SafetensorsHeader& header) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty())
    for (const auto& [key, value] : header.metadata) json[std::string(metadata_key)][key] = value;
  for (const SafetensorsTensor& tensor : header.tensors)
    json[tensor.name] = {{"dtype", safetensors_name_of(tensor.dtype)},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.begin, tensor.end}}};
  std::string text = json.dump();
  while (static_cast<std::int64_t>(text.size()) % header_alignment != 0) text += ' ';
  const auto length = static_cast<std::uint64_t>(text.size());
  std::string bytes(length_bytes, '\0');
  std::memcpy(bytes.data(), &length, length_bytes);
  return bytes + text;
}

SafetensorsHeader parse_safetensors_header(const JsonValue& header) {
  SafetensorsHeader result;
  for (const auto& [name, value] : header.members()) {
    if (name == metadata_key)
      result.metadata = read_metadata(value);
    else
      result.tensors.push_back(read_tensor(name, value));
  }
  const auto place = [](const SafetensorsTensor& t) { return std::tie(t.begin, t.end, t.name); };
  std::sort(
      result.tensors.begin(), result.tensors.end(),
      [&](const SafetensorsTensor& a, const SafetensorsTensor& b) { return place(a) < place(b); });
  check_layout(header, result.tensors);
  return result;
}

SafetensorsHeader read_safetensors_header(const std::filesystem::path& path) {
  return SafetensorsFile(path, SafetensorsFile::Data::may_be_missing).header_;
}

SafetensorsFile::SafetensorsFile(std::filesystem::path path)
    : SafetensorsFile(std::move(path), Data::whole) {}

SafetensorsFile::SafetensorsFile(std::filesystem::path path, Data data)
    : path_(std::move(path)), descriptor_(open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw error("cannot be read: " + std::generic_category().message(errno));
  try {
    read_header();
    if (data == Data::whole) check_data();
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      header_(std::move(other.header_)),
      by_name_(std::move(other.by_name_)) {}

Error SafetensorsFile::error(std::string what) const {
  return Error({.where = path_.string(), .what = std::move(what), .way_out = {}});
}

void SafetensorsFile::read_header() {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0)
    throw error("cannot be read: " + std::generic_category().message(errno));
  if (!S_ISREG(status.st_mode)) throw error("is no regular file");
  header_.file_bytes = status.st_size;
  SafetensorsHeader header =
      parse_safetensors_header(JsonValue::parse(read_header_text(), path_.string()));
  header.data_begin = header_.data_begin;
  header.file_bytes = header_.file_bytes;
  header_ = std::move(header);
  by_name_.resize(header_.tensors.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](auto a, auto b) { return header_.tensors[a].name < header_.tensors[b].name; });
}

std::string SafetensorsFile::read_header_text() {
  if (header_.file_bytes < length_bytes)
    throw error(fmt::format("has {} bytes, too few for a safetensors file", header_.file_bytes));
  std::uint64_t length = 0;
  read_at(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > static_cast<std::uint64_t>(largest_header_bytes))
    throw error(fmt::format("the header's length is {} bytes, more than the {} allowed", length,
                            largest_header_bytes));
  header_.data_begin = length_bytes + static_cast<std::int64_t>(length);
  if (header_.data_begin > header_.file_bytes)
    throw error(fmt::format("the header's length is {} bytes, the file has {}", length,
                            header_.file_bytes));
  std::string text(length, '\0');
  read_at(length_bytes, std::as_writable_bytes(std::span(text)));
  if (!text.starts_with('{')) throw error("the header does not start with '{'");
  return text;
}

void SafetensorsFile::check_data() const {
  const std::int64_t expected = header_.tensors.empty() ? 0 : header_.tensors.back().end;
  const std::int64_t bytes = header_.file_bytes - header_.data_begin;
  if (bytes != expected)
    throw error(fmt::format("the tensors take {} bytes, the file holds {} behind the header",
                            expected, bytes));
}

const SafetensorsTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [&](std::uint32_t i, std::string_view n) { return header_.tensors[i].name < n; });
  if (found == by_name_.end() || header_.tensors[*found].name != name) return nullptr;
  return &header_.tensors[*found];
}

void SafetensorsFile::read_at(std::int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = pread(descriptor_, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw error("cannot be read: " + std::generic_category().message(errno));
    if (got == 0)
      throw error(fmt::format("ends at byte {}, it was longer when it was opened", offset));
    offset += got;
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

void SafetensorsFile::read(const SafetensorsTensor& tensor, std::int64_t first_byte,
                           std::span<std::byte> out) const {
  const std::int64_t bytes = tensor.end - tensor.begin;
  const auto wanted = static_cast<std::int64_t>(out.size());
  if (first_byte < 0 || first_byte > bytes || wanted > bytes - first_byte)
    throw error(fmt::format("tensor {} has {} bytes, {} from byte {} were asked for",
                            shown(tensor.name), bytes, wanted, first_byte));
  read_at(header_.data_begin + tensor.begin + first_byte, out);
}

void SafetensorsFile::expect(const SafetensorsTensor& tensor, std::int64_t first_byte,
                             std::int64_t bytes) const {
  posix_fadvise(descriptor_, header_.data_begin + tensor.begin + first_byte, bytes,
                POSIX_FADV_WILLNEED);
}

void SafetensorsFile::read_floats(const SafetensorsTensor& tensor, std::int64_t first,
                                  std::span<float> out) const {
  const std::int64_t size = size_of(tensor.dtype).count;
  if (tensor.dtype == Dtype::float32)
    return read(tensor, first * size, std::as_writable_bytes(out));
  if (!has_floats(tensor.dtype))
    throw error(fmt::format("tensor {} is {}, expected a floating-point type", shown(tensor.name),
                            name_of(tensor.dtype)));
  std::vector<std::byte> stored(out.size() * static_cast<std::size_t>(size));
  read(tensor, first * size, stored);
  to_floats(tensor.dtype, stored.data(), out);
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, SafetensorsHeader header)
    : header_(std::move(header)), file_(path) {
  file_.write(header_bytes(header_));
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  file_.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  written_ += static_cast<std::int64_t>(bytes.size());
}

void SafetensorsWriter::commit() {
  const std::int64_t expected = header_.file_bytes - header_.data_begin;
  if (written_ != expected)
    throw std::logic_error(fmt::format("{} bytes of tensors were written, the header promises {}",
                                       written_, expected));
  file_.commit();
}

}  // namespace shardscope
