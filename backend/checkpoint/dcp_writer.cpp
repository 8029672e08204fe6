#include "backend/checkpoint/dcp_writer.h"

#include <cstdint>
#include <span>
#include <string_view>

#include "backend/checkpoint/dcp_folder.h"
#include "backend/checkpoint/pickle_text.h"
#include "core/format/atomic_file.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view data_name = "__0_0.distcp";
constexpr std::string_view metadata_module = "torch.distributed.checkpoint.metadata";

/// Of an entry's archive in the file.
struct Place {
  std::int64_t offset = 0, length = 0;
};

std::int64_t write_archive(AtomicFile& file, const DcpEntry& entry) {
  if (!entry.shape) return write_torch_archive(file, entry.value, {});
  return write_torch_archive(file, pickled_tensor(*entry.shape, 0), std::span(&entry.source, 1));
}

std::vector<Place> write_data(const fs::path& path, const std::vector<DcpEntry>& entries) {
  AtomicFile file(path);
  std::vector<Place> places;
  std::int64_t offset = 0;
  for (const DcpEntry& entry : entries) {
    if (entry.same_as) {
      places.push_back(places[*entry.same_as]);
      continue;
    }
    const std::int64_t length = write_archive(file, entry);
    places.push_back({.offset = offset, .length = length});
    offset += length;
  }
  file.commit();
  return places;
}

/// What protocol 2 makes of an object with a __dict__.
std::string object(std::string_view module, std::string_view name, const std::string& state) {
  return pickled_name(module, name) + ")\x81" + state + "b";
}

std::string size_text(const Shape& shape) {
  return pickled_name("torch", "Size") + pickled(shape) + "\x85R";
}

std::string tensor_metadata(const Shape& shape) {
  const std::string properties = pickled_tuple(
      pickled_name("torch", "float32") + pickled_name("torch.serialization", "_get_layout") +
      pickled("torch.strided") + "\x85R" + pickled_boolean(false) +
      pickled_name(metadata_module, "_MEM_FORMAT_ENCODING") + pickled(std::int64_t{0}) + "\x85R" +
      pickled_boolean(false));
  const std::string chunk =
      object(metadata_module, "ChunkStorageMetadata",
             pickled_dict(pickled("offsets") + size_text(Shape(shape.size(), 0)) +
                          pickled("sizes") + size_text(shape)));
  return object(
      metadata_module, "TensorStorageMetadata",
      pickled_dict(pickled("properties") + object(metadata_module, "TensorProperties", properties) +
                   pickled("size") + size_text(shape) + pickled("chunks") + pickled_list(chunk)));
}

std::string described(const DcpEntry& entry) {
  return entry.shape ? tensor_metadata(*entry.shape)
                     : object(metadata_module, "BytesStorageMetadata", pickled_dict(""));
}

/// (MetadataIndex, _StorageInfo) of an entry.
std::string stored(const DcpEntry& entry, const Place& place) {
  const std::string none(pickled_none);
  const std::string offset = entry.shape ? size_text(Shape(entry.shape->size(), 0)) : none;
  const std::string index = entry.shape ? pickled(std::int64_t{0}) : none;
  return object(metadata_module, "MetadataIndex",
                pickled_dict(pickled("fqn") + pickled(entry.name) + pickled("offset") + offset +
                             pickled("index") + index)) +
         object("torch.distributed.checkpoint.filesystem", "_StorageInfo",
                pickled_dict(pickled("relative_path") + pickled(data_name) + pickled("offset") +
                             pickled(place.offset) + pickled("length") + pickled(place.length)));
}

std::string metadata_text(const std::vector<DcpEntry>& entries, const std::vector<Place>& places) {
  std::string all_described, all_stored, paths;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    all_described += pickled(entries[i].name) + described(entries[i]);
    all_stored += stored(entries[i], places[i]);
    paths += pickled(entries[i].name) + entries[i].path;
  }
  const std::string none(pickled_none);
  return whole_pickle(
      object(metadata_module, "Metadata",
             pickled_dict(pickled("state_dict_metadata") + pickled_dict(all_described) +
                          pickled("planner_data") + pickled_dict(paths) + pickled("storage_data") +
                          pickled_dict(all_stored) + pickled("storage_meta") + none +
                          pickled("version") + none)));
}

}  // namespace

void write_dcp(const fs::path& folder, const std::vector<DcpEntry>& entries) {
  const std::vector<Place> places = write_data(folder / data_name, entries);
  write_atomically(folder / dcp_metadata_name, metadata_text(entries, places));
}

}  // namespace shardscope
