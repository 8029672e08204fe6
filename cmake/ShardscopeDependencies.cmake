# What is found on this machine, and what it means for the build. Optional pieces that are absent are second source files
# (`x_absent.cpp`), never #ifdefs in callers: rooms read SHARDSCOPE_HAS_<KEY> and link the shardscope::<key> target.
include(ShardscopeOptions)

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)

include(dependencies/OpenMp)
include(dependencies/OneDnn)
include(dependencies/Mpi)
include(dependencies/Cuda)
include(dependencies/Qt)
include(dependencies/Benchmark)
include(dependencies/LibFuzzer)
