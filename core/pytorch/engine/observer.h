// What the host does, told in host order to whoever watches a session.
#pragma once

#include <span>
#include <string_view>

#include "core/base/quantities.h"
#include "core/pytorch/engine/storage.h"
#include "core/pytorch/engine/tensor.h"
#include "core/schedule/schedule.h"

namespace shardscope::eager {

/// What an operator makes the device do, roughly; a view launches nothing.
enum class OperatorKind : std::uint8_t {
  view,
  allocation,
  pointwise,
  reduction,
  copy,
  matmul,
  attention,
  indexing,
  random,
  host,
  other
};

/// One aten operator; one constant of static life each, so that its address may stand for it.
struct Operator {
  std::string_view name;  ///< "aten.mul.Tensor", as str() of an OpOverload
  OperatorKind kind = OperatorKind::other;
};

/// Inputs of a list, `count` of them one after the other, that come `times` times over.
struct InputStretch {
  std::uint32_t count = 1;
  std::uint32_t times = 1;
};

struct OperatorCall {
  const Operator& op;
  std::span<const TensorImpl* const> inputs;   ///< in the order of the arguments
  std::span<const TensorImpl* const> outputs;  ///< in-place: the input again
  /// torch.utils.flop_counter's formula; `flops_unknown` where that has none.
  std::int64_t flops = flops_unknown;
  static constexpr std::int64_t flops_unknown = -1;
  bool causal = false;     ///< of attention: no query sees later keys
  std::int64_t pairs = 0;  ///< of attention: as AttentionShape::pairs
  /// Of a list in which inputs recur, together all of `inputs`; none: each comes once.
  std::span<const InputStretch> stretches = {};
};

/// Calls `visit(tensor, times)` for each of a call's inputs.
template <class Visit>
void for_each_input(const OperatorCall& call, const Visit& visit) {
  if (call.stretches.empty())
    for (const TensorImpl* input : call.inputs) visit(*input, 1);
  std::size_t at = 0;
  for (const InputStretch& stretch : call.stretches)
    for (std::uint32_t i = 0; i < stretch.count; ++i) visit(*call.inputs[at++], stretch.times);
}

struct EventTag;
using EventId = Id<EventTag>;  ///< a recorded cudaEvent, numbered by the session

struct WorkTag;
using WorkId = Id<WorkTag>;  ///< an asynchronous collective: torch.distributed.Work

struct CollectiveCall {
  OperationKind kind = OperationKind::all_reduce;
  std::string_view name;  ///< of the operator that issues it: "c10d._allgather_base_.default"
  GroupId group;
  std::int64_t elements_in = 0;
  std::int64_t elements_out = 0;
  Dtype dtype = Dtype::float32;
  std::string_view reduction = {};  ///< "sum", "avg"; empty: none
  int root = -1;                    ///< place in the group of who sends or gathers all; -1: none
  StreamId stream = default_stream;
  bool asynchronous = false;
  WorkId work = {};  ///< of an asynchronous one
  std::span<const TensorImpl* const> inputs = {};
  std::span<const TensorImpl* const> outputs = {};
};

/// A point in the host's program: phases, a module's forward or backward, unshard, reshard, ...
struct Mark {
  std::string_view what;
  std::string_view subject = {};  ///< a module's or unit's name
  std::int64_t number = -1;
};

/// All empty: override what matters. An observer must not call operators. It watches one session,
/// and stops when either of the two is destroyed.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer();

  /// After the operator ran, its inputs and outputs alive.
  virtual void on_operator(Session&, const OperatorCall&) {}
  virtual void on_storage_allocated(Session&, StorageImpl&) {}
  /// The last reference went; its bytes are still told, unless they were resized to none before.
  virtual void on_storage_freed(Session&, StorageImpl&) {}
  virtual void on_storage_resized(Session&, StorageImpl&, Bytes /*before*/) {}
  virtual void on_node_created(Session&, Node&) {}
  virtual void on_node_begin(Session&, Node&) {}
  virtual void on_node_end(Session&, Node&) {}
  virtual void on_collective(Session&, const CollectiveCall&) {}
  virtual void on_work_wait(Session&, WorkId, StreamId /*who waits*/) {}
  virtual void on_record_stream(Session&, StorageImpl&, StreamId) {}
  virtual void on_event_record(Session&, EventId, StreamId) {}
  virtual void on_event_wait(Session&, EventId, StreamId /*who waits*/) {}
  /// cudaStreamWaitStream: an event recorded on `of` that `waiting` waits for.
  virtual void on_stream_wait(Session&, StreamId /*waiting*/, StreamId /*of*/) {}
  virtual void on_host_wait(Session&, EventId) {}  ///< cudaEventSynchronize
  virtual void on_host_sync(Session&) {}           ///< a value read back, cudaDeviceSynchronize
  virtual void on_cache_emptied(Session&) {}       ///< torch.cuda.empty_cache
  /// A runtime's own Python code ran at one end of a module's forward or backward.
  virtual void on_module_hook(Session&, std::string_view /*name*/) {}
  /// What is told from here to on_repeat_end is done so many times: views and empty tensors, made
  /// or let go of.
  virtual void on_repeat_begin(Session&, std::uint32_t /*times*/) {}
  virtual void on_repeat_end(Session&) {}
  virtual void on_mark(Session&, const Mark&) {}

 private:
  friend Session;
  Session* watched_ = nullptr;
};

}  // namespace shardscope::eager
