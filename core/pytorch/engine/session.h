// Everything that is global in PyTorch, passed explicitly.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/pytorch/engine/observer.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

class Engine;
class Module;
class SelectiveCache;

/// torch.backends.cuda.enable_*_sdp; PyTorch chooses among those that are on.
struct AttentionSwitches {
  bool flash = true;
  bool efficient = true;
  bool cudnn = true;
  bool math = true;
};

struct SessionSettings {
  Device device = Device::cuda;  ///< where the model lives
  int compute_capability = 90;   ///< of cuda: 80, 90, ...
  AttentionSwitches attention;
  /// A TorchDispatchMode watches (a tracker, the operator recorder): gradients are never summed in
  /// place, and detach() of saved tensors is seen.
  bool watched = false;
  /// FakeTensorMode: reading a value back gives no row, masks are built as for padded batches.
  bool fake_tensors = false;
};

/// torch.amp.autocast's state for the session's device.
struct AutocastState {
  bool enabled = false;
  Dtype dtype = Dtype::bfloat16;
  bool cache_enabled = true;
  int nesting = 0;
  std::vector<std::pair<Tensor, Tensor>> cache;  ///< leaf, its cast
};

/// torch.autograd.graph.saved_tensors_hooks. `pack` may return anything.
struct SavedTensorHooks {
  std::function<std::shared_ptr<void>(Session&, const Tensor&)> pack;
  std::function<Tensor(Session&, const std::shared_ptr<void>&)> unpack;
};

/// What a stream is for: its name in the library, and the user's word for it.
struct StreamUse {
  std::string_view name = "side";
  shardscope::Stream stream = shardscope::Stream::compute;
};

class Session {
 public:
  explicit Session(SessionSettings settings = {});
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  const SessionSettings settings;
  bool grad_enabled = true;
  bool recomputing = false;  ///< activation checkpointing runs a forward again
  AutocastState autocast;
  StreamId stream = default_stream;                                   ///< current
  std::vector<std::shared_ptr<SavedTensorHooks>> saved_tensor_hooks;  ///< innermost last
  /// Selective checkpointing: what a forward fills, and what a recomputation takes from; or null.
  SelectiveCache* selective_forward = nullptr;
  SelectiveCache* selective_replay = nullptr;
  /// What a library put in the place of torch.nn.functional.linear; empty: nothing.
  std::function<Tensor(Session&, const Tensor& input, const Tensor& weight, const Tensor& bias)>
      linear_replacement;
  /// The module whose parameters a function of a runtime that is running is about; null: of none.
  const std::string* unit = nullptr;
  /// While an exception leaves the middle of a model's forward: what its functions held, which
  /// Python keeps with the frames in its traceback.
  std::optional<std::vector<Storage>> held_by_frames;
  /// Modules whose forward is running, innermost last.
  std::vector<Module*> modules;

  /// Not owned. `observer` must not watch another session, else std::logic_error.
  void observe(Observer& observer);
  template <class F>
  void tell(F&& call) {
    for (Observer* observer : observers_) call(*observer);
  }
  bool observed() const { return !observers_.empty(); }

  Engine& engine() { return *engine_; }
  const Module* current_module() const { return modules.empty() ? nullptr : modules.back(); }
  std::uint64_t sequence_number() const { return sequence_; }  ///< of the next autograd node
  std::uint64_t take_sequence_number() { return sequence_++; }
  std::uint64_t take_storage_id() { return storages_++; }
  std::uint64_t take_hook_id() { return hooks_++; }
  StreamId new_stream(const StreamUse& use = {}) {
    streams_.push_back(use);
    return StreamId::of(streams_.size() - 1);
  }
  const StreamUse& use_of(StreamId of) const { return streams_[of.value]; }

  // Streams and events, each told to the observers.
  EventId record_event(StreamId stream);
  void wait_event(StreamId waiting, EventId event);
  void wait_stream(StreamId waiting, StreamId of);
  void record_stream(const Tensor& tensor, StreamId stream);
  void host_wait(EventId event);
  void host_sync();
  void empty_cache();
  void mark(const Mark& mark);
  /// `name` is of the runtime's function.
  void module_hook(std::string_view name);
  /// Views and empty tensors that `body` makes or lets go of, `times` times. It runs once and
  /// stands for all, so that what is done for each of many ranks costs as much as for one.
  template <class Body>
  void repeat(std::uint32_t times, Body&& body) {
    if (times == 0) return;
    if (times > 1) tell([&](Observer& o) { o.on_repeat_begin(*this, times); });
    body();
    if (times > 1) tell([&](Observer& o) { o.on_repeat_end(*this); });
  }
  /// An asynchronous one is to be waited for; of others none.
  WorkId collective(CollectiveCall call);
  /// Work.wait(), if any: the current stream waits.
  void wait_work(WorkId work);

 private:
  friend Observer;
  std::vector<Observer*> observers_;
  std::unique_ptr<Engine> engine_;
  std::uint64_t sequence_ = 0;
  std::uint64_t storages_ = 0;
  std::uint64_t hooks_ = 1;
  std::vector<StreamUse> streams_{{.name = "compute"}};
  std::size_t events_ = 0;
  std::size_t works_ = 0;
};

/// Sets a variable for the length of a scope: `const Scoped off(s.grad_enabled, false);`.
template <class T>
class Scoped {
 public:
  Scoped(T& variable, T value)
      : variable_(variable), before_(std::exchange(variable, std::move(value))) {}
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;
  ~Scoped() { variable_ = std::move(before_); }

 private:
  T& variable_;
  T before_;
};

/// torch.no_grad().
class NoGrad : public Scoped<bool> {
 public:
  explicit NoGrad(Session& s) : Scoped(s.grad_enabled, false) {}
};
/// torch.enable_grad().
class EnableGrad : public Scoped<bool> {
 public:
  explicit EnableGrad(Session& s) : Scoped(s.grad_enabled, true) {}
};
/// torch.cuda.stream(stream).
class OnStream : public Scoped<StreamId> {
 public:
  OnStream(Session& s, StreamId stream) : Scoped(s.stream, stream) {}
};

}  // namespace shardscope::eager
