#include "backend/checkpoint/torch_archive.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "backend/checkpoint/checksum.h"
#include "core/base/error.h"
#include "core/format/float_formats.h"
#include "traces/import/text_input.h"

namespace shardscope {
namespace {

// Source: PKWARE's APPNOTE.TXT 6.3, sections 4.3.7, 4.3.12 and 4.3.16.
constexpr std::uint32_t local_signature = 0x04034b50;
constexpr std::uint32_t central_signature = 0x02014b50;
constexpr std::uint32_t end_signature = 0x06054b50;
constexpr std::uint32_t wide_end_signature = 0x06064b50;
constexpr std::uint32_t wide_locator_signature = 0x07064b50;
constexpr std::int64_t local_bytes = 30, central_bytes = 46, end_bytes = 22;
constexpr std::int64_t wide_end_bytes = 56, wide_locator_bytes = 20;
constexpr std::uint32_t wide_field = 1;
/// In the place of a number that zip64 has elsewhere.
constexpr std::uint32_t elsewhere = 0xffffffff;
constexpr std::int64_t bytes_at_once = std::int64_t{1} << 22;
/// Of an archive that holds one tensor.
constexpr ArchiveBounds of_one_tensor{
    .directory_bytes = 1 << 20, .pickle_bytes = 1 << 20, .pickle_cells = 1 << 16};

class TextOf : public TextInput {
 public:
  explicit TextOf(std::string_view text) : text_(text) {}
  std::size_t read(std::span<char> out) override {
    const std::size_t count = std::min(out.size(), text_.size() - at_);
    std::copy_n(text_.begin() + static_cast<std::ptrdiff_t>(at_), count, out.begin());
    at_ += count;
    return count;
  }
  std::int64_t consumed_bytes() const override { return static_cast<std::int64_t>(at_); }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

std::uint32_t number_at(std::string_view bytes, std::size_t at, std::size_t width) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < width; ++i)
    value |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return value;
}

std::int64_t wide_number_at(std::string_view bytes, std::size_t at) {
  const std::uint64_t value =
      std::uint64_t{number_at(bytes, at + 4, 4)} << 32 | number_at(bytes, at, 4);
  return static_cast<std::int64_t>(value);
}

/// The numbers of an entry that did not fit: those of its zip64 field, in the field's order.
class WideNumbers {
 public:
  explicit WideNumbers(std::string_view extra) {
    while (extra.size() >= 4) {
      const std::size_t bytes = number_at(extra, 2, 2);
      if (bytes > extra.size() - 4) return;
      if (number_at(extra, 0, 2) == wide_field) field_ = extra.substr(4, bytes);
      extra.remove_prefix(4 + bytes);
    }
  }
  /// `number`, or the next of the field where it stands for that; -1 where there is none.
  std::int64_t or_next(std::uint32_t number) {
    if (number != elsewhere) return number;
    if (field_.size() < 8) return -1;
    const std::int64_t value = wide_number_at(field_, 0);
    field_.remove_prefix(8);
    return value;
  }

 private:
  std::string_view field_;
};

/// The name without the archive's folder: "data.pkl", "data/0".
std::string behind_folder(std::string_view name) {
  const std::size_t slash = name.find('/');
  return std::string(slash == std::string_view::npos ? name : name.substr(slash + 1));
}

std::optional<Dtype> dtype_of(std::string_view storage) {
  constexpr std::array<std::pair<std::string_view, Dtype>, 4> known{
      {{"torch.FloatStorage", Dtype::float32},
       {"torch.BFloat16Storage", Dtype::bfloat16},
       {"torch.HalfStorage", Dtype::float16},
       {"torch.DoubleStorage", Dtype::float64}}};
  for (const auto& [name, dtype] : known)
    if (name == storage) return dtype;
  return std::nullopt;
}

/// How many elements a tensor has; nothing where it is not contiguous or its shape is impossible,
/// also where the product overflows without the zeros.
std::optional<std::int64_t> contiguous_elements(const Shape& shape, const Shape& strides) {
  std::int64_t elements = 1;
  if (strides.size() != shape.size()) return std::nullopt;
  const bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (!is_empty && shape[i] != 1 && strides[i] != elements) return std::nullopt;
    const std::int64_t size = std::max<std::int64_t>(1, shape[i]);
    if (__builtin_mul_overflow(elements, size, &elements)) return std::nullopt;
  }
  return is_empty ? 0 : elements;
}

}  // namespace

