# shardscope_library(NAME SOURCES a.cpp ... [PUBLIC target ...] [PRIVATE target ...]): the static library shardscope_NAME,
# known to others as shardscope::NAME. PUBLIC are the rooms whose headers its own headers include.
function(shardscope_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(shardscope_${name} STATIC ${ARG_SOURCES})
  add_library(shardscope::${name} ALIAS shardscope_${name})
  shardscope_use_precompiled(shardscope_${name} shardscope_precompiled)
  target_link_libraries(shardscope_${name} PUBLIC shardscope::flags ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
endfunction()
