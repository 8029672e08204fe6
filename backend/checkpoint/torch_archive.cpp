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
#include "backend/checkpoint/pickle_text.h"
#include "core/base/error.h"
#include "traces/import/pickle.h"
#include "traces/import/text_input.h"

namespace shardscope {
namespace {

// Source: PKWARE's APPNOTE.TXT 6.3, sections 4.3.7, 4.3.12 and 4.3.16.
constexpr std::uint32_t local_signature = 0x04034b50;
constexpr std::uint32_t central_signature = 0x02014b50;
constexpr std::uint32_t end_signature = 0x06054b50;
constexpr std::int64_t local_bytes = 30, central_bytes = 46, end_bytes = 22;
constexpr std::int64_t longest_directory = 1 << 20;
constexpr std::int64_t longest_pickle = 1 << 20;
constexpr std::int64_t storage_alignment = 64;

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

struct Member {
  std::string name;
  std::int64_t offset = 0;  ///< of its bytes in the file
  std::int64_t bytes = 0;
  std::uint32_t crc32 = 0;
};

class ArchiveReader {
 public:
  ArchiveReader(const PositionedFile& file, std::int64_t offset, std::int64_t length)
      : file_(file), begin_(offset), length_(length) {
    if (offset < 0 || length < end_bytes || offset > file.bytes() || length > file.bytes() - offset)
      throw error(fmt::format("an archive of {} bytes does not fit into {}", length, file.bytes()));
  }

  ArchivedTensor tensor() {
    read_directory();
    const Member& pickle = member("/data.pkl");
    if (pickle.bytes > longest_pickle) throw error("its pickle is longer than 1 MiB");
    const std::string text = text_at(pickle.offset, pickle.bytes);
    TextOf input(text);
    return tensor_of(read_pickle(input, file_.path().string(),
                                 {.max_bytes = longest_pickle,
                                  .max_cells = 1 << 16,
                                  .max_depth = 100,
                                  .keeps_objects = true}));
  }

 private:
  Error error(std::string what) const {
    return Error({.where = fmt::format("{} at byte {}", file_.path().string(), begin_),
                  .what = std::move(what),
                  .way_out = "a file of PyTorch's distributed checkpoints has tensors that "
                             "torch.save wrote"});
  }

  std::string text_at(std::int64_t offset, std::int64_t bytes) const {
    std::string text(static_cast<std::size_t>(bytes), '\0');
    file_.read(offset, std::as_writable_bytes(std::span(text)));
    return text;
  }

  void read_directory() {
    // The end has a comment of at most 64 KiB; torch writes none.
    const std::int64_t looked_at = std::min(length_, end_bytes + 65535);
    const std::string tail = text_at(begin_ + length_ - looked_at, looked_at);
    std::size_t end = tail.size() - end_bytes;
    while (number_at(tail, end, 4) != end_signature)
      if (end-- == 0) throw error("there is no zip archive");
    const std::uint32_t count = number_at(tail, end + 10, 2), bytes = number_at(tail, end + 12, 4),
                        offset = number_at(tail, end + 16, 4);
    if (offset == 0xffffffff || count == 0xffff) throw error("an archive of more than 4 GiB");
    if (bytes > longest_directory || std::int64_t{offset} + bytes > length_)
      throw error("the archive's directory lies outside of it");
    const std::string directory = text_at(begin_ + offset, bytes);
    std::size_t at = 0;
    for (std::uint32_t i = 0; i < count; ++i) at = read_entry(directory, at);
  }

  std::size_t read_entry(const std::string& directory, std::size_t at) {
    if (directory.size() - at < central_bytes || number_at(directory, at, 4) != central_signature)
      throw error("the archive's directory is damaged");
    const std::size_t name = number_at(directory, at + 28, 2),
                      rest = number_at(directory, at + 30, 2) + number_at(directory, at + 32, 2);
    const std::size_t next = at + central_bytes + name + rest;
    if (next > directory.size()) throw error("the archive's directory is damaged");
    const std::uint32_t method = number_at(directory, at + 10, 2),
                        packed = number_at(directory, at + 20, 4),
                        bytes = number_at(directory, at + 24, 4);
    if (method != 0 || packed != bytes) throw error("the archive is compressed");
    members_.push_back({.name = directory.substr(at + central_bytes, name),
                        .offset = data_of(number_at(directory, at + 42, 4), bytes),
                        .bytes = bytes,
                        .crc32 = number_at(directory, at + 16, 4)});
    return next;
  }

