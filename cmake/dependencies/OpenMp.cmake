# shardscope::openmp: threads inside one kernel.
shardscope_option(OPENMP "OpenMP (threads inside a kernel)")
if(SHARDSCOPE_WANTS_OPENMP)
  find_package(OpenMP QUIET COMPONENTS CXX)
endif()
shardscope_conclude(OPENMP "${OpenMP_CXX_FOUND}" "version ${OpenMP_CXX_VERSION}"
                    "${CMAKE_CXX_COMPILER_ID} has no OpenMP runtime here - for clang install libomp-dev")
if(SHARDSCOPE_HAS_OPENMP)
  add_library(shardscope_openmp INTERFACE)
  add_library(shardscope::openmp ALIAS shardscope_openmp)
  target_link_libraries(shardscope_openmp INTERFACE OpenMP::OpenMP_CXX)
endif()
