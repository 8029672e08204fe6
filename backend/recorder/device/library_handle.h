// A handle of cuBLAS or cuDNN: the stream that it works on.
#pragma once

#include "backend/recorder/device/cuda_abi.h"
#include "backend/recorder/device/device_state.h"

namespace shardscope::recorder {

struct LibraryHandle {
  void* stream = nullptr;
  int math_mode = 0, pointer_mode = 0;
};

inline LibraryHandle* library_handle(void* handle) { return static_cast<LibraryHandle*>(handle); }
inline Stream* stream_of_handle(void* handle) { return stream_of(library_handle(handle)->stream); }

inline Status create_handle(void** to) {
  *to = new LibraryHandle;
  return success;
}
inline Status destroy_handle(void* handle) {
  delete library_handle(handle);
  return success;
}
inline Status set_stream(void* handle, void* stream) {
  library_handle(handle)->stream = stream;
  return success;
}
inline Status get_stream(void* handle, void** stream) {
  *stream = library_handle(handle)->stream;
  return success;
}

}  // namespace shardscope::recorder