  std::int64_t data_of(std::int64_t header, std::int64_t bytes) const {
    if (header > length_ - local_bytes) throw error("a file of the archive lies outside of it");
    const std::string local = text_at(begin_ + header, local_bytes);
    if (number_at(local, 0, 4) != local_signature) throw error("the archive is damaged");
    const std::int64_t data =
        header + local_bytes + number_at(local, 26, 2) + number_at(local, 28, 2);
    if (data > length_ || bytes > length_ - data)
      throw error("a file of the archive lies outside of it");
    return begin_ + data;
  }

  const Member& member(std::string_view end_of_name) const {
    for (const Member& one : members_)
      if (one.name.ends_with(end_of_name)) return one;
    throw error(fmt::format("the archive has no {}", end_of_name.substr(1)));
  }

  Shape shape_of(const Pickle& pickle, PickleValue value) const {
    Shape shape;
    constexpr std::int64_t most = std::int64_t{1} << 32;
    for (const PickleValue& dimension : pickle.elements(value)) {
      const auto size = pickle.integer(dimension);
      if (!size || *size < 0 || *size > most) throw error("a tensor with an impossible shape");
      shape.push_back(*size);
    }
    return shape;
  }

  Dtype dtype_of(std::string_view storage) const {
    constexpr std::array<std::pair<std::string_view, Dtype>, 4> known{
        {{"torch.FloatStorage", Dtype::float32},
         {"torch.BFloat16Storage", Dtype::bfloat16},
         {"torch.HalfStorage", Dtype::float16},
         {"torch.DoubleStorage", Dtype::float64}}};
    for (const auto& [name, dtype] : known)
      if (name == storage) return dtype;
    throw error(fmt::format("a tensor of {}, which is no floating-point type", storage));
  }

  ArchivedTensor tensor_of(const Pickle& pickle) const {
    const auto made = pickle.elements(pickle.root());
    const bool is_tensor =
        made.size() >= 2 && pickle.text(made[0]) == "torch._utils._rebuild_tensor_v2";
    const auto arguments = is_tensor ? pickle.elements(made[1]) : std::span<const PickleValue>();
    const auto id =
        arguments.size() >= 4 ? pickle.elements(arguments[0]) : std::span<const PickleValue>();
    const auto storage = id.size() == 2 ? pickle.elements(id[1]) : std::span<const PickleValue>();
    if (storage.size() < 3) throw error("the archive holds no tensor");
    ArchivedTensor tensor{.dtype = dtype_of(pickle.text(storage[1])),
                          .shape = shape_of(pickle, arguments[2])};
    const Shape strides = shape_of(pickle, arguments[3]);
    std::int64_t elements = 1;
    for (std::size_t i = tensor.shape.size(); i-- > 0;) {
      const bool matters = tensor.shape[i] != 1;
      if (strides.size() != tensor.shape.size() || (matters && strides[i] != elements))
        throw error("a tensor that is not contiguous");
      if (__builtin_mul_overflow(elements, tensor.shape[i], &elements))
        throw error("a tensor with an impossible shape");
    }
    const std::int64_t first = pickle.integer(arguments[1]).value_or(-1);
    const Member& bytes = member(fmt::format("/data/{}", pickle.text(storage[2])));
    const std::int64_t size = size_of(tensor.dtype).count, capacity = bytes.bytes / size;
    if (first < 0 || first > capacity || elements > capacity - first)
      throw error("a tensor that is larger than its storage");
    tensor.offset = bytes.offset + first * size;
    tensor.storage_offset = bytes.offset;
    tensor.storage_bytes = bytes.bytes;
    tensor.storage_crc32 = bytes.crc32;
    return tensor;
  }

