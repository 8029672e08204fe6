// The binary interface of NCCL's profiler plugins, versions 4 (NCCL 2.27) and 5 (2.28), as far as
// it is read here. Source: NCCL 2.28.9 ext-profiler/README.md; NCCL installs no header for it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardscope::nccl_profiler {

using Result = int;
inline constexpr Result success = 0;

/// Kinds of events; an activation mask is a sum of them.
enum EventKind : std::uint64_t {
  group = 1 << 0,
  collective = 1 << 1,
  proxy_operation = 1 << 3,  ///< what one channel sends or receives over the network
  proxy_step = 1 << 4,       ///< one transfer of it
  collective_call = 1 << 9,  ///< version 5: within the caller's own call
};

/// States of a proxy step in which the size of its transfer is told.
enum EventState : int { step_send_wait = 9, step_receive_flush_wait = 11 };

struct CollectiveDescriptor {
  std::uint64_t sequence;  ///< of this function in this communicator
  const char* function;
  const void* send_buffer;
  void* receive_buffer;
  std::size_t count;
  int root;
  const char* datatype;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
};

struct ProxyOperationDescriptor {
  std::int32_t process;  ///< whose parent_object it is
  std::uint8_t channel;
  int peer;
  int steps;
  int chunk_bytes;
  int is_send;
};

/// `Type` is uint8_t in version 4 and uint64_t in version 5.
template <class Type>
struct EventDescriptor {
  Type type;
  void* parent_object;
  int rank;
  union {
    CollectiveDescriptor collective;
    ProxyOperationDescriptor proxy_operation;
  };
};
using EventDescriptorV4 = EventDescriptor<std::uint8_t>;
using EventDescriptorV5 = EventDescriptor<std::uint64_t>;

union EventStateArguments {
  struct {
    std::size_t transferred_bytes;
  } proxy_step;
};

using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);

/// What is exported as ncclProfiler_v4.
struct PluginV4 {
  const char* name;
  Result (*init)(void** context, int* activation_mask, const char* communicator_name,
                 std::uint64_t communicator, int nodes, int ranks, int rank, Logger logger);
  Result (*start_event)(void* context, void** handle, EventDescriptorV4* descriptor);
  Result (*stop_event)(void* handle);
  Result (*record_event_state)(void* handle, int state, EventStateArguments* arguments);
  Result (*finalize)(void* context);
};

/// What is exported as ncclProfiler_v5.
struct PluginV5 {
  const char* name;
  Result (*init)(void** context, std::uint64_t communicator, int* activation_mask,
                 const char* communicator_name, int nodes, int ranks, int rank, Logger logger);
  Result (*start_event)(void* context, void** handle, EventDescriptorV5* descriptor);
  Result (*stop_event)(void* handle);
  Result (*record_event_state)(void* handle, int state, EventStateArguments* arguments);
  Result (*finalize)(void* context);
};

}  // namespace shardscope::nccl_profiler
