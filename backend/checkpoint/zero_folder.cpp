#include "backend/checkpoint/zero_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "backend/checkpoint/torch_files.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

// Names: DeepSpeed 0.19.8, runtime/engine.py (_get_zero_ckpt_name, _get_ckpt_name) and
// checkpoint/constants.py.
constexpr std::string_view latest_name = "latest";
constexpr std::string_view model_states = "mp_rank_00_model_states.pt";
constexpr std::string_view optim_suffix = "_optim_states.pt";
constexpr std::string_view model_suffix = "_model_states.pt";
constexpr std::int64_t longest_tag = 4096;

Error error(const fs::path& where, std::string what,
            std::string way_out = "give the folder that engine.save_checkpoint wrote, whole") {
  return Error({.where = where.string(), .what = std::move(what), .way_out = std::move(way_out)});
}

bool has_file_with(const fs::path& folder, std::string_view suffix) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().filename().string().ends_with(suffix)) return true;
  return false;
}

/// The folder that `latest` names, or the given one.
fs::path tag_folder(const fs::path& folder) {
  if (!is_there(folder / latest_name)) return folder;
  std::string tag = read_whole(folder / latest_name, longest_tag);
  while (!tag.empty() && (tag.back() == '\n' || tag.back() == '\r' || tag.back() == ' '))
    tag.pop_back();
  if (tag.empty() || fs::path(tag).filename() != fs::path(tag) || tag == "..")
    throw error(folder / latest_name, "names no folder beside it");
  return folder / tag;
}

/// 12 of "bf16_zero_pp_rank_12_mp_rank_00_optim_states.pt"; nothing for other names.
std::optional<std::int64_t> rank_of(std::string_view name, std::string_view suffix) {
  constexpr std::string_view half = "bf16_", begin = "zero_pp_rank_", middle = "_mp_rank_00";
  if (name.starts_with(half)) name.remove_prefix(half.size());
  if (!name.starts_with(begin) || !name.ends_with(suffix)) return std::nullopt;
  name.remove_prefix(begin.size());
  name.remove_suffix(suffix.size());
  if (!name.ends_with(middle)) return std::nullopt;
  name.remove_suffix(middle.size());
  std::int64_t rank = 0;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), rank);
  if (failed != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return rank;
}

/// The files of all ranks, by rank.
std::vector<fs::path> files_of_ranks(const fs::path& folder, std::string_view suffix) {
  std::map<std::int64_t, fs::path> by_rank;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(suffix) || name == model_states) continue;
    const auto rank = rank_of(name, suffix);
    if (!rank)
      throw error(entry.path(), "is of tensor, pipeline or expert parallelism, which is not read",
                  "make it a universal checkpoint, or save one with ZeRO alone");
    if (!by_rank.emplace(*rank, entry.path()).second)
      throw error(entry.path(), fmt::format("is a second file of rank {}", *rank));
  }
  std::vector<fs::path> files;
  for (const auto& [rank, path] : by_rank) {
    if (rank != static_cast<std::int64_t>(files.size()))
      throw error(folder, fmt::format("has no *{} of rank {}", suffix, files.size()));
    files.push_back(path);
  }
  return files;
}

/// A file with the values that its pickle has, asked for by key.
class StatesFile {
 public:
  StatesFile(std::shared_ptr<TorchFiles> files, const fs::path& path)
      : files_(std::move(files)), path_(path), number_(files_->open(path)) {}

