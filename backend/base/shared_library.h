// A library that is loaded when it is first wanted: large, and most runs of the program never ask
// for it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace shardscope::cuda {

/// Stays loaded until the process ends.
class SharedLibrary {
 public:
  /// Throws Error (ExitCode::outside) with `way_out` where the library, or later one of its
  /// functions, is missing.
  SharedLibrary(std::string name, std::string way_out)
      : SharedLibrary(std::move(name), {}, std::move(way_out)) {}
  /// Where the loader does not find it by its name, it is looked for in these folders, in turn.
  SharedLibrary(std::string name, const std::vector<std::string>& folders, std::string way_out);

  template <class Function>
  void load(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;

  std::string name_;
  std::string way_out_;
  void* handle_ = nullptr;
};

}  // namespace shardscope::cuda
