#include "sim/allocator/allocator_feed.h"

#include <algorithm>
#include <utility>

#include "core/lower/pytorch/session.h"

namespace shardscope {
namespace {

DeviceStream device_stream(eager::StreamId stream) {
  return stream == eager::default_stream ? default_stream : pool_stream(stream.value - 1, 0);
}

bool on_device(const eager::StorageImpl& storage) {
  return storage.device() == eager::Device::cuda;
}

}  // namespace

OutOfMemoryStop::OutOfMemoryStop(const OutOfMemory& failure, const AllocatorStatistics& statistics)
    : Error({{}, message_of(failure), {}, ExitCode::no}), statistics_(statistics) {}

AllocatorFeed::AllocatorFeed(CachingAllocator& allocator, DeviceEvents& events,
                             eager::KernelDevice device)
    : allocator_(allocator), events_(events), device_(device) {}

void AllocatorFeed::on_storage_allocated(eager::Session&, eager::StorageImpl& storage) {
  if (on_device(storage) && storage.bytes().count > 0)
    asked_.push_back({storage.id(), storage.bytes(), device_stream(storage.stream())});
}

void AllocatorFeed::on_storage_resized(eager::Session&, eager::StorageImpl& storage, Bytes before) {
  if (!on_device(storage)) return;
  catch_up();
  const std::optional<MemoryBlockId> old = block_of(storage.id());
  block_of(storage.id()).reset();
  if (storage.bytes().count > 0)
    allocate({storage.id(), storage.bytes(), device_stream(storage.stream())});
  if (before.count > 0 && old) allocator_.free(*old);
  refuse_if_full();
}

/// Told by a destructor: a request that fails here is refused with the next call.
void AllocatorFeed::on_storage_freed(eager::Session&, eager::StorageImpl& storage) {
  if (!on_device(storage)) return;
  catch_up();
  release(storage.id());
}

void AllocatorFeed::on_operator(eager::Session& s, const eager::OperatorCall& call) {
  if (const eager::ScratchRule rule = rule_of(call.op)) {
    plan_.clear();
    rule(call, device_, plan_);
    plan_.finish();
  } else {
    plan_.clear();
  }
  if (plan_.empty())
    catch_up();
  else
    play(call, device_stream(s.stream));
  refuse_if_full();
}

void AllocatorFeed::play(const eager::OperatorCall& call, DeviceStream stream) {
  using Kind = eager::ScratchPlan::Kind;
  allocate_outputs(call, false);
  first_fresh_ = asked_.empty() ? blocks_.size() : asked_.front().storage;
  pieces_.clear();
  for (const auto& step : plan_.steps()) {
    if (full_) return undo_outputs(call);
    if (step.kind == Kind::outputs) {
      allocate_outputs(call, true);
    } else if (step.kind == Kind::give_back) {
      allocator_.free(pieces_[static_cast<std::size_t>(step.value)]);
    } else {
      const auto got = allocator_.allocate({step.value}, stream);
      full_ = !got;
      if (got) pieces_.push_back(*got);
    }
  }
  catch_up();
  if (full_) undo_outputs(call);
}

void AllocatorFeed::undo_outputs(const eager::OperatorCall& call) {
  for (const eager::TensorImpl* output : call.outputs)
    if (output->storage->id() >= first_fresh_) release(output->storage->id());
}

/// Of the storages asked for, those that are the operator's outputs, or the others.
void AllocatorFeed::allocate_outputs(const eager::OperatorCall& call, bool outputs) {
  const auto is_output = [&](const Asked& asked) {
    return std::any_of(call.outputs.begin(), call.outputs.end(),
                       [&](const auto* tensor) { return tensor->storage->id() == asked.storage; });
  };
  const auto rest = std::stable_partition(asked_.begin(), asked_.end(), [&](const Asked& asked) {
    return is_output(asked) == outputs;
  });
  for (auto asked = asked_.begin(); asked != rest; ++asked) allocate(*asked);
  asked_.erase(asked_.begin(), rest);
}

eager::ScratchRule AllocatorFeed::rule_of(const eager::Operator& op) {
  const auto [found, fresh] = rules_.try_emplace(&op);
  if (fresh) found->second = eager::scratch_rule_of(op.name);
  return found->second;
}

void AllocatorFeed::catch_up() {
  for (const Asked& asked : asked_) allocate(asked);
  asked_.clear();
}

void AllocatorFeed::allocate(const Asked& asked) {
  if (full_) return;
  const auto got = allocator_.allocate(asked.bytes, asked.stream);
  full_ = !got;
  block_of(asked.storage) = got;
}

void AllocatorFeed::release(std::uint64_t storage) {
  if (const auto freed = std::exchange(block_of(storage), std::nullopt)) allocator_.free(*freed);
}

std::optional<MemoryBlockId>& AllocatorFeed::block_of(std::uint64_t storage) {
  if (storage >= blocks_.size()) blocks_.resize(storage + 1 + storage / 2);
  return blocks_[storage];
}

void AllocatorFeed::refuse_if_full() const {
  if (full_) throw OutOfMemoryStop(*allocator_.failure(), allocator_.statistics());
}

void AllocatorFeed::on_record_stream(eager::Session&, eager::StorageImpl& storage,
                                     eager::StreamId stream) {
  catch_up();
  if (const auto& block = block_of(storage.id()))
    allocator_.record_stream(*block, device_stream(stream));
}

void AllocatorFeed::on_event_record(eager::Session&, eager::EventId event, eager::StreamId stream) {
  if (event.value >= recorded_.size()) recorded_.resize(event.value + 1);
  recorded_[event.value] = events_.record(device_stream(stream));
}

void AllocatorFeed::on_event_wait(eager::Session&, eager::EventId event, eager::StreamId waiting) {
  events_.stream_waits(device_stream(waiting), recorded_[event.value]);
}

void AllocatorFeed::on_stream_wait(eager::Session&, eager::StreamId waiting, eager::StreamId of) {
  events_.stream_waits(device_stream(waiting), events_.record(device_stream(of)));
}

void AllocatorFeed::on_host_wait(eager::Session&, eager::EventId event) {
  events_.wait(recorded_[event.value]);
}

void AllocatorFeed::on_cache_emptied(eager::Session&) {
  catch_up();
  allocator_.empty_cache();
}

void AllocatorFeed::on_host_sync(eager::Session& s) { events_.wait(device_stream(s.stream)); }

}  // namespace shardscope