  Error wrong(std::string what) const { return error(path_, std::move(what)); }
  const fs::path& path() const { return path_; }
  std::size_t number() const { return number_; }
  const Pickle& pickle() const { return files_->pickle(number_); }
  PickleValue root() const { return pickle().root(); }
  /// Dicts that are asked this have few keys.
  std::optional<PickleValue> find(PickleValue dict, std::string_view key) const {
    constexpr std::size_t most_keys = 10'000;
    if (pickle().elements(dict).size() / 2 > most_keys)
      throw wrong(
          fmt::format("has a dict of more than {} keys where {} should be", most_keys, key));
    return pickle().find(dict, key);
  }
  /// The values of a dict whose keys are texts, by key. Views of the pickle.
  std::map<std::string_view, PickleValue> values(PickleValue dict) const {
    std::map<std::string_view, PickleValue> all;
    if (dict.kind != PickleKind::dict) return all;
    const auto items = pickle().elements(dict);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      if (items[i].kind == PickleKind::text)
        all.insert_or_assign(pickle().text(items[i]), items[i + 1]);
    return all;
  }
  PickleValue at(PickleValue dict, std::string_view key) const {
    const auto found = find(dict, key);
    if (!found) throw wrong(fmt::format("has no {}", key));
    return *found;
  }
  bool is_tensor(PickleValue value) const { return files_->archive(number_).is_tensor(value); }
  ArchivedTensor tensor(PickleValue value) const { return files_->archive(number_).tensor(value); }
  /// Of an integer, or an Enum's value.
  std::optional<std::int64_t> integer(PickleValue value) const {
    if (value.kind == PickleKind::object) {
      const auto parts = pickle().elements(value);
      const auto arguments =
          parts.size() >= 2 ? pickle().elements(parts[1]) : std::span<const PickleValue>();
      if (arguments.size() == 1) return pickle().integer(arguments[0]);
    }
    return pickle().integer(value);
  }
  std::int64_t integer_at(PickleValue dict, std::string_view key, std::int64_t otherwise) const {
    const auto found = find(dict, key);
    return found ? integer(*found).value_or(otherwise) : otherwise;
  }

 private:
  std::shared_ptr<TorchFiles> files_;
  fs::path path_;
  std::size_t number_;
};

struct NamedShape {
  std::string name;
  Shape shape;
};

Shape size_of_torch(const StatesFile& file, PickleValue value) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  const auto parts = file.pickle().elements(value);
  const auto arguments = value.kind == PickleKind::object && parts.size() >= 2
                             ? file.pickle().elements(parts[1])
                             : std::span<const PickleValue>();
  if (arguments.size() != 1) throw file.wrong("has a shape that is no torch.Size");
  const auto dimensions = file.pickle().elements(arguments[0]);
  if (dimensions.size() > most_dimensions) throw file.wrong("has an impossible shape");
  Shape shape;
  std::int64_t elements = 1;
  for (const PickleValue& dimension : dimensions) {
    const auto size = file.pickle().integer(dimension);
    if (!size || *size < 0 || __builtin_mul_overflow(elements, *size, &elements) || elements > most)
      throw file.wrong("has an impossible shape");
    shape.push_back(*size);
  }
  return shape;
}

std::string name_in(const StatesFile& file, PickleValue value) {
  const std::string_view name = file.pickle().text(value);
  if (name.size() > longest_tensor_name)
    throw file.wrong(fmt::format("has a name of more than {} characters", longest_tensor_name));
  return std::string(name);
}

/// A dict of names and torch.Sizes, in its order.
std::vector<NamedShape> named_shapes(const StatesFile& file, PickleValue dict) {
  std::vector<NamedShape> all;
  const auto items = file.pickle().elements(dict);
  if (static_cast<std::int64_t>(items.size() / 2) > most_tensors)
    throw file.wrong(fmt::format("has shapes of more than {} tensors", most_tensors));
  for (std::size_t i = 0; i + 1 < items.size(); i += 2)
    all.push_back({name_in(file, items[i]), size_of_torch(file, items[i + 1])});
  return all;
}

/// A flat tensor of one rank.
struct FlatPart {
  std::size_t file = 0;
  ArchivedTensor tensor;
  std::int64_t elements() const { return elements_of(tensor.shape); }
};

/// Flat parts that follow each other, as one vector.
class FlatVector {
 public:
  void append(const FlatPart& part) {
    ends_.push_back(elements() + part.elements());
    parts_.push_back(part);
  }
  std::int64_t elements() const { return ends_.empty() ? 0 : ends_.back(); }

