#include "backend/checkpoint/torch_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/checkpoint/dcp_writer.h"
#include "backend/checkpoint/new_folder.h"
#include "backend/checkpoint/pickle_text.h"
#include "backend/checkpoint/random_states.h"
#include "backend/checkpoint/streamed_file.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The keys of a state dict that lead to a value.
class Keys {
 public:
  Keys with(std::string_view key) const { return {joined(key), items_ + pickled(key)}; }
  Keys with(std::size_t number) const {
    return {joined(std::to_string(number)), items_ + pickled(static_cast<std::int64_t>(number))};
  }
  const std::string& name() const { return name_; }
  std::string path() const { return pickled_tuple(items_); }

  Keys() = default;

 private:
  Keys(std::string name, std::string items) : name_(std::move(name)), items_(std::move(items)) {}
  std::string joined(std::string_view key) const {
    return name_.empty() ? std::string(key) : fmt::format("{}.{}", name_, key);
  }

  std::string name_, items_;
};

std::vector<DcpEntry> entries_of(std::vector<TorchTensor> tensors, const Keys& keys) {
  std::vector<DcpEntry> entries;
  for (TorchTensor& tensor : tensors) {
    const Keys of_parameter = keys.with(tensor.parameter);
    const Keys place = tensor.state.empty() ? of_parameter : of_parameter.with(tensor.state);
    entries.push_back({.name = place.name(),
                       .path = place.path(),
                       .shape = std::move(tensor.shape),
                       .source = std::move(tensor.source),
                       .same_as = tensor.same_as});
  }
  return entries;
}

std::string pickled_names(const std::vector<std::string>& names) {
  std::string items;
  for (const std::string& name : names) items += pickled(name);
  return pickled_list(items);
}

/// Each setting of a group is an entry of its own, as of torch 2.4.
void add_groups(const std::vector<TorchGroup>& groups, const Optimizer& optimizer,
                const Keys& optim, std::vector<DcpEntry>& entries) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Keys group = optim.with("param_groups").with(i);
    auto settings = settings_of(groups[i], optimizer);
    settings.emplace_back("params", pickled_names(groups[i].parameters));
    for (auto& [name, value] : settings) {
      const Keys place = group.with(name);
      entries.push_back({.name = place.name(), .path = place.path(), .value = std::move(value)});
    }
  }
}

/// `groups`: none where the settings are not known.
std::vector<DcpEntry> optimizer_entries(Checkpoint& from, const std::vector<TorchGroup>& groups,
                                        const Optimizer& optimizer, const Keys& optim) {
  std::vector<DcpEntry> entries = entries_of(optimizer_state(from), optim.with("state"));
  add_groups(groups, optimizer, optim, entries);
  return entries;
}

/// A file of torch.save.
class TorchFile {
 public:
  /// A tensor in the file's value.
  std::string add(const TorchTensor& tensor) {
    storages_.push_back(tensor.source);
    return pickled_tensor(tensor.shape, storages_.size() - 1);
  }
  void write(const fs::path& path, std::string_view value) const {
    AtomicFile file(path);
    write_torch_archive(file, value, storages_);
    file.commit();
  }

 private:
  std::vector<FloatSource> storages_;
};

void write_full_model(Checkpoint& from, const fs::path& path) {
  TorchFile file;
  std::string items;
  std::vector<std::string> tensors;
  for (const TorchTensor& tensor : model_state(from)) {
    tensors.push_back(tensor.same_as ? tensors[*tensor.same_as] : file.add(tensor));
    items += pickled(tensor.parameter) + tensors.back();
  }
  file.write(path, pickled_dict(items));
}

/// accelerate keeps the model as it was before DDP wrapped it, so names have no prefix.
void write_safetensors(Checkpoint& from, const fs::path& folder) {
  std::vector<StreamedTensor> tensors;
  for (TorchTensor& tensor : model_state(from)) {
    if (tensor.same_as) continue;
    tensors.push_back(
        {.key = {.key = tensor.parameter, .dtype = Dtype::float32, .crc32 = {}, .pieces = {}},
         .shape = std::move(tensor.shape),
         .values = std::move(tensor.source.read)});
  }
  stream_file(folder, "model.safetensors", std::move(tensors));
}

