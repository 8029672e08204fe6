// PyTorch's MemTracker: memory of a step by its own categories, for comparison with ours.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/lower/pytorch/module.h"
#include "core/lower/pytorch/observer.h"

namespace shardscope::eager {

/// _MemRefType, in its order.
enum class TrackedAs : std::uint8_t {
  parameter,
  buffer,
  gradient,
  activation,
  temporary,
  optimizer_state,
  other
};
inline constexpr std::size_t tracked_categories = 7;
/// "Parameter", "Temp", "Optstate", ...
std::string_view name_of(TrackedAs category);

/// Bytes by category; each storage is rounded up to 512.
struct TrackedMemory {
  std::array<std::int64_t, tracked_categories> bytes{};
  std::int64_t total = 0;
};

/// _ModState, in the order in which a step notes them.
enum class ModuleMoment : std::uint8_t {
  peak_forward,
  before_forward,
  after_forward,
  peak_backward,
  before_backward,
  before_recomputation,
  after_recomputation,
  after_backward
};
/// "Pre-Forward", "Peak-Backward", "Pre-Forward-AC", ...
std::string_view name_of(ModuleMoment moment);

/// Watches cuda storages that operators return or that it is told of. Each storage's
/// StorageTag::other is the number of its category. Source: torch 2.15,
/// torch/distributed/_tools/mem_tracker.py and mod_tracker.py. It must outlive the model's work.
class MemTracker final : public Observer {
 public:
  /// What was noted of a module since the last reset.
  struct OfModule {
    std::string name;  ///< "GPT2LMHeadModel.transformer.h.0"
    std::map<ModuleMoment, std::vector<TrackedMemory>> snapshots;
  };

  explicit MemTracker(Session& s) : s_(s) {}

  /// track_external.
  void track(Module& model);
  void track(const Tensor& tensor, TrackedAs category = TrackedAs::other);
  /// `with tracker:` begins, for this model.
  void enter(Module& model);

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

  void on_operator(Session& s, const OperatorCall& call) override;
  void on_storage_freed(Session& s, StorageImpl& storage) override;
  void on_storage_resized(Session& s, StorageImpl& storage, Bytes before) override;

 private:
  struct Known {
    bool known = false;
    TrackedAs category = TrackedAs::other;
    std::int64_t bytes = 0;  ///< rounded
  };
  /// A module of the model; `running` counts its forwards and backwards.
  struct Entry {
    Module* module = nullptr;
    std::string name;
    int running = 0;
    bool is_parent = false;
    bool tracked = false;
    std::int64_t local_peak = 0;
    std::map<ModuleMoment, std::vector<TrackedMemory>> snapshots;
  };

  void name_modules(Module& module, const std::string& name);
  Known& known(const StorageImpl& storage);
  void add(StorageImpl& storage, TrackedAs category);
  void change(Known& known, std::int64_t bytes);
  void track_parameters(Module& module, bool with_hooks);
  void hook_gradient(const Tensor& parameter);
  bool in_backward() const;
  void note_peak();
  void begin(std::size_t entry);
  void end(std::size_t entry);
  void before_forward(std::size_t entry, const Arguments& arguments);
  void after_forward(std::size_t entry, const Tensors& outputs);
  void before_backward(std::size_t entry);
  void after_backward(std::size_t entry);
  void enqueue_end_of_backward();
  void note(Entry& entry, ModuleMoment moment) { entry.snapshots[moment].push_back(current_); }

  Session& s_;
  std::vector<Known> known_;  ///< by storage id
  TrackedMemory current_, peak_;
  std::vector<Entry> entries_;
  std::vector<std::size_t> tracked_;  ///< entries in the order in which they were
  std::vector<const TensorImpl*> hooked_;
  std::vector<std::size_t> ends_with_backward_;
  bool has_callback_ = false;
  bool in_optimizer_ = false;
  std::size_t recomputed_ = no_entry;  ///< outermost entry that runs forward in backward

  static constexpr std::size_t no_entry = static_cast<std::size_t>(-1);
};

}  // namespace shardscope::eager