  /// Adds the pieces of [first, first + count). They begin at `in_whole` of the tensor that they
  /// make.
  void add_pieces(std::int64_t first, std::int64_t count, std::int64_t in_whole,
                  std::vector<TorchPiece>& pieces) const {
    const auto found = std::upper_bound(ends_.begin(), ends_.end(), first);
    for (auto p = static_cast<std::size_t>(found - ends_.begin()); p < parts_.size(); ++p) {
      const std::int64_t begin = ends_[p] - parts_[p].elements();
      const std::int64_t from = std::max(first, begin), to = std::min(first + count, ends_[p]);
      if (begin >= first + count) return;
      if (from < to)
        pieces.push_back({.first = in_whole + (from - first),
                          .elements = to - from,
                          .file = parts_[p].file,
                          .tensor = parts_[p].tensor,
                          .in_tensor = from - begin});
    }
  }

 private:
  std::vector<FlatPart> parts_;
  std::vector<std::int64_t> ends_;  ///< of each part, in the vector
};

/// The flat tensors of one rank: of each group its weights or one of their states.
using RankGroups = std::vector<FlatPart>;

/// One rank's file of optimizer states.
struct OptimFile {
  StatesFile file;
  PickleValue state;  ///< optimizer_state_dict
  RankGroups weights;
  std::map<std::string, RankGroups> states;  ///< those that every group has, as long as its weights
};

RankGroups flat_tensors(const StatesFile& file, PickleValue list) {
  constexpr std::size_t most = std::size_t{1} << 14;
  const auto values = file.pickle().elements(list);
  if (values.size() > most) throw file.wrong(fmt::format("has more than {} groups", most));
  RankGroups groups;
  for (const PickleValue& value : values) {
    const ArchivedTensor tensor = file.tensor(value);
    if (tensor.shape.size() != 1) throw file.wrong("has a group that is not flat");
    groups.push_back({.file = file.number(), .tensor = tensor});
  }
  return groups;
}

/// What torch's optimizer keeps of each group: `state` of its state_dict by number, or the list
/// that DeepSpeed writes with elastic_checkpoint.
std::vector<PickleValue> states_by_group(const StatesFile& file, PickleValue optimizer) {
  if (optimizer.kind == PickleKind::list) {
    const auto all = file.pickle().elements(optimizer);
    return {all.begin(), all.end()};
  }
  const auto state = file.find(optimizer, "state");
  if (!state) return {};
  std::map<std::int64_t, PickleValue> by_number;
  const auto items = file.pickle().elements(*state);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2)
    if (const auto number = file.pickle().integer(items[i])) by_number[*number] = items[i + 1];
  std::vector<PickleValue> all;
  for (const auto& [number, value] : by_number) all.push_back(value);
  return all;
}

void find_states(OptimFile& optim, PickleValue optimizer) {
  const std::vector<PickleValue> groups = states_by_group(optim.file, optimizer);
  if (groups.size() != optim.weights.size()) return;
  for (const std::string_view name : states_of_torch) {
    RankGroups found;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto value = optim.file.find(groups[g], name);
      if (!value || !optim.file.is_tensor(*value)) break;
      found.push_back({.file = optim.file.number(), .tensor = optim.file.tensor(*value)});
      // Weights are saved without the padding behind the last rank's, states with it.
      if (found.back().elements() < optim.weights[g].elements())
        throw optim.file.wrong(fmt::format("has {} of {} elements for a group of {}", name,
                                           found.back().elements(), optim.weights[g].elements()));
      found.back().tensor.shape = optim.weights[g].tensor.shape;
    }
    if (found.size() == groups.size()) optim.states.emplace(name, std::move(found));
  }
}

OptimFile read_optim_file(const std::shared_ptr<TorchFiles>& files, const fs::path& path,
                          std::int64_t& stage) {
  OptimFile optim{.file = StatesFile(files, path), .state = {}, .weights = {}, .states = {}};
  const StatesFile& file = optim.file;
  optim.state = file.at(file.root(), "optimizer_state_dict");
  stage = file.integer_at(optim.state, "zero_stage", 1);
  if (stage < 0 || stage > 3) throw file.wrong(fmt::format("has the zero_stage {}", stage));
  const bool is_third = stage == 3;
  optim.weights = flat_tensors(
      file,
      file.at(optim.state, is_third ? "fp32_flat_groups" : "single_partition_of_fp32_groups"));
  if (const auto optimizer =
          file.find(optim.state, is_third ? "optimizer_state_dict" : "base_optimizer_state"))
    find_states(optim, *optimizer);
  return optim;
}