/// Parameters go by name under FSDP; else by number, in the order of the groups.
class OptimizerFile {
 public:
  OptimizerFile(const std::vector<TorchGroup>& groups, bool by_number)
      : groups_(groups), by_number_(by_number) {
    for (const TorchGroup& group : groups)
      for (const std::string& parameter : group.parameters)
        numbers_.emplace(parameter, static_cast<std::int64_t>(numbers_.size()));
  }

  void write(Checkpoint& from, const Optimizer& optimizer, const fs::path& path) const {
    TorchFile file;
    std::map<std::string, std::string> states;
    for (const TorchTensor& tensor : optimizer_state(from))
      states[tensor.parameter] += pickled(tensor.state) + file.add(tensor);
    std::string state, groups;
    for (const auto& [parameter, items] : states) state += key_of(parameter) + pickled_dict(items);
    for (const TorchGroup& group : groups_) groups += group_text(group, optimizer);
    file.write(path, pickled_dict(pickled("state") + pickled_dict(state) + pickled("param_groups") +
                                  pickled_list(groups)));
  }

 private:
  std::string key_of(const std::string& parameter) const {
    return by_number_ ? pickled(numbers_.at(parameter)) : pickled(parameter);
  }
  std::string group_text(const TorchGroup& group, const Optimizer& optimizer) const {
    std::string items, parameters;
    for (const auto& [name, value] : settings_of(group, optimizer)) items += pickled(name) + value;
    for (const std::string& parameter : group.parameters) parameters += key_of(parameter);
    return pickled_dict(items + pickled("params") + pickled_list(parameters));
  }

  const std::vector<TorchGroup>& groups_;
  bool by_number_;
  std::map<std::string, std::int64_t> numbers_;
};

