// What the functions of CUDA's libraries that only describe something or launch a kernel have in
// common.
#pragma once

#include "backend/recorder/device/cuda_abi.h"
#include "backend/recorder/device/launch.h"
#include "backend/recorder/device/library_handle.h"

namespace shardscope::recorder {

/// A parameter that is only passed by.
using Any = const void*;

/// Puts a kernel of that name on the handle's stream.
inline Status run(void* handle, const char* name) {
  launch(name, {}, {}, 0, library_handle(handle)->stream);
  return success;
}

/// Of work space, which counts as nothing.
template <class Number>
Status nothing_needed(Number* amount) {
  *amount = 0;
  return success;
}

}  // namespace shardscope::recorder

/// A description, which nobody looks into.
#define DESCRIPTION(create, destroy)                     \
  Status create(void** to) { return create_handle(to); } \
  Status destroy(void* one) { return destroy_handle(one); }

/// A function whose work is one kernel.
#define KERNEL(name) \
  Status name(void* handle) { return run(handle, #name); }

/// MACRO(start##type##end) of each type of numbers.
#define OF_ALL_TYPES(MACRO, start, end) \
  MACRO(start##S##end) MACRO(start##D##end) MACRO(start##C##end) MACRO(start##Z##end)
