#include "backend/cuda/cudnn_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "core/base/error.h"

namespace shardscope::cuda {
namespace {

constexpr std::size_t least_version = 91100;

struct Loaded {
  Cudnn functions{};
  std::string why_not;
};

std::string version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Loaded load_all() {
  Loaded loaded;
  const std::string name = fmt::format("libcudnn.so.{}", CUDNN_MAJOR);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    loaded.why_not = fmt::format("{} cannot be loaded ({})", name, dlerror());
    return loaded;
  }
  const auto load = [&](const char* function, auto& pointer) {
    void* symbol = dlsym(library, function);
    if (!symbol) loaded.why_not = fmt::format("{} has no function {}", name, function);
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(symbol);
  };
  Cudnn& functions = loaded.functions;
  load("cudnnCreate", functions.create);
  load("cudnnDestroy", functions.destroy);
  load("cudnnSetStream", functions.set_stream);
  load("cudnnGetErrorString", functions.error_string);
  load("cudnnGetVersion", functions.version);
  load("cudnnBackendCreateDescriptor", functions.descriptor_create);
  load("cudnnBackendDestroyDescriptor", functions.descriptor_destroy);
  load("cudnnBackendSetAttribute", functions.descriptor_set);
  load("cudnnBackendGetAttribute", functions.descriptor_get);
  load("cudnnBackendFinalize", functions.descriptor_finalize);
  load("cudnnBackendExecute", functions.execute);
  if (!loaded.why_not.empty()) return loaded;
  const std::size_t version = functions.version();
  if (version < least_version || version / 10000 != CUDNN_MAJOR) {
    loaded.why_not =
        fmt::format("{} is of version {}, and {} to below {}.0 is wanted", name,
                    version_text(version), version_text(least_version), CUDNN_MAJOR + 1);
  }
  return loaded;
}

const Loaded& loaded() {
  static const Loaded once = load_all();
  return once;
}

}  // namespace

const std::string& why_no_cudnn() { return loaded().why_not; }

const Cudnn& cudnn() {
  if (why_no_cudnn().empty()) return loaded().functions;
  throw Error({.where = "cuDNN",
               .what = why_no_cudnn(),
               .way_out = "install cuDNN 9 for this CUDA, put its folder into LD_LIBRARY_PATH, or "
                          "leave attention to our own kernels",
               .code = ExitCode::outside});
}

void cudnn_check(cudnnStatus_t result, std::string_view call) {
  if (result == CUDNN_STATUS_SUCCESS) return;
  throw Error({.where = std::string(call),
               .what = fmt::format("cuDNN answers {}", cudnn().error_string(result)),
               .code = ExitCode::outside});
}

}  // namespace shardscope::cuda
