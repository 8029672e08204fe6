#include <set>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/runtimes/fsdp1/buffers.h"
#include "core/pytorch/runtimes/fsdp1/passes.h"

namespace shardscope::eager::fsdp1 {
namespace {

Streams make_streams(Session& s, const Shared& shared) {
  bool any_hybrid = false;
  for (const Unit* unit : shared.units) any_hybrid = any_hybrid || unit->is_hybrid();
  Streams streams;
  streams.priority = shared.options.limit_all_gathers && any_hybrid ? -1 : 0;
  streams.compute = s.stream;
  streams.unshard = s.new_stream({"unshard", Stream::unshard});
  streams.post_backward = s.new_stream({"post_backward", Stream::reduce});
  streams.pre_unshard = s.new_stream({"pre_unshard", Stream::unshard});
  streams.all_reduce = any_hybrid ? s.new_stream({"all_reduce", Stream::reduce}) : streams.compute;
  return streams;
}

}  // namespace

void lazy_init(Session& s, Shared& shared) {
  const Visiting visiting(s, shared, {.site = Site::lazy_init});
  if (shared.lazily_initialized) return;
  shared.lazily_initialized = true;
  shared.streams = make_streams(s, shared);
  shared.tell([&](Watcher& watcher) { watcher.on_streams(s, shared.streams); });
  cast_buffers_for_computation(s, shared);
  for (Unit* unit : shared.units)
    if (unit->handle) unit->handle->init_attributes(s);
}

void record_stream(Session& s, const Shared& shared, const Tensor& tensor, StreamId stream) {
  shared.tell([&](Watcher& watcher) { watcher.on_record_stream(s, tensor, stream); });
  if (tensor.device() == Device::cuda) s.record_stream(tensor, stream);
}

void synchronize_device(Session& s, const Shared& shared) {
  shared.tell([&](Watcher& watcher) { watcher.on_device_synchronize(s); });
  s.host_sync();
}

}  // namespace shardscope::eager::fsdp1
