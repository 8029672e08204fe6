# What is found on this machine, and what it means for the build. Optional pieces that are absent are second source files
# (`x_absent.cpp`), never #ifdefs in callers: rooms read SHARDSCOPE_HAS_<KEY> and link the shardscope::<key> target.
include(ShardscopeOptions)

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

add_library(shardscope::fmt ALIAS fmt::fmt)

# For programs that travel to a machine without our packages. The C++ library goes into them, and fmt, which Debian has as a
# shared library only, lies beside them. So sources compile as in the other presets, and a compiler cache serves both.
option(SHARDSCOPE_SELF_CONTAINED "Programs need no shared library but the system's, CUDA's and libfmt beside them" OFF)
if(SHARDSCOPE_SELF_CONTAINED)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
  add_link_options(-static-libstdc++ -static-libgcc)
  set(CMAKE_BUILD_RPATH $ORIGIN)
endif()
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)

include(dependencies/OpenMp)
include(dependencies/OneDnn)
include(dependencies/Mpi)
include(dependencies/Cuda)
include(dependencies/Nvtx)
include(dependencies/Qt)
include(dependencies/Sqlite)
include(dependencies/Benchmark)
include(dependencies/LibFuzzer)
