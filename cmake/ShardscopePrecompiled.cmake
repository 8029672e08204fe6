# The headers that nearly every source includes, read once instead of a thousand times. Sources still name what they use:
# SHARDSCOPE_PRECOMPILE=OFF builds without (./dev lint does).
option(SHARDSCOPE_PRECOMPILE "Headers of the standard library, fmt and the tests' libraries are precompiled" ON)

set(SHARDSCOPE_COMMON_HEADERS
  <fmt/format.h> <algorithm> <array> <charconv> <cmath> <cstdint> <filesystem> <functional> <limits> <map> <memory> <numeric>
  <optional> <set> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector>)

# shardscope_precompiled_headers(NAME HEADERS header ... [LIBRARIES target ...]): the target NAME, whose precompiled headers
# others may use that link the same libraries.
function(shardscope_precompiled_headers name)
  if(NOT SHARDSCOPE_PRECOMPILE)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "HEADERS;LIBRARIES" ${ARGN})
  add_library(${name} OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled/nothing.cpp)
  target_link_libraries(${name} PRIVATE shardscope::flags shardscope::fmt ${ARG_LIBRARIES})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

# shardscope_use_precompiled(TARGET NAME): TARGET must be compiled with the same flags.
function(shardscope_use_precompiled target name)
  if(SHARDSCOPE_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

shardscope_precompiled_headers(shardscope_precompiled HEADERS ${SHARDSCOPE_COMMON_HEADERS})