  const PositionedFile& file_;
  std::int64_t begin_, length_;
  std::vector<Member> members_;
};

void append(std::string& text, std::uint32_t value, int width) {
  for (int i = 0; i < width; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
}

std::string tensor_pickle(const Shape& shape) {
  Shape strides(shape.size());
  std::int64_t elements = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = elements;
    elements *= std::max<std::int64_t>(1, shape[i]);
  }
  const std::string storage = "(" + pickled("storage") + pickled_name("torch", "FloatStorage") +
                              pickled("0") + pickled("cpu") + pickled(elements_of(shape)) + "tQ";
  const std::string hooks = pickled_name("collections", "OrderedDict") + ")R";
  return "\x80\x02" + pickled_name("torch._utils", "_rebuild_tensor_v2") + "(" + storage +
         pickled(std::int64_t{0}) + pickled(shape) + pickled(strides) + "\x89" + hooks + "tR.";
}

/// A zip archive of stored files, whose last one's bytes are written by somebody else.
class ArchiveMaker {
 public:
  void add(const std::string& name, const std::string& content) {
    begin(name, static_cast<std::uint32_t>(content.size()), crc32_of(content), 0);
    head_ += content;
  }
  /// Bytes come behind `head`, aligned.
  void begin_last(const std::string& name, std::uint32_t bytes, std::uint32_t crc32) {
    const auto used = static_cast<std::int64_t>(head_.size() + local_bytes + name.size());
    constexpr std::int64_t extra_head = 4;
    const std::int64_t padding =
        (storage_alignment - (used + extra_head) % storage_alignment) % storage_alignment;
    begin(name, bytes, crc32, static_cast<std::uint32_t>(extra_head + padding));
    last_bytes_ = bytes;
  }
  ArchiveFrame take() {
    std::string tail = central_;
    append(tail, end_signature, 4);
    append(tail, 0, 4);  // disks
    append(tail, count_, 2);
    append(tail, count_, 2);
    append(tail, static_cast<std::uint32_t>(central_.size()), 4);
    append(tail, static_cast<std::uint32_t>(head_.size() + last_bytes_), 4);
    append(tail, 0, 2);
    return {.head = std::move(head_), .tail = std::move(tail)};
  }

 private:
  void begin(const std::string& name, std::uint32_t bytes, std::uint32_t crc32,
             std::uint32_t extra) {
    const auto offset = static_cast<std::uint32_t>(head_.size());
    append(head_, local_signature, 4);
    common(head_, name, bytes, crc32);
    append(head_, extra, 2);
    head_ += name;
    if (extra > 0) {
      append(head_, 0x4246, 2);  // "FB", as torch pads
      append(head_, extra - 4, 2);
      head_.append(extra - 4, 'Z');
    }
    append(central_, central_signature, 4);
    append(central_, 0, 2);  // made by
    common(central_, name, bytes, crc32);
    append(central_, 0, 2);  // no extra field, comment, disk, attributes
    append(central_, 0, 4);
    append(central_, 0, 2);
    append(central_, 0, 4);
    append(central_, offset, 4);
    central_ += name;
    ++count_;
  }

  static void common(std::string& to, const std::string& name, std::uint32_t bytes,
                     std::uint32_t crc32) {
    append(to, 0, 2);     // version needed
    append(to, 0, 2);     // flags
    append(to, 0, 2);     // stored
    append(to, 0, 2);     // time
    append(to, 0x21, 2);  // 1 January 1980
    append(to, crc32, 4);
    append(to, bytes, 4);
    append(to, bytes, 4);
    append(to, static_cast<std::uint32_t>(name.size()), 2);
  }

  std::string head_, central_;
  std::uint32_t count_ = 0, last_bytes_ = 0;
};

}  // namespace

PositionedFile::PositionedFile(std::filesystem::path path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status {};
  if (!file_.valid() || ::fstat(file_.get(), &status) != 0)
    throw Error({.where = path_.string(),
                 .what = "cannot be read: " + std::generic_category().message(errno),
                 .way_out = {}});
  if (!S_ISREG(status.st_mode))
    throw Error({.where = path_.string(), .what = "is no regular file", .way_out = {}});
  bytes_ = status.st_size;
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

ArchivedTensor find_archived_tensor(const PositionedFile& file, std::int64_t offset,
                                    std::int64_t length) {
  return ArchiveReader(file, offset, length).tensor();
}

ArchiveFrame archive_frame(const Shape& shape, std::uint32_t storage_crc32) {
  ArchiveMaker archive;
  archive.add("archive/data.pkl", tensor_pickle(shape));
  archive.add("archive/byteorder", "little");
  archive.add("archive/version", "3\n");
  archive.begin_last("archive/data/0", static_cast<std::uint32_t>(elements_of(shape) * 4),
                     storage_crc32);
  return archive.take();
}

}  // namespace shardscope
