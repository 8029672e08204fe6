#include "tests/recordings/ports/category_tracker.h"

#include <algorithm>

namespace shardscope::eager {
namespace {

std::int64_t rounded(Bytes bytes) {
  constexpr std::int64_t block = 512;
  return (bytes.count + block - 1) / block * block;
}

}  // namespace

CategoryTracker::Known& CategoryTracker::known(const StorageImpl& storage) {
  const auto id = static_cast<std::size_t>(storage.id());
  if (id >= known_.size()) known_.resize(id + 1);
  return known_[id];
}

void CategoryTracker::change(Known& known, std::int64_t bytes) {
  const std::int64_t more = bytes - known.bytes;
  current_.bytes[known.category] += more;
  current_.total += more;
  known.bytes = bytes;
}

void CategoryTracker::add(StorageImpl& storage, Category category) {
  if (storage.device() != Device::cuda) return;
  Known& entry = known(storage);
  const std::int64_t bytes = entry.known ? entry.bytes : rounded(storage.bytes());
  if (entry.known) change(entry, 0);
  entry.known = true;
  entry.category = category;
  storage.tag.other = category;
  change(entry, bytes);
}

void CategoryTracker::track_results(const OperatorCall& call, Category category, Moment peak) {
  for (const TensorImpl* output : call.outputs) {
    if (!output || output->storage->device() != Device::cuda) continue;
    Known& entry = known(*output->storage);
    if (entry.known)
      change(entry, rounded(output->storage->bytes()));
    else
      add(*output->storage, category);
  }
  note_peak(peak);
}

void CategoryTracker::on_storage_freed(Session&, StorageImpl& storage) {
  if (storage.device() != Device::cuda) return;
  Known& entry = known(storage);
  if (!entry.known) return;
  change(entry, 0);
  entry.known = false;
}

void CategoryTracker::on_storage_resized(Session&, StorageImpl& storage, Bytes) {
  if (storage.device() != Device::cuda) return;
  Known& entry = known(storage);
  if (entry.known) change(entry, rounded(storage.bytes()));
}

std::vector<TrackedMemory>* CategoryTracker::taken_at(ModuleStats& stats, Moment moment) {
  for (auto& [at, taken] : stats.snapshots)
    if (at == moment) return &taken;
  return nullptr;
}

void CategoryTracker::note_peak(Moment moment) {
  for (ModuleStats& stats : stats_) {
    if (stats.local_peak >= current_.total || !mod_tracker_.is_parent(stats.place)) continue;
    if (std::vector<TrackedMemory>* taken = taken_at(stats, moment)) {
      stats.local_peak = current_.total;
      taken->back() = current_;
    }
  }
  if (current_.total > peak_.total) peak_ = current_;
}

bool CategoryTracker::is_tracked(std::size_t place) const {
  return std::any_of(stats_.begin(), stats_.end(),
                     [&](const ModuleStats& stats) { return stats.place == place; });
}

void CategoryTracker::begin_tracking(std::size_t place) { stats_.push_back({.place = place}); }

CategoryTracker::ModuleStats& CategoryTracker::stats(std::size_t place) {
  return *std::find_if(stats_.begin(), stats_.end(),
                       [&](const ModuleStats& stats) { return stats.place == place; });
}

void CategoryTracker::restart_module_peak(std::size_t place, Moment peak) {
  stats(place).local_peak = current_.total;
  note(place, peak);
}

void CategoryTracker::note(std::size_t place, Moment moment) {
  ModuleStats& of_module = stats(place);
  if (std::vector<TrackedMemory>* taken = taken_at(of_module, moment))
    taken->push_back(current_);
  else
    of_module.snapshots.push_back({moment, {current_}});
}

void CategoryTracker::end_optimizer_step(const Tensors& states) {
  for (const Tensor& state : states) add(state, optimizer_state_);
  in_optimizer_ = false;
}

std::vector<CategoryTracker::OfModule> CategoryTracker::modules() const {
  std::vector<OfModule> all;
  for (const ModuleStats& stats : stats_) {
    all.push_back({.name = mod_tracker_.name(stats.place), .snapshots = {}});
    for (const auto& [moment, taken] : stats.snapshots)
      all.back().snapshots.emplace_back(names_.moments[moment], taken);
  }
  return all;
}

void CategoryTracker::reset_modules() { stats_.clear(); }

}  // namespace shardscope::eager
