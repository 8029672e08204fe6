#include "tests/backend/comm/stand_in_nccl_profiler.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <thread>

#include "backend/profile/nccl_profiler_abi.h"

namespace shardscope::test {
namespace {

using namespace nccl_profiler;

/// One for all communicators, as NCCL has it.
int activation_mask = 0;

const PluginV5* plugin() {
  static const PluginV5* const found = []() -> const PluginV5* {
    const char* name = std::getenv("NCCL_PROFILER_PLUGIN");
    if (name == nullptr || std::string_view(name) != "STATIC_PLUGIN") return nullptr;
    void* program = ::dlopen(nullptr, RTLD_NOW | RTLD_LOCAL);
    return static_cast<const PluginV5*>(::dlsym(program, "ncclProfiler_v5"));
  }();
  return found;
}

void* start(void* context, EventDescriptorV5 descriptor) {
  void* handle = nullptr;
  plugin()->start_event(context, &handle, &descriptor);
  return handle;
}
void stop(void* handle) {
  if (handle != nullptr) plugin()->stop_event(handle);
}

}  // namespace

StandInProfiler::StandInProfiler(int ranks, int rank) : rank_(rank) {
  if (plugin() == nullptr) return;
  plugin()->init(&context_, 1, &activation_mask, nullptr, 1, ranks, rank, nullptr);
}

StandInProfiler::~StandInProfiler() {
  if (context_ != nullptr) plugin()->finalize(context_);
}

void* StandInProfiler::call(const char*) {
  if (context_ == nullptr || (activation_mask & (collective_call | collective)) == 0)
    return nullptr;
  EventDescriptorV5 descriptor{.type = collective_call, .parent_object = nullptr, .rank = rank_};
  void* call = start(context_, descriptor);
  stop(call);
  return call;
}

/// Non-blocking communicators launch on a thread of their own.
void StandInProfiler::launch(void* call, const char* function, std::size_t bytes) {
  if (context_ == nullptr || (activation_mask & collective) == 0) return;
  std::thread([&] { tell(call, function, bytes); }).join();
}

void StandInProfiler::tell(void* call, const char* function, std::size_t bytes) {
  EventDescriptorV5 descriptor{.type = collective, .parent_object = call, .rank = rank_};
  descriptor.collective = {.sequence = sequence_++,
                           .function = function,
                           .count = bytes,
                           .channels = 1,
                           .warps = 16,
                           .algorithm = "RING",
                           .protocol = "SIMPLE"};
  void* handle = start(context_, descriptor);
  stop(handle);
  if ((activation_mask & proxy_operation) == 0) return;
  network(handle, true, bytes);
  network(handle, false, bytes);
}

void StandInProfiler::network(void* parent, bool is_send, std::size_t bytes) {
  EventDescriptorV5 operation{.type = proxy_operation, .parent_object = parent, .rank = rank_};
  operation.proxy_operation = {.process = ::getpid(), .steps = 2, .is_send = is_send};
  void* proxy = start(context_, operation);
  for (int i = 0; i < 2; ++i) {
    void* step = start(context_, {.type = proxy_step, .parent_object = proxy, .rank = rank_});
    EventStateArguments arguments{.proxy_step = {bytes / 2}};
    if (step != nullptr)
      plugin()->record_event_state(step, is_send ? step_send_wait : step_receive_flush_wait,
                                   &arguments);
    stop(step);
  }
  stop(proxy);
}

}  // namespace shardscope::test
