// NCCL itself, as far as it goes without a GPU.
#include "backend/comm/nccl/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <link.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "backend/profile/nccl_plugin.h"

namespace shardscope {
namespace {

// The program is built with the header of one version and loads whatever is there: of the same
// major version, with every function that we call.
TEST(NcclLibrary, IsLoadedWithEveryFunctionThatWeCall) {
  EXPECT_NE(nccl().all_gather, nullptr);
  EXPECT_TRUE(nccl_version_text().starts_with(fmt::format("{}.", NCCL_MAJOR)))
      << nccl_version_text();
}

TEST(NcclLibrary, MakesUniqueIdsWithoutAGpu) {
  ncclUniqueId first{}, second{};
  ASSERT_EQ(nccl().get_unique_id(&first), ncclSuccess);
  ASSERT_EQ(nccl().get_unique_id(&second), ncclSuccess);
  EXPECT_NE(std::memcmp(&first, &second, sizeof first), 0);
}

/// The library that was loaded, where its table of symbols still has those of its own.
class LoadedLibrary {
 public:
  LoadedLibrary() {
    nccl();
    void* handle = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr || ::dlinfo(handle, RTLD_DI_LINKMAP, &map_) != 0) return;
    const std::string command = fmt::format("{} --defined-only '{}'", SHARDSCOPE_NM, map_->l_name);
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
    char line[4096];
    while (pipe && std::fgets(line, sizeof line, pipe.get())) symbols_ += line;
  }

  template <class Function>
  Function* find(const std::string& name) const {
    const std::size_t at = symbols_.find(" t " + name + "\n");
    if (map_ == nullptr || at == std::string::npos) return nullptr;
    const std::size_t begin = symbols_.rfind('\n', at) + 1;
    const std::uintptr_t offset = std::stoull(symbols_.substr(begin, at - begin), nullptr, 16);
    return reinterpret_cast<Function*>(map_->l_addr + offset);
  }

 private:
  link_map* map_ = nullptr;
  std::string symbols_;
};

/// NCCL's own code (2.28 src/plugin/plugin_open.cc and src/plugin/profiler) opens this program in
/// place of a plugin and takes its tables.
TEST(NcclLibrary, FindsOurProfilerPluginInTheProgram) {
  const LoadedLibrary library;
  const auto open = library.find<void*(const char*)>("_Z25ncclOpenProfilerPluginLibPKc");
  const auto version5 = library.find<void*(void*)>("_Z18getNcclProfiler_v5Pv");
  const auto version4 = library.find<void*(void*)>("_Z18getNcclProfiler_v4Pv");
  if (!open || !version5 || !version4) GTEST_SKIP() << "this NCCL does not show its own functions";
  void* program = open("STATIC_PLUGIN");
  EXPECT_EQ(version5(program), &ncclProfiler_v5);
  EXPECT_NE(version4(program), nullptr);
}

}  // namespace
}  // namespace shardscope
