// cuDNN's graph API, loaded when it is first wanted. Its backend functions alone are called: they
// are C, and all that is needed.
#pragma once

#include <cudnn.h>

#include <string>
#include <string_view>

namespace shardscope::cuda {

/// The functions that we call, under their own names without the prefix.
struct Cudnn {
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnBackendCreateDescriptor) descriptor_create;
  decltype(&cudnnBackendDestroyDescriptor) descriptor_destroy;
  decltype(&cudnnBackendSetAttribute) descriptor_set;
  decltype(&cudnnBackendGetAttribute) descriptor_get;
  decltype(&cudnnBackendFinalize) descriptor_finalize;
  decltype(&cudnnBackendExecute) execute;
};

/// Why attention cannot be cuDNN's here ("libcudnn.so.9 cannot be loaded (...)"); empty: it can.
/// The library must be of the major version that this was built with, and at least 9.11, which
/// makes plans for a device without asking it.
const std::string& why_no_cudnn();

/// Throws Error (ExitCode::outside) with that reason.
const Cudnn& cudnn();

/// Throws Error (ExitCode::outside) naming `call` unless all went well.
void cudnn_check(cudnnStatus_t result, std::string_view call);

}  // namespace shardscope::cuda