/// The number of ranks that share a group; the largest of all groups.
std::int64_t partition_count(const OptimFile& optim) {
  const PickleValue value = optim.file.at(optim.state, "partition_count");
  std::int64_t count = optim.file.integer(value).value_or(0);
  for (const PickleValue& one : optim.file.pickle().elements(value))
    count = std::max(count, optim.file.integer(one).value_or(0));
  return count;
}

class ZeroFolder {
 public:
  explicit ZeroFolder(const fs::path& given)
      : folder_(tag_folder(given)), files_(std::make_shared<TorchFiles>()) {
    if (!fs::is_directory(folder_)) throw error(folder_, "is no folder");
    opened_.folder = given;
    opened_.format = "deepspeed";
  }

  ForeignCheckpoint open() {
    const std::vector<fs::path> optim_paths = files_of_ranks(folder_, optim_suffix);
    for (const fs::path& path : optim_paths) {
      std::int64_t stage = 0;
      ranks_.push_back(read_optim_file(files_, path, stage));
      if (ranks_.size() > 1 && stage != stage_)
        throw error(path, fmt::format("is of stage {}, and rank 0 of {}", stage, stage_));
      stage_ = stage;
    }
    read_model_states();
    if (ranks_.empty())
      add_without_zero();
    else
      add_with_zero();
    add_shared();
    return std::move(opened_);
  }

 private:
  void read_model_states() {
    if (stage_ < 3) {
      models_.emplace_back(files_, folder_ / model_states);
    } else {
      for (const fs::path& path : files_of_ranks(folder_, model_suffix))
        models_.emplace_back(files_, path);
      if (models_.empty()) throw error(folder_, "has no model states");
    }
    const StatesFile& model = models_.front();
    const std::int64_t steps = model.integer_at(model.root(), "global_steps", 0),
                       skipped = model.integer_at(model.root(), "skipped_steps", 0);
    if (steps < 0 || steps > most_steps || skipped < 0 || skipped > steps)
      throw model.wrong(fmt::format("counts {} steps, {} of them skipped", steps, skipped));
    opened_.step = steps;
    opened_.skipped_steps = skipped;
    opened_.world = static_cast<int>(std::clamp<std::int64_t>(
        model.integer_at(model.root(), "dp_world_size", 1), 1, std::int64_t{1} << 20));
    if (model.integer_at(model.root(), "mp_world_size", 1) > 1)
      throw model.wrong("is of tensor or pipeline parallelism, which is not read");
  }

  void add_without_zero() {
    opened_.strategy = "no_shard";
    const StatesFile& model = models_.front();
    add_state_dict(files_, model.number(), model.at(model.root(), "module"), opened_.tensors);
    const auto optimizer = model.find(model.root(), "optimizer");
    if (!optimizer) return;
    add_state_dict(files_, model.number(), *optimizer, opened_.tensors);
    opened_.group_sizes = group_sizes_of(model.pickle(), *optimizer);
  }

  void add_with_zero() {
    opened_.strategy = fmt::format("zero{}", stage_);
    const std::int64_t count = partition_count(ranks_.front());
    if (count != static_cast<std::int64_t>(ranks_.size())) {
      throw error(folder_, fmt::format("has optimizer states of {} ranks, and {} saved it",
                                       ranks_.size(), count));
    }
    for (const OptimFile& rank : ranks_)
      if (rank.weights.size() != ranks_.front().weights.size())
        throw rank.file.wrong("has another number of groups than rank 0");
    add_frozen();
    const StatesFile& model = models_.front();
    std::vector<std::vector<NamedShape>> groups;
    std::int64_t parameters = 0;
    for (const PickleValue& group :
         model.pickle().elements(model.at(model.root(), "param_shapes"))) {
      groups.push_back(named_shapes(model, group));
      parameters += static_cast<std::int64_t>(groups.back().size());
      if (parameters > most_tensors)
        throw model.wrong(fmt::format("has shapes of more than {} tensors", most_tensors));
    }
    stage_ == 3 ? add_third(groups) : add_first_or_second(groups);
  }

