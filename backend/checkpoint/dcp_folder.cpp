#include "backend/checkpoint/dcp_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/format/is_there.h"
#include "traces/import/pickle.h"
#include "traces/import/text_input.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t largest_metadata = std::int64_t{1} << 30;
constexpr std::int64_t most_elements = std::int64_t{1} << 48;

/// The pickled metadata, asked for by what its classes call their fields.
class Metadata {
 public:
  explicit Metadata(const fs::path& path) : path_(path), pickle_(read(path)) {
    if (!pickle_.problem().empty()) throw error(pickle_.problem());
    if (name_of(pickle_.root()) != "Metadata") throw error("is no metadata of a checkpoint");
  }

  Error error(std::string what) const {
    return Error({.where = path_.string(), .what = std::move(what), .way_out = {}});
  }

  PickleValue root() const { return pickle_.root(); }
  /// The class of an object, without its module.
  std::string_view name_of(PickleValue value) const {
    const auto parts = pickle_.elements(value);
    if (value.kind != PickleKind::object || parts.empty()) return {};
    const std::string_view name = pickle_.text(parts[0]);
    return name.substr(name.rfind('.') + 1);
  }
  PickleValue field(PickleValue object, std::string_view key) const {
    const auto found = optional_field(object, key);
    if (!found) throw error(fmt::format("{} has no {}", name_of(object), key));
    return *found;
  }
  std::optional<PickleValue> optional_field(PickleValue object, std::string_view key) const {
    const auto parts = pickle_.elements(object);
    if (object.kind != PickleKind::object || parts.size() < 3) return std::nullopt;
    return pickle_.find(parts[2], key);
  }
  std::span<const PickleValue> elements(PickleValue value) const { return pickle_.elements(value); }
  std::string text(PickleValue value) const {
    if (value.kind != PickleKind::text) throw error("a name that is no text");
    const std::string_view text = pickle_.text(value);
    if (text.size() > longest_tensor_name)
      throw error(fmt::format("a name of more than {} characters", longest_tensor_name));
    return std::string(text);
  }
  std::int64_t integer(PickleValue value) const {
    const auto number = pickle_.integer(value);
    if (!number || *number < 0) throw error("a size that is no number");
    return *number;
  }
  /// Of a torch.Size.
  Shape size(PickleValue value) const {
    const auto parts = pickle_.elements(value);
    if (name_of(value) != "Size" || parts.size() < 2) throw error("a size that is none");
    const auto arguments = pickle_.elements(parts[1]);
    if (arguments.size() != 1) throw error("a size that is none");
    const auto dimensions = pickle_.elements(arguments[0]);
    if (dimensions.size() > most_dimensions) throw error("a size of too many dimensions");
    Shape shape;
    for (const PickleValue& dimension : dimensions)
      shape.push_back(std::min(integer(dimension), most_elements));
    return shape;
  }

 private:
  static Pickle read(const fs::path& path) {
    const auto input = open_bytes(path);
    return read_pickle(*input, path.string(),
                       {.max_bytes = largest_metadata, .keeps_objects = true});
  }

  fs::path path_;
  Pickle pickle_;
};

/// Elements of a shape; nothing where they are too many.
std::optional<std::int64_t> checked_elements(const Shape& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t dimension : shape)
    if (__builtin_mul_overflow(elements, dimension, &elements) || elements > most_elements)
      return std::nullopt;
  return elements;
}

bool fits_into(const Shape& offsets, const Shape& sizes, const Shape& shape) {
  if (offsets.size() != shape.size() || sizes.size() != shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (offsets[i] > shape[i] || sizes[i] > shape[i] - offsets[i]) return false;
  return true;
}

}  // namespace

bool is_dcp_folder(const fs::path& folder) { return is_there(folder / dcp_metadata_name); }

DcpReader::DcpReader(fs::path folder) : folder_(std::move(folder)) { read_metadata(); }

Error DcpReader::error(std::string what) const {
  return Error({.where = folder_.string(), .what = std::move(what), .way_out = {}});
}

