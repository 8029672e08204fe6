#include "backend/checkpoint/torch_archive_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend/checkpoint/checksum.h"
#include "backend/checkpoint/pickle_text.h"

namespace shardscope {
namespace {

// Source: PKWARE's APPNOTE.TXT 6.3, sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16 and 4.5.3.
constexpr std::uint64_t local_signature = 0x04034b50;
constexpr std::uint64_t central_signature = 0x02014b50;
constexpr std::uint64_t end_signature = 0x06054b50;
constexpr std::uint64_t wide_end_signature = 0x06064b50;
constexpr std::uint64_t wide_locator_signature = 0x07064b50;
constexpr std::uint64_t wide_field = 1, padding_field = 0x4246;  // "FB", as torch pads
constexpr std::uint64_t elsewhere = 0xffffffff, counted_elsewhere = 0xffff;
constexpr std::uint64_t version_of_zip64 = 45, first_of_1980 = 0x21;
constexpr std::int64_t local_bytes = 30, wide_end_bytes = 56;
constexpr std::int64_t storage_alignment = 64;
constexpr std::int64_t elements_at_once = std::int64_t{1} << 22;

void append(std::string& text, std::uint64_t value, int width) {
  for (int i = 0; i < width; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
}

void append_wide(std::string& text, std::int64_t value) {
  append(text, static_cast<std::uint64_t>(value), 8);
}

void for_pieces(const FloatSource& source, const auto& use) {
  std::vector<float> values;
  for (std::int64_t done = 0; done < source.elements; done += elements_at_once) {
    values.resize(static_cast<std::size_t>(std::min(elements_at_once, source.elements - done)));
    source.read(done, values);
    use(std::as_bytes(std::span<const float>(values)));
  }
}

class ArchiveWriter {
 public:
  ArchiveWriter(AtomicFile& file, std::int64_t largest_narrow)
      : file_(file), largest_narrow_(largest_narrow) {}

  void add(const std::string& name, std::string_view content) {
    begin(name, static_cast<std::int64_t>(content.size()), crc32_of(content), 1);
    write(content);
  }

  void add_storage(const std::string& name, const std::string& bytes) {
    begin(name, static_cast<std::int64_t>(bytes.size()), crc32_of(bytes), storage_alignment);
    write(bytes);
  }

  void add_storage(const std::string& name, const FloatSource& source) {
    std::uint32_t crc = 0;
    for_pieces(source, [&](std::span<const std::byte> bytes) { crc = crc32_of(bytes, crc); });
    begin(name, source.elements * 4, crc, storage_alignment);
    for_pieces(source, [&](std::span<const std::byte> bytes) {
      write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    });
  }

  std::int64_t finish() {
    const std::int64_t directory = written_;
    const auto bytes = static_cast<std::int64_t>(central_.size());
    write(central_);
    const bool is_wide =
        is_wide_number(directory) || is_wide_number(bytes) || members_ >= counted_elsewhere;
    if (is_wide) write(wide_end(directory, bytes));
    std::string end;
    append(end, end_signature, 4);
    append(end, 0, 4);  // disks
    append(end, is_wide ? counted_elsewhere : members_, 2);
    append(end, is_wide ? counted_elsewhere : members_, 2);
    append(end, is_wide ? elsewhere : static_cast<std::uint64_t>(bytes), 4);
    append(end, is_wide ? elsewhere : static_cast<std::uint64_t>(directory), 4);
    append(end, 0, 2);  // no comment
    write(end);
    return written_;
  }

 private:
  bool is_wide_number(std::int64_t number) const { return number > largest_narrow_; }

  void write(std::string_view bytes) {
    file_.write(bytes);
    written_ += static_cast<std::int64_t>(bytes.size());
  }

  /// Writes a member's header; its bytes follow, aligned.
  void begin(const std::string& name, std::int64_t bytes, std::uint32_t crc32,
             std::int64_t alignment) {
    const bool is_wide = is_wide_number(bytes) || is_wide_number(written_);
    const std::int64_t offset = written_;
    std::string sizes;
    if (is_wide) {
      append(sizes, wide_field, 2);
      append(sizes, 16, 2);
      append_wide(sizes, bytes);
      append_wide(sizes, bytes);
    }
    const std::string extra = padded(sizes, static_cast<std::int64_t>(name.size()), alignment);
    std::string local;
    append(local, local_signature, 4);
    append_common(local, name, bytes, crc32, is_wide);
    append(local, extra.size(), 2);
    write(local + name + extra);

    append(central_, central_signature, 4);
    append(central_, is_wide ? version_of_zip64 : 0, 2);  // made by
    append_common(central_, name, bytes, crc32, is_wide);
    append(central_, is_wide ? 28 : 0, 2);  // extra field
    append(central_, 0, 2);                 // comment
    append(central_, 0, 4);                 // disk, attributes
    append(central_, 0, 4);
    append(central_, is_wide ? elsewhere : static_cast<std::uint64_t>(offset), 4);
    central_ += name;
    if (is_wide) {
      append(central_, wide_field, 2);
      append(central_, 24, 2);
      append_wide(central_, bytes);
      append_wide(central_, bytes);
      append_wide(central_, offset);
    }
    ++members_;
  }

  /// The extra field, lengthened so that what follows it is aligned.
  std::string padded(std::string extra, std::int64_t name_bytes, std::int64_t alignment) const {
    if (alignment == 1) return extra;
    constexpr std::int64_t head = 4;
    const std::int64_t used =
        written_ + local_bytes + name_bytes + static_cast<std::int64_t>(extra.size()) + head;
    const auto padding = static_cast<std::size_t>((alignment - used % alignment) % alignment);
    append(extra, padding_field, 2);
    append(extra, padding, 2);
    return extra.append(padding, 'Z');
  }

  static void append_common(std::string& to, const std::string& name, std::int64_t bytes,
                            std::uint32_t crc32, bool is_wide) {
    const std::uint64_t size = is_wide ? elsewhere : static_cast<std::uint64_t>(bytes);
    append(to, is_wide ? version_of_zip64 : 0, 2);  // needed
    append(to, 0, 2);                               // flags
    append(to, 0, 2);                               // stored
    append(to, 0, 2);                               // time
    append(to, first_of_1980, 2);
    append(to, crc32, 4);
    append(to, size, 4);
    append(to, size, 4);
    append(to, name.size(), 2);
  }

  std::string wide_end(std::int64_t directory, std::int64_t bytes) const {
    std::string end;
    append(end, wide_end_signature, 4);
    append_wide(end, wide_end_bytes - 12);  // of what follows
    append(end, version_of_zip64, 2);
    append(end, version_of_zip64, 2);
    append(end, 0, 4);  // disks
    append(end, 0, 4);
    append(end, members_, 8);
    append(end, members_, 8);
    append_wide(end, bytes);
    append_wide(end, directory);
    append(end, wide_locator_signature, 4);
    append(end, 0, 4);
    append_wide(end, directory + bytes);
    append(end, 1, 4);  // disks
    return end;
  }

  AtomicFile& file_;
  std::int64_t largest_narrow_, written_ = 0;
  std::string central_;
  std::uint64_t members_ = 0;
};

std::string pickled_tensor_of(std::string_view storage_class, const Shape& shape,
                              std::size_t storage) {
  Shape strides(shape.size());
  std::int64_t elements = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = elements;
    elements *= std::max<std::int64_t>(1, shape[i]);
  }
  const std::string name = pickled_tuple(pickled("storage") + pickled_name("torch", storage_class) +
                                         pickled(std::to_string(storage)) + pickled("cpu") +
                                         pickled(elements_of(shape))) +
                           "Q";
  const std::string hooks = pickled_call(pickled_name("collections", "OrderedDict"), ")");
  return pickled_call(pickled_name("torch._utils", "_rebuild_tensor_v2"),
                      pickled_tuple(name + pickled(std::int64_t{0}) + pickled(shape) +
                                    pickled(strides) + pickled_boolean(false) + hooks));
}

template <class Storage>
std::int64_t write_archive(AtomicFile& file, std::string_view value,
                           std::span<const Storage> storages, std::int64_t largest_narrow) {
  ArchiveWriter archive(file, largest_narrow);
  archive.add("archive/data.pkl", whole_pickle(value));
  archive.add("archive/byteorder", "little");
  archive.add("archive/version", "3\n");
  for (std::size_t i = 0; i < storages.size(); ++i)
    archive.add_storage(fmt::format("archive/data/{}", i), storages[i]);
  return archive.finish();
}

}  // namespace

std::string pickled_tensor(const Shape& shape, std::size_t storage) {
  return pickled_tensor_of("FloatStorage", shape, storage);
}

std::string pickled_byte_tensor(std::int64_t bytes, std::size_t storage) {
  return pickled_tensor_of("ByteStorage", {bytes}, storage);
}

std::int64_t write_torch_archive(AtomicFile& file, std::string_view value,
                                 std::span<const FloatSource> storages,
                                 std::int64_t largest_narrow) {
  return write_archive(file, value, storages, largest_narrow);
}

std::int64_t write_byte_archive(AtomicFile& file, std::string_view value,
                                std::span<const std::string> storages) {
  return write_archive(file, value, storages, largest_of_zip);
}

}  // namespace shardscope