  /// The groups of all ranks, of the weights or of a state that all have.
  std::optional<std::vector<const RankGroups*>> of_all_ranks(std::string_view state) const {
    std::vector<const RankGroups*> all;
    for (const OptimFile& rank : ranks_) {
      if (state.empty()) {
        all.push_back(&rank.weights);
        continue;
      }
      const auto found = rank.states.find(std::string(state));
      if (found == rank.states.end()) return std::nullopt;
      all.push_back(&found->second);
    }
    return all;
  }

  static std::string name_of(std::string_view state, const std::string& parameter) {
    return state.empty() ? parameter : fmt::format("state.{}.{}", parameter, state);
  }

  void add(std::string_view state, const NamedShape& parameter, std::vector<TorchPiece> pieces) {
    const std::string name = name_of(state, parameter.name);
    opened_.tensors.insert_or_assign(name,
                                     tensor_of(files_, name, parameter.shape, std::move(pieces)));
  }

  void add_of_each_state(const auto& add_one) {
    add_one(std::string_view{}, *of_all_ranks(""));
    for (const std::string_view state : states_of_torch)
      if (const auto all = of_all_ranks(state)) add_one(state, *all);
  }

  /// The ranks' partitions of a group follow each other and are one flat vector of its parameters.
  /// Source: zero_to_fp32.py, _zero2_merge_trainable_params.
  void add_first_or_second(const std::vector<std::vector<NamedShape>>& groups) {
    if (groups.size() != ranks_.front().weights.size()) {
      throw error(folder_, fmt::format("has {} groups of weights, and names of {}",
                                       ranks_.front().weights.size(), groups.size()));
    }
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const std::vector<std::int64_t> paddings = paddings_of(g, groups[g].size());
      add_of_each_state([&](std::string_view state, const std::vector<const RankGroups*>& ranks) {
        FlatVector whole;
        for (const RankGroups* rank : ranks) whole.append((*rank)[g]);
        std::int64_t offset = 0;
        for (std::size_t p = 0; p < groups[g].size(); ++p) {
          const std::int64_t elements = elements_of(groups[g][p].shape);
          std::vector<TorchPiece> pieces;
          whole.add_pieces(offset, elements, 0, pieces);
          add(state, groups[g][p], std::move(pieces));
          offset += elements + paddings[p];
        }
        require_all_used(offset, whole.elements(), 2 * static_cast<std::int64_t>(ranks.size()));
      });
    }
  }

  /// Elements after each parameter of a group that align the next one; 0 where the file does not
  /// say it.
  std::vector<std::int64_t> paddings_of(std::size_t group, std::size_t parameters) const {
    std::vector<std::int64_t> paddings(parameters, 0);
    const StatesFile& file = ranks_.front().file;
    const auto all = file.find(ranks_.front().state, "param_alignment_paddings");
    if (!all) return paddings;
    const auto groups = file.pickle().elements(*all);
    const auto values = group < groups.size() ? file.pickle().elements(groups[group])
                                              : std::span<const PickleValue>();
    if (values.size() != parameters) throw file.wrong("has no padding for each parameter");
    constexpr std::int64_t most = 1 << 20;
    for (std::size_t p = 0; p < parameters; ++p) {
      paddings[p] = file.integer(values[p]).value_or(-1);
      if (paddings[p] < 0 || paddings[p] > most) throw file.wrong("has an impossible padding");
    }
    return paddings;
  }

  /// Every parameter is divided among all ranks by itself, padded; a rank's parts follow each other
  /// through its groups. Source: zero_to_fp32.py, _zero3_merge_trainable_params.
  void add_third(const std::vector<std::vector<NamedShape>>& groups) {
    const auto world = static_cast<std::int64_t>(ranks_.size());
    add_of_each_state([&](std::string_view state, const std::vector<const RankGroups*>& ranks) {
      std::vector<FlatVector> flat(ranks.size());
      for (std::size_t r = 0; r < ranks.size(); ++r)
        for (const FlatPart& part : *ranks[r]) flat[r].append(part);
      std::int64_t offset = 0;
      for (const std::vector<NamedShape>& group : groups)
        for (const NamedShape& parameter : group) {
          const std::int64_t elements = elements_of(parameter.shape);
          const std::int64_t each = (elements + world - 1) / world;
          std::vector<TorchPiece> pieces;
          for (std::int64_t rank = 0; rank < world; ++rank) {
            const std::int64_t first = std::min(rank * each, elements);
            flat[static_cast<std::size_t>(rank)].add_pieces(
                offset, std::min(each, elements - first), first, pieces);
          }
          add(state, parameter, std::move(pieces));
          offset += each;
        }
      for (const FlatVector& of_rank : flat) require_all_used(offset, of_rank.elements(), 1);
    });
  }

  /// `alignment`: what the sizes were rounded up to.
  void require_all_used(std::int64_t used, std::int64_t there, std::int64_t alignment) const {
    const auto rounded = [&](std::int64_t value) { return (value + alignment - 1) / alignment; };
    if (rounded(used) == rounded(there)) return;
    throw error(folder_,
                fmt::format("has {} elements of weights, and the parameters take {}", there, used));
  }

  /// Parameters that are not trained: whole in stages 1 and 2, a part in each rank's file in 3.
  void add_frozen() {
    const StatesFile& model = models_.front();
    const auto shapes = model.find(model.root(), "frozen_param_shapes");
    if (!shapes) return;
    const std::vector<NamedShape> parameters = named_shapes(model, *shapes);
    if (parameters.empty()) return;
    std::vector<std::map<std::string_view, PickleValue>> fragments;
    for (const StatesFile& file : models_)
      fragments.push_back(file.values(file.at(file.root(), "frozen_param_fragments")));
    for (const NamedShape& parameter : parameters) {
      const std::int64_t elements = elements_of(parameter.shape);
      std::vector<TorchPiece> pieces;
      std::int64_t first = 0;
      for (std::size_t m = 0; m < models_.size(); ++m) {
        const StatesFile& file = models_[m];
        const auto found = fragments[m].find(parameter.name);
        if (found == fragments[m].end()) throw file.wrong(fmt::format("has no {}", parameter.name));
        const ArchivedTensor part = file.tensor(found->second);
        const std::int64_t taken = std::min(elements_of(part.shape), elements - first);
        if (taken > 0)
          pieces.push_back(
              {.first = first, .elements = taken, .file = file.number(), .tensor = part});
        first += taken;
      }
      if (first < elements)
        throw model.wrong(
            fmt::format("has {} elements of {}, which has {}", first, parameter.name, elements));
      add("", parameter, std::move(pieces));
    }
  }

  /// Other names of a parameter.
  void add_shared() {
    const StatesFile& model = models_.front();
    const auto shared = model.find(model.root(), "shared_params");
    if (!shared) return;
    const auto items = model.pickle().elements(*shared);
    if (static_cast<std::int64_t>(items.size() / 2) > most_tensors)
      throw model.wrong(fmt::format("has more than {} shared_params", most_tensors));
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      const auto source = opened_.tensors.find(std::string(model.pickle().text(items[i + 1])));
      if (source != opened_.tensors.end())
        opened_.tensors.emplace(name_in(model, items[i]), source->second);
    }
  }

  fs::path folder_;
  std::shared_ptr<TorchFiles> files_;
  std::int64_t stage_ = 0;
  std::vector<OptimFile> ranks_;
  std::vector<StatesFile> models_;
  ForeignCheckpoint opened_;
};

}  // namespace

bool is_zero_folder(const fs::path& folder) {
  const auto has_states = [](const fs::path& place) {
    return has_file_with(place, optim_suffix) || is_there(place / model_states);
  };
  if (is_there(folder / latest_name)) {
    std::error_code ignored;
    if (!fs::is_regular_file(folder / latest_name, ignored)) return false;
    try {
      return has_states(tag_folder(folder));
    } catch (const Error&) {
      return false;  // another tool's file of that name
    }
  }
  return has_states(folder);
}

ForeignCheckpoint open_zero(const fs::path& folder) { return ZeroFolder(folder).open(); }

}  // namespace shardscope
