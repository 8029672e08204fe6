#include "backend/base/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"

namespace shardscope::cuda {
namespace {

Error missing(const std::string& library, std::string what, const std::string& way_out) {
  return Error(
      {.where = library, .what = std::move(what), .way_out = way_out, .code = ExitCode::outside});
}

}  // namespace

SharedLibrary::SharedLibrary(std::string name, const std::vector<std::string>& folders,
                             std::string way_out)
    : name_(std::move(name)), way_out_(std::move(way_out)) {
  handle_ = dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL);
  const std::string why_not = handle_ ? "" : dlerror();
  for (std::size_t i = 0; !handle_ && i < folders.size(); ++i)
    handle_ = dlopen(fmt::format("{}/{}", folders[i], name_).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_) throw missing(name_, fmt::format("cannot be loaded ({})", why_not), way_out_);
}

void* SharedLibrary::symbol(const char* name) const {
  void* found = dlsym(handle_, name);
  if (!found) throw missing(name_, fmt::format("has no function {}", name), way_out_);
  return found;
}

}  // namespace shardscope::cuda
