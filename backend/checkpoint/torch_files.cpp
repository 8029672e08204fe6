#include "backend/checkpoint/torch_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"

namespace shardscope {

std::size_t TorchFiles::open(const std::filesystem::path& path) {
  files_.emplace_back(path);
  note_open(files_.size() - 1);
  return files_.size() - 1;
}

void TorchFiles::note_open(std::size_t file) {
  open_.push_back(file);
  if (open_.size() <= most_open_) return;
  files_[open_.front()].bytes.close();
  open_.pop_front();
}

const PositionedFile& TorchFiles::opened(std::size_t file) {
  PositionedFile& wanted = files_[file].bytes;
  if (!wanted.is_open()) {
    wanted.open();
    note_open(file);
  }
  return wanted;
}

void TorchFiles::read(const std::string& name, const std::vector<TorchPiece>& pieces,
                      std::int64_t first, std::span<float> out) {
  auto piece = std::upper_bound(
      pieces.begin(), pieces.end(), first,
      [](std::int64_t at, const TorchPiece& one) { return at < one.first + one.elements; });
  for (; !out.empty(); ++piece) {
    if (piece == pieces.end() || first < piece->first) {
      throw Error({.where = name,
                   .what = fmt::format("no file holds element {}", first),
                   .way_out = "take a checkpoint that was saved whole"});
    }
    check(name, *piece);
    const std::int64_t inside = first - piece->first;
    const auto count = static_cast<std::size_t>(
        std::min(static_cast<std::int64_t>(out.size()), piece->elements - inside));
    read_floats(opened(piece->file), piece->tensor, piece->in_tensor + inside, out.first(count),
                scratch_);
    out = out.subspan(count);
    first += static_cast<std::int64_t>(count);
  }
}

/// Each storage is read once for its checksum. One that is damaged is refused each time.
void TorchFiles::check(const std::string& name, const TorchPiece& piece) {
  const std::pair storage(piece.file, piece.tensor.storage_offset);
  auto found = checked_.find(storage);
  if (found == checked_.end()) {
    std::optional<Error> fault;
    try {
      check_storage(opened(piece.file), piece.tensor, name, scratch_);
    } catch (const Error& error) {
      fault = error;
    }
    found = checked_.emplace(storage, std::move(fault)).first;
  }
  if (found->second) throw Error(found->second->parts());
}

ForeignTensor tensor_of(std::shared_ptr<TorchFiles> files, const std::string& name, Shape shape,
                        std::vector<TorchPiece> pieces) {
  return {.shape = std::move(shape),
          .read = [files = std::move(files), name,
                   pieces = std::make_shared<const std::vector<TorchPiece>>(std::move(pieces))](
                      std::int64_t first, std::span<float> out) {
            files->read(name, *pieces, first, out);
          }};
}

ForeignTensor tensor_of(std::shared_ptr<TorchFiles> files, const std::string& name,
                        std::size_t file, const ArchivedTensor& tensor) {
  return tensor_of(
      std::move(files), name, tensor.shape,
      {{.first = 0, .elements = elements_of(tensor.shape), .file = file, .tensor = tensor}});
}

namespace {

ForeignTensor constant(float value) {
  return {.shape = {}, .read = [value](std::int64_t, std::span<float> out) {
            std::fill(out.begin(), out.end(), value);
          }};
}

/// Containers may be shared and may hold themselves: depth and number are bounded.
class StateDictWalk {
 public:
  StateDictWalk(const std::shared_ptr<TorchFiles>& files, std::size_t file,
                std::map<std::string, ForeignTensor>& tensors)
      : files_(files), file_(file), pickle_(files->pickle(file)), tensors_(tensors) {}

  void add(PickleValue value, const std::string& name, int depth) {
    constexpr int deepest = 12;
    if (depth > deepest || ++seen_ > most_tensors || name.size() > longest_tensor_name)
      throw Error({.where = name.substr(0, longest_tensor_name),
                   .what = "a state dict that is nested too deep, or has too many values or too "
                           "long names",
                   .way_out = {}});
    if (files_->archive(file_).is_tensor(value)) {
      tensors_.insert_or_assign(
          name, tensor_of(files_, name, file_, files_->archive(file_).tensor(value)));
      return;
    }
    if (name.ends_with(".step")) {
      if (const auto step = pickle_.integer(value))
        tensors_.insert_or_assign(name, constant(static_cast<float>(*step)));
      return;
    }
    if (value.kind != PickleKind::dict) return;
    const auto items = pickle_.elements(value);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      const std::optional<std::string> key = key_text(items[i]);
      if (key) add(items[i + 1], name.empty() ? *key : name + "." + *key, depth + 1);
    }
  }

 private:
  std::optional<std::string> key_text(PickleValue key) const {
    if (key.kind == PickleKind::text) return std::string(pickle_.text(key));
    if (const auto number = pickle_.integer(key)) return std::to_string(*number);
    return std::nullopt;
  }

  const std::shared_ptr<TorchFiles>& files_;
  std::size_t file_;
  const Pickle& pickle_;
  std::map<std::string, ForeignTensor>& tensors_;
  std::int64_t seen_ = 0;
};

}  // namespace

void add_state_dict(const std::shared_ptr<TorchFiles>& files, std::size_t file, PickleValue dict,
                    std::map<std::string, ForeignTensor>& tensors) {
  StateDictWalk(files, file, tensors).add(dict, "", 0);
}

std::vector<std::int64_t> group_sizes_of(const Pickle& pickle, PickleValue optimizer) {
  const auto list = pickle.find(optimizer, "param_groups");
  const auto groups = list ? pickle.elements(*list) : std::span<const PickleValue>();
  constexpr std::size_t most = std::size_t{1} << 14;
  if (groups.size() > most)
    throw Error({.where = "param_groups",
                 .what = fmt::format("has {} groups, expected at most {}", groups.size(), most),
                 .way_out = {}});
  std::vector<std::int64_t> sizes;
  for (const PickleValue& group : groups)
    if (const auto parameters = pickle.find(group, "params"))
      sizes.push_back(static_cast<std::int64_t>(pickle.elements(*parameters).size()));
  return sizes;
}

}  // namespace shardscope