PositionedFile::PositionedFile(std::filesystem::path path) : path_(std::move(path)), bytes_(-1) {
  open();
}

void PositionedFile::open() {
  // Kept only once it is as it was: a file that is refused must not be read at the next call.
  FileDescriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0)
    throw Error({.where = path_.string(),
                 .what = "cannot be read: " + std::generic_category().message(errno),
                 .way_out = {}});
  if (!S_ISREG(status.st_mode))
    throw Error({.where = path_.string(), .what = "is no regular file", .way_out = {}});
  if (bytes_ >= 0 && bytes_ != status.st_size)
    throw Error({.where = path_.string(),
                 .what = fmt::format("had {} bytes and has {} now", bytes_, status.st_size),
                 .way_out = "read it when nobody writes it"});
  bytes_ = status.st_size;
  file_ = std::move(file);
}

void PositionedFile::read(std::int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(file_.get(), out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw Error({.where = path_.string(),
                   .what = got < 0 ? "cannot be read: " + std::generic_category().message(errno)
                                   : fmt::format("ends at byte {}", offset),
                   .way_out = {}});
    offset += got;
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

TorchArchive::TorchArchive(const PositionedFile& file, std::int64_t offset, std::int64_t length,
                           const ArchiveBounds& bounds)
    : path_(file.path().string()), begin_(offset), length_(length) {
  if (offset < 0 || length < end_bytes || offset > file.bytes() || length > file.bytes() - offset)
    throw error(fmt::format("an archive of {} bytes does not fit into {}", length, file.bytes()));
  read_directory(file, bounds);
  place_members(file);
  const Member& pickle = member("data.pkl");
  if (pickle.bytes > bounds.pickle_bytes)
    throw error(fmt::format("its pickle is longer than {} bytes", bounds.pickle_bytes));
  const std::string text = text_at(file, pickle.header, pickle.bytes);
  if (has_checksums_ && crc32_of(text) != pickle.crc32)
    throw error(fmt::format("its pickle is damaged: its checksum is {} and was {}",
                            crc32_text(crc32_of(text)), crc32_text(pickle.crc32)));
  TextOf input(text);
  pickle_ = read_pickle(input, path_,
                        {.max_bytes = bounds.pickle_bytes,
                         .max_cells = bounds.pickle_cells,
                         .max_depth = 100,
                         .keeps_objects = true});
  if (!pickle_.problem().empty()) throw error("its pickle: " + pickle_.problem());
}

Error TorchArchive::error(std::string what) const {
  return Error({.where = fmt::format("{} at byte {}", path_, begin_),
                .what = std::move(what),
                .way_out = "give files that torch.save wrote, whole"});
}

/// `offset` counts from the archive's begin.
std::string TorchArchive::text_at(const PositionedFile& file, std::int64_t offset,
                                  std::int64_t bytes) const {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  file.read(begin_ + offset, std::as_writable_bytes(std::span(text)));
  return text;
}

TorchArchive::Directory TorchArchive::find_directory(const PositionedFile& file) const {
  // The end has a comment of at most 64 KiB; torch writes none.
  const std::int64_t looked_at = std::min(length_, end_bytes + 65535);
  const std::string tail = text_at(file, length_ - looked_at, looked_at);
  std::size_t end = tail.size() - end_bytes;
  while (number_at(tail, end, 4) != end_signature)
    if (end-- == 0) throw error("there is no zip archive");
  const std::int64_t locator =
      length_ - looked_at + static_cast<std::int64_t>(end) - wide_locator_bytes;
  const std::uint32_t entries = number_at(tail, end + 10, 2), bytes = number_at(tail, end + 12, 4),
                      offset = number_at(tail, end + 16, 4);
  const bool is_wide = entries == 0xffff || bytes == elsewhere || offset == elsewhere;
  return is_wide ? wide_directory(file, locator)
                 : Directory{.entries = entries, .bytes = bytes, .offset = offset};
}

TorchArchive::Directory TorchArchive::wide_directory(const PositionedFile& file,
                                                     std::int64_t locator) const {
  const std::string place = locator < 0 ? "" : text_at(file, locator, wide_locator_bytes);
  const std::int64_t at = !place.empty() && number_at(place, 0, 4) == wide_locator_signature
                              ? wide_number_at(place, 8)
                              : -1;
  if (at < 0 || at > length_ - wide_end_bytes) throw error("the end of the archive is damaged");
  const std::string end = text_at(file, at, wide_end_bytes);
  if (number_at(end, 0, 4) != wide_end_signature) throw error("the end of the archive is damaged");
  return {.entries = wide_number_at(end, 32),
          .bytes = wide_number_at(end, 40),
          .offset = wide_number_at(end, 48)};
}

void TorchArchive::read_directory(const PositionedFile& file, const ArchiveBounds& bounds) {
  const auto [entries, bytes, offset] = find_directory(file);
  if (bytes < 0 || bytes > bounds.directory_bytes || offset < 0 || offset > length_ - bytes)
    throw error("the archive's directory lies outside of it");
  const std::string directory = text_at(file, offset, bytes);
  std::size_t at = 0;
  for (std::int64_t i = 0; i < entries; ++i) at = read_entry(directory, at);
}

std::size_t TorchArchive::read_entry(const std::string& directory, std::size_t at) {
  if (directory.size() - at < central_bytes || number_at(directory, at, 4) != central_signature)
    throw error("the archive's directory is damaged");
  const std::size_t name = number_at(directory, at + 28, 2),
                    extra = number_at(directory, at + 30, 2),
                    comment = number_at(directory, at + 32, 2);
  const std::size_t next = at + central_bytes + name + extra + comment;
  if (next > directory.size()) throw error("the archive's directory is damaged");
  WideNumbers wide(std::string_view(directory).substr(at + central_bytes + name, extra));
  const std::uint32_t method = number_at(directory, at + 10, 2);
  const std::int64_t bytes = wide.or_next(number_at(directory, at + 24, 4)),
                     packed = wide.or_next(number_at(directory, at + 20, 4)),
                     header = wide.or_next(number_at(directory, at + 42, 4));
  if (method != 0 || packed != bytes) throw error("the archive is compressed");
  if (bytes < 0 || header < 0) throw error("the archive's directory is damaged");
  const std::uint32_t crc32 = number_at(directory, at + 16, 4);
  has_checksums_ = has_checksums_ || crc32 != 0;
  members_.insert_or_assign(
      behind_folder(std::string_view(directory).substr(at + central_bytes, name)),
      Member{.header = header, .bytes = bytes, .crc32 = crc32});
  return next;
}

/// From the local headers to the bytes after them. Members that overlap are refused, so that all
/// storages together are no longer than the file.
void TorchArchive::place_members(const PositionedFile& file) {
  std::vector<std::pair<std::int64_t, std::int64_t>> stretches;
  for (auto& [name, member] : members_) {
    const std::int64_t begin = member.header;
    if (member.header > length_ - local_bytes)
      throw error("a file of the archive lies outside of it");
    const std::string local = text_at(file, member.header, local_bytes);
    if (number_at(local, 0, 4) != local_signature) throw error("the archive is damaged");
    member.header += local_bytes + number_at(local, 26, 2) + number_at(local, 28, 2);
    if (member.header > length_ || member.bytes > length_ - member.header)
      throw error("a file of the archive lies outside of it");
    stretches.emplace_back(begin, member.header + member.bytes);
  }
  std::sort(stretches.begin(), stretches.end());
  for (std::size_t i = 1; i < stretches.size(); ++i)
    if (stretches[i].first < stretches[i - 1].second) throw error("files of the archive overlap");
}

const TorchArchive::Member& TorchArchive::member(std::string_view name) const {
  const auto found = members_.find(name);
  if (found == members_.end()) throw error(fmt::format("the archive has no {}", name));
  return found->second;
}

Shape TorchArchive::shape_of(PickleValue value) const {
  Shape shape;
  constexpr std::int64_t most = std::int64_t{1} << 48;
  const auto dimensions = pickle_.elements(value);
  if (dimensions.size() > most_dimensions) throw error("a tensor with an impossible shape");
  for (const PickleValue& dimension : dimensions) {
    const auto size = pickle_.integer(dimension);
    if (!size || *size < 0 || *size > most) throw error("a tensor with an impossible shape");
    shape.push_back(*size);
  }
  return shape;
}

std::span<const PickleValue> TorchArchive::rebuilt(PickleValue value) const {
  for (int depth = 0; depth < 2 && value.kind == PickleKind::object; ++depth) {
    const auto made = pickle_.elements(value);
    if (made.size() < 2) return {};
    const auto arguments = pickle_.elements(made[1]);
    const std::string_view function = pickle_.text(made[0]);
    if (function == "torch._utils._rebuild_tensor_v2")
      return arguments.size() >= 4 ? arguments : std::span<const PickleValue>();
    // A tensor with attributes: (function, class, the function's arguments, attributes).
    if (function == "torch._tensor._rebuild_from_type_v2") {
      const bool is_plain =
          arguments.size() >= 3 && pickle_.text(arguments[0]) == "torch._utils._rebuild_tensor_v2";
      const auto inner = is_plain ? pickle_.elements(arguments[2]) : std::span<const PickleValue>();
      return inner.size() >= 4 ? inner : std::span<const PickleValue>();
    }
    if (function != "torch._utils._rebuild_parameter" || arguments.empty()) return {};
    value = arguments[0];
  }
  return {};
}

/// ("storage", class, name, place, elements), as torch.serialization names a storage.
std::span<const PickleValue> TorchArchive::storage_of(
    std::span<const PickleValue> arguments) const {
  const auto id =
      arguments.empty() ? std::span<const PickleValue>() : pickle_.elements(arguments[0]);
  const auto storage = id.size() == 2 ? pickle_.elements(id[1]) : std::span<const PickleValue>();
  return storage.size() >= 3 ? storage : std::span<const PickleValue>();
}

bool TorchArchive::is_tensor(PickleValue value) const {
  const auto storage = storage_of(rebuilt(value));
  return !storage.empty() && dtype_of(pickle_.text(storage[1])).has_value();
}

ArchivedTensor TorchArchive::tensor(PickleValue value) const {
  const auto arguments = rebuilt(value);
  const auto storage = storage_of(arguments);
  if (storage.empty()) throw error("the archive holds no tensor");
  const std::string_view type = pickle_.text(storage[1]);
  const std::optional<Dtype> dtype = dtype_of(type);
  if (!dtype) throw error(fmt::format("a tensor of {}, which is no floating-point type", type));
  ArchivedTensor tensor{.dtype = *dtype, .shape = shape_of(arguments[2])};
  const auto elements = contiguous_elements(tensor.shape, shape_of(arguments[3]));
  if (!elements) throw error("a tensor that is not contiguous");
  const std::int64_t first = pickle_.integer(arguments[1]).value_or(-1);
  const Member& bytes = member(fmt::format("data/{}", pickle_.text(storage[2])));
  const std::int64_t size = size_of(tensor.dtype).count, capacity = bytes.bytes / size;
  if (first < 0 || first > capacity || *elements > capacity - first)
    throw error("a tensor that is larger than its storage");
  tensor.storage_offset = begin_ + bytes.header;
  tensor.offset = tensor.storage_offset + first * size;
  tensor.storage_bytes = bytes.bytes;
  if (has_checksums_) tensor.storage_crc32 = bytes.crc32;
  return tensor;
}

ArchivedTensor find_archived_tensor(const PositionedFile& file, std::int64_t offset,
                                    std::int64_t length) {
  const TorchArchive archive(file, offset, length, of_one_tensor);
  return archive.tensor(archive.pickle().root());
}

void read_floats(const PositionedFile& file, const ArchivedTensor& tensor, std::int64_t first,
                 std::span<float> out, std::vector<std::byte>& scratch) {
  const std::int64_t size = size_of(tensor.dtype).count;
  const auto most = static_cast<std::size_t>(bytes_at_once / size);
  while (!out.empty()) {
    const std::size_t count = std::min(out.size(), most);
    scratch.resize(count * static_cast<std::size_t>(size));
    file.read(tensor.offset + first * size, scratch);
    to_floats(tensor.dtype, scratch.data(), out.first(count));
    out = out.subspan(count);
    first += static_cast<std::int64_t>(count);
  }
}

void check_storage(const PositionedFile& file, const ArchivedTensor& tensor,
                   const std::string& tensor_name, std::vector<std::byte>& scratch) {
  if (!tensor.storage_crc32) return;
  std::uint32_t crc = 0;
  for (std::int64_t done = 0; done < tensor.storage_bytes; done += bytes_at_once) {
    scratch.resize(static_cast<std::size_t>(std::min(bytes_at_once, tensor.storage_bytes - done)));
    file.read(tensor.storage_offset + done, scratch);
    crc = crc32_of(scratch, crc);
  }
  if (crc != *tensor.storage_crc32) {
    throw Error(
        {.where = file.path().string(),
         .what = fmt::format("the storage of {} is damaged: its checksum is {} and was {}",
                             tensor_name, crc32_text(crc), crc32_text(*tensor.storage_crc32)),
         .way_out = "take another checkpoint, or copy this one again"});
  }
}

}  // namespace shardscope
