#include "backend/profile/nccl_plugin.h"

#include <unistd.h>

#include "backend/profile/nccl_events.h"

namespace shardscope {
namespace {

using namespace nccl_profiler;  // NOLINT(google-build-using-namespace): all of NCCL's names

NcclEventHandle handle_of(const void* object) { return reinterpret_cast<std::uintptr_t>(object); }

Result made(NcclEvents::Interface interface, void** context, int* activation_mask) {
  *context = &nccl_events();
  nccl_events().communicator_made(interface, activation_mask);
  return success;
}

Result init_v4(void** context, int* activation_mask, const char*, std::uint64_t, int, int, int,
               Logger) {
  return made(NcclEvents::Interface::version4, context, activation_mask);
}

Result init_v5(void** context, std::uint64_t, int* activation_mask, const char*, int, int, int,
               Logger) {
  return made(NcclEvents::Interface::version5, context, activation_mask);
}

/// A proxy may work for another process, whose objects are not ours (NCCL's PXN).
bool is_ours(const ProxyOperationDescriptor& operation) { return operation.process == ::getpid(); }

template <class Descriptor>
NcclEventHandle started(const Descriptor& descriptor) {
  const NcclEventHandle parent = handle_of(descriptor.parent_object);
  switch (std::uint64_t{descriptor.type}) {
    case collective_call:
      return nccl_events().call();
    case collective:
      return nccl_events().collective(parent, {.sequence = descriptor.collective.sequence,
                                               .algorithm = descriptor.collective.algorithm,
                                               .protocol = descriptor.collective.protocol,
                                               .channels = descriptor.collective.channels});
    case proxy_operation:
      return is_ours(descriptor.proxy_operation) ? nccl_events().proxy_operation(parent) : 0;
    case proxy_step:
      return nccl_events().proxy_step(parent);
    default:
      return 0;
  }
}

template <class Descriptor>
Result start_event(void*, void** handle, Descriptor* descriptor) {
  *handle = reinterpret_cast<void*>(started(*descriptor));
  return success;
}

/// Handles are numbers: there is nothing to give back.
Result stop_event(void*) { return success; }

Result record_event_state(void* handle, int state, EventStateArguments* arguments) {
  if (state != step_send_wait && state != step_receive_flush_wait) return success;
  nccl_events().transferred(handle_of(handle),
                            {static_cast<std::int64_t>(arguments->proxy_step.transferred_bytes)},
                            state == step_send_wait);
  return success;
}

Result finalize(void*) { return success; }

}  // namespace
}  // namespace shardscope

extern "C" {

const shardscope::nccl_profiler::PluginV4 ncclProfiler_v4{
    "Shardscope",
    shardscope::init_v4,
    shardscope::start_event<shardscope::nccl_profiler::EventDescriptorV4>,
    shardscope::stop_event,
    shardscope::record_event_state,
    shardscope::finalize};

const shardscope::nccl_profiler::PluginV5 ncclProfiler_v5{
    "Shardscope",
    shardscope::init_v5,
    shardscope::start_event<shardscope::nccl_profiler::EventDescriptorV5>,
    shardscope::stop_event,
    shardscope::record_event_state,
    shardscope::finalize};
}