std::string joined(const std::vector<std::string>& texts) {
  return std::accumulate(texts.begin(), texts.end(), std::string());
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

/// Fields: transformers 5.24, trainer_callback.py, TrainerState. The Trainer skips as many batches
/// of its data as global_step says.
std::string trainer_state(const TrainingProgress& progress, const Job& job) {
  const Json last{{"step", progress.step},
                  {"loss", number_or_null(progress.loss)},
                  {"grad_norm", number_or_null(progress.gradient_norm)},
                  {"learning_rate", progress.learning_rate}};
  const Json state{{"global_step", progress.step},
                   {"max_steps", job.steps},
                   {"train_batch_size", job.batch},
                   {"log_history", Json::array({last})}};
  return state.dump(2) + "\n";
}

/// Of a host, whose states every process saves. Where it has fewer, the libraries load those.
constexpr int most_gpus = 16;

// Names: accelerate 1.15, utils/constants.py; transformers 5.24, trainer.py.
class LibraryFolder {
 public:
  LibraryFolder(Checkpoint& from, const Job& job, const TorchFolder& how, const fs::path& folder)
      : from_(from),
        job_(job),
        how_(how),
        folder_(folder),
        groups_(param_groups(from, job, how.grouping)) {}

  void write() const {
    switch (how_.parallel) {
      case TorchParallel::fsdp:
        write_sharded();
        break;
      case TorchParallel::fsdp_full:
        write_full_model(from_, folder_ / "pytorch_model_fsdp.bin");
        OptimizerFile(groups_, false).write(from_, job_.optimizer, folder_ / "optimizer.bin");
        break;
      case TorchParallel::ddp:
        write_safetensors(from_, folder_);
        OptimizerFile(groups_, true)
            .write(from_, job_.optimizer,
                   folder_ / (is_trainer() ? "optimizer.pt" : "optimizer.bin"));
        break;
    }
    write_atomically(folder_ / "config.json", read_whole(from_.config()));
    write_progress();
  }

 private:
  bool is_trainer() const { return how_.library == TorchLibrary::trainer; }

  void write_sharded() const {
    const fs::path model = folder_ / "pytorch_model_fsdp_0", optimizer = folder_ / "optimizer_0";
    create_folder(model);
    create_folder(optimizer);
    write_dcp(model, entries_of(model_state(from_), Keys().with("model")));
    write_dcp(optimizer,
              optimizer_entries(from_, groups_, job_.optimizer, Keys().with("optimizer")));
  }

  void write_progress() const {
    const TrainingProgress& progress = from_.index().progress;
    // A schedule that accelerate has prepared makes a step for each process (scheduler.py).
    const std::int64_t scheduled = progress.step * (is_trainer() ? 1 : how_.world);
    TorchFile().write(folder_ / (is_trainer() ? "scheduler.pt" : "scheduler.bin"),
                      pickled_schedule(groups_, scheduled));
    if (is_trainer())
      write_atomically(folder_ / "trainer_state.json", trainer_state(progress, job_));
    write_random_states(progress);
  }

  /// One file a process, all alike, as after `set_seed`. The seed is another at every step, so that
  /// what a script draws now is not what it drew when it began.
  void write_random_states(const TrainingProgress& progress) const {
    const auto seed =
        static_cast<std::uint32_t>(job_.seed + static_cast<std::uint64_t>(progress.step));
    const RandomStates states = seeded_random_states(seed, std::min(how_.world, most_gpus));
    const std::string value =
        is_trainer() ? trainer_random_states(states) : accelerate_random_states(states);
    for (int rank = 0; rank < how_.world; ++rank) {
      AtomicFile file(folder_ / random_states_name(rank));
      write_byte_archive(file, value, states.storages);
      file.commit();
    }
  }
  std::string random_states_name(int rank) const {
    if (!is_trainer()) return fmt::format("random_states_{}.pkl", rank);
    return how_.world == 1 ? "rng_state.pth" : fmt::format("rng_state_{}.pth", rank);
  }
  /// accelerate 1.15, checkpointing.py. "step" counts micro-batches since the last update.
  static std::string accelerate_random_states(const RandomStates& states) {
    return pickled_dict(pickled("step") + pickled(std::int64_t{0}) + pickled("random_state") +
                        states.python + pickled("numpy_random_seed") + states.numpy +
                        pickled("torch_manual_seed") + states.cpu +
                        pickled("torch_cuda_manual_seed") + pickled_list(joined(states.gpus)));
  }
  /// transformers 5.24, trainer.py: one process keeps the state of one GPU.
  std::string trainer_random_states(const RandomStates& states) const {
    return pickled_dict(
        pickled("python") + states.python + pickled("numpy") + states.numpy + pickled("cpu") +
        states.cpu + pickled("cuda") +
        (how_.world == 1 ? states.gpus.front() : pickled_list(joined(states.gpus))));
  }

  Checkpoint& from_;
  const Job& job_;
  const TorchFolder& how_;
  const fs::path& folder_;
  std::vector<TorchGroup> groups_;
};

}  // namespace

void export_dcp(Checkpoint& from, const fs::path& place) {
  NewFolder folder(place);
  std::vector<DcpEntry> entries = entries_of(model_state(from), Keys().with("model"));
  const std::optional<Job> job = job_of(from);
  const std::vector<TorchGroup> groups =
      job ? param_groups(from, *job, TorchGrouping::by_decay) : std::vector<TorchGroup>();
  const std::vector<DcpEntry> optim =
      optimizer_entries(from, groups, job ? job->optimizer : Optimizer{}, Keys().with("optim"));
  entries.insert(entries.end(), optim.begin(), optim.end());
  write_dcp(folder.path(), entries);
  folder.take_place();
}

void export_for_library(Checkpoint& from, const TorchFolder& how, const fs::path& place) {
  const std::optional<Job> job = job_of(from);
  if (!job) {
    throw Error({.where = from.folder().string(),
                 .what = "does not say the optimizer's settings, which these libraries load",
                 .way_out = "train a step from it with `train --resume` and convert what that "
                            "saves"});
  }
  NewFolder folder(place);
  LibraryFolder(from, *job, how, folder.path()).write();
  folder.take_place();
}

}  // namespace shardscope
