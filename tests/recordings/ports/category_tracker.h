// What PyTorch's memory trackers share: storages by category, their peak, snapshots of modules.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/pytorch/engine/observer.h"
#include "tests/recordings/ports/mod_tracker.h"

namespace shardscope::eager {

/// Bytes by a tracker's categories, in its own order; each storage is rounded up to 512.
struct TrackedMemory {
  static constexpr std::size_t most_categories = 11;
  std::array<std::int64_t, most_categories> bytes{};
  std::int64_t total = 0;
};

/// Watches cuda storages that operators return or that it is told of. Each storage's
/// StorageTag::other is the number of its category. Source: torch 2.15,
/// torch/distributed/_tools/mem_tracker.py. It must outlive the model's work.
class CategoryTracker : public Observer {
 public:
  /// What was noted of a module since the last reset, in the order of the first of each moment.
  struct OfModule {
    std::string name;  ///< "GPT2LMHeadModel.transformer.h.0"
    std::vector<std::pair<std::string_view, std::vector<TrackedMemory>>> snapshots;
  };

  /// track_external of a model; track_inputs of a batch.
  virtual void track_model(Module& model) = 0;
  virtual void track_input(const Tensor& input) = 0;
  /// `with tracker:` begins, for this model.
  virtual void enter(Module& model) = 0;

  /// "Parameter", "Temp", ...: the names of TrackedMemory's columns.
  std::span<const std::string_view> categories() const { return names_.categories; }
  const TrackedMemory& current() const { return current_; }
  const TrackedMemory& peak() const { return peak_; }
  /// What the first `with` does: the peak begins with what is there.
  void restart_peak() { peak_ = current_; }
  std::vector<OfModule> modules() const;
  /// reset_mod_stats.
  void reset_modules();

  /// The hooks around an optimizer's step; its states are tensors that it keeps.
  void begin_optimizer_step() { in_optimizer_ = true; }
  void end_optimizer_step(const Tensors& states);

  void on_storage_freed(Session& s, StorageImpl& storage) override;
  void on_storage_resized(Session& s, StorageImpl& storage, Bytes before) override;

 protected:
  using Category = std::uint8_t;
  using Moment = std::uint8_t;
  /// Categories and moments (states of a module) as the library prints them.
  struct Names {
    std::span<const std::string_view> categories, moments;
  };
  static constexpr std::size_t no_place = static_cast<std::size_t>(-1);

  CategoryTracker(Session& s, Names names, Category optimizer_state)
      : names_(names), optimizer_state_(optimizer_state), mod_tracker_(s) {}

  /// _update_and_maybe_create_winfos: known or not, it is of this category from now on.
  void add(StorageImpl& storage, Category category);
  void add(const Tensor& tensor, Category category) { add(*tensor.storage(), category); }
  /// An operator's results, where they are new; then the peaks: the whole one and, as of `moment`,
  /// those of the modules that are running.
  void track_results(const OperatorCall& call, Category category, Moment peak);
  bool in_optimizer() const { return in_optimizer_; }

  bool is_tracked(std::size_t place) const;
  void begin_tracking(std::size_t place);
  /// Notes what there is now; a module's own peak begins anew with it.
  void restart_module_peak(std::size_t place, Moment peak);
  void note(std::size_t place, Moment moment);

 private:
  struct Known {
    bool known = false;
    Category category = 0;
    std::int64_t bytes = 0;  ///< rounded
  };
  struct ModuleStats {
    std::size_t place;
    std::int64_t local_peak = 0;
    std::vector<std::pair<Moment, std::vector<TrackedMemory>>> snapshots;
  };

  Known& known(const StorageImpl& storage);
  void change(Known& known, std::int64_t bytes);
  void note_peak(Moment moment);
  static std::vector<TrackedMemory>* taken_at(ModuleStats& stats, Moment moment);
  ModuleStats& stats(std::size_t place);

  Names names_;
  Category optimizer_state_;
  std::vector<Known> known_;  ///< by storage id
  TrackedMemory current_, peak_;
  std::vector<ModuleStats> stats_;  ///< in the order in which modules were first seen
  bool in_optimizer_ = false;

 protected:
  ModTracker mod_tracker_;  ///< ends first: it frees storages, which this tracker is told
};

}  // namespace shardscope::eager
