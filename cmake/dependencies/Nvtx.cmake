# NVTX: headers only; they come with the CUDA toolkit, but need neither it nor a GPU.
shardscope_option(NVTX "NVTX (ranges for Nsight Systems)")
set(nvtx_found FALSE)
set(nvtx_reason "nvtx3/nvToolsExtPayload.h was not found - it comes with the CUDA toolkit and with github.com/NVIDIA/NVTX")
if(SHARDSCOPE_WANTS_NVTX)
  find_path(NVTX_INCLUDE_DIR nvtx3/nvToolsExtPayload.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS /usr/local/cuda/include)
  mark_as_advanced(NVTX_INCLUDE_DIR)
  if(NVTX_INCLUDE_DIR)
    include(CheckCXXSourceCompiles)
    set(CMAKE_REQUIRED_INCLUDES ${NVTX_INCLUDE_DIR})
    set(CMAKE_REQUIRED_LIBRARIES ${CMAKE_DL_LIBS})
    check_cxx_source_compiles(
      "#include <nvtx3/nvToolsExtPayload.h>
       int main() { return nvtxDomainIsEnabled(nvtxDomainCreateA(\"\")) == 2; }"
      SHARDSCOPE_NVTX_IS_NEW_ENOUGH)
    unset(CMAKE_REQUIRED_INCLUDES)
    unset(CMAKE_REQUIRED_LIBRARIES)
    set(nvtx_reason "${NVTX_INCLUDE_DIR} is older than payload schemas and nvtxDomainIsEnabled - install NVTX 3.2")
    set(nvtx_found ${SHARDSCOPE_NVTX_IS_NEW_ENOUGH})
  endif()
endif()
shardscope_conclude(NVTX "${nvtx_found}" "headers in ${NVTX_INCLUDE_DIR}" "${nvtx_reason}")