void DcpReader::read_metadata() {
  const Metadata metadata(folder_ / dcp_metadata_name);
  const auto tensors = metadata.elements(metadata.field(metadata.root(), "state_dict_metadata"));
  for (std::size_t i = 0; i + 1 < tensors.size(); i += 2) {
    if (metadata.name_of(tensors[i + 1]) != "TensorStorageMetadata") continue;
    Tensor tensor{.shape = metadata.size(metadata.field(tensors[i + 1], "size"))};
    if (!checked_elements(tensor.shape))
      throw metadata.error("a tensor of more than 2^48 elements");
    tensors_.insert_or_assign(metadata.text(tensors[i]), std::move(tensor));
  }
  const auto places = metadata.elements(metadata.field(metadata.root(), "storage_data"));
  std::map<std::string, std::map<Shape, Chunk>> chunks;
  for (std::size_t i = 0; i + 1 < places.size(); i += 2) {
    const std::string name = metadata.text(metadata.field(places[i], "fqn"));
    const auto offset = metadata.optional_field(places[i], "offset");
    if (!tensors_.contains(name) || !offset || offset->kind == PickleKind::none) continue;
    if (const auto transformed = metadata.optional_field(places[i + 1], "transform_descriptors");
        transformed && !metadata.elements(*transformed).empty())
      throw metadata.error("files that were transformed (compressed) cannot be read");
    Chunk chunk{.offsets = metadata.size(*offset), .sizes = {}};
    chunk.file = file_of(metadata.text(metadata.field(places[i + 1], "relative_path")));
    chunk.archive_offset = metadata.integer(metadata.field(places[i + 1], "offset"));
    chunk.archive_bytes = metadata.integer(metadata.field(places[i + 1], "length"));
    chunks[name].insert_or_assign(chunk.offsets, std::move(chunk));
  }
  // A pickle may share one list of chunks among all tensors.
  constexpr std::int64_t most_chunks = std::int64_t{1} << 25;
  std::int64_t seen = 0;
  for (std::size_t i = 0; i + 1 < tensors.size(); i += 2) {
    if (metadata.name_of(tensors[i + 1]) != "TensorStorageMetadata") continue;
    const std::string name = metadata.text(tensors[i]);
    for (const PickleValue& said : metadata.elements(metadata.field(tensors[i + 1], "chunks"))) {
      if (++seen > most_chunks)
        throw metadata.error(fmt::format("more than {} chunks", most_chunks));
      const Shape offsets = metadata.size(metadata.field(said, "offsets"));
      const auto found = chunks[name].find(offsets);
      if (found == chunks[name].end())
        throw metadata.error(fmt::format("no file is named for a chunk of {}", name));
      found->second.sizes = metadata.size(metadata.field(said, "sizes"));
      if (!fits_into(offsets, found->second.sizes, tensors_.at(name).shape))
        throw metadata.error(fmt::format("a chunk lies outside of {}", name));
      tensors_.at(name).chunks.push_back(found->second);
    }
  }
}

std::size_t DcpReader::file_of(const std::string& name) {
  const auto found = file_numbers_.find(name);
  if (found != file_numbers_.end()) return found->second;
  const fs::path path = name;
  if (name.empty() || path.filename() != path)
    throw error(fmt::format("the metadata names a file outside of the folder: {}", name));
  files_.emplace_back(folder_ / path);
  return file_numbers_.emplace(name, files_.size() - 1).first->second;
}

/// A chunk's rows lie together in the tensor as far as its last dimensions are whole.
DcpReader::Run DcpReader::run_at(Tensor& tensor, std::int64_t first) {
  const Shape& shape = tensor.shape;
  Shape at(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    at[i] = first % shape[i];
    first /= shape[i];
  }
  for (Chunk& chunk : tensor.chunks) {
    std::int64_t in_chunk = 0, run = 1;
    bool holds = true, together = true;
    for (std::size_t i = 0; i < shape.size() && holds; ++i) {
      const std::int64_t inside = at[i] - chunk.offsets[i];
      holds = inside >= 0 && inside < chunk.sizes[i];
      in_chunk = in_chunk * chunk.sizes[i] + inside;
    }
    if (!holds) continue;
    for (std::size_t i = shape.size(); i-- > 0 && together;) {
      run *= chunk.sizes[i];
      together = chunk.sizes[i] == shape[i];
    }
    return {.chunk = &chunk, .in_chunk = in_chunk, .elements = run - in_chunk % run};
  }
  return {};
}

std::vector<std::string> DcpReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

const Shape& DcpReader::shape(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw error(fmt::format("there is no tensor {}", name));
  return found->second.shape;
}

void DcpReader::open_chunk(const std::string& name, Chunk& chunk) {
  if (chunk.is_open) return;
  const PositionedFile& file = files_[chunk.file];
  chunk.tensor = find_archived_tensor(file, chunk.archive_offset, chunk.archive_bytes);
  if (chunk.tensor.shape != chunk.sizes)
    throw error(fmt::format("a chunk of {} has another shape than the metadata says", name));
  check_storage(file, chunk.tensor, name, bytes_);
  chunk.is_open = true;
}

void DcpReader::read(const std::string& name, std::int64_t first, std::span<float> out) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw error(fmt::format("there is no tensor {}", name));
  Tensor& tensor = found->second;
  const std::int64_t all = elements_of(tensor.shape),
                     wanted = static_cast<std::int64_t>(out.size());
  if (first < 0 || first > all || wanted > all - first)
    throw error(fmt::format("{} has {} elements", name, all));
  while (!out.empty()) {
    const Run run = run_at(tensor, first);
    if (!run.chunk) throw error(fmt::format("no chunk holds element {} of {}", first, name));
    Chunk& chunk = *run.chunk;
    open_chunk(name, chunk);
    const std::int64_t count = std::min(static_cast<std::int64_t>(out.size()), run.elements);
    read_floats(files_[chunk.file], chunk.tensor, run.in_chunk,
                out.first(static_cast<std::size_t>(count)), bytes_);
    out = out.subspan(static_cast<std::size_t>(count));
    first += count;
  }
}

}  // namespace shardscope
