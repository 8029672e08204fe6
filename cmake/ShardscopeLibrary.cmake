# shardscope_library(NAME SOURCES a.cpp ... [PUBLIC target ...] [PRIVATE target ...]): the static library shardscope_NAME,
# known to others as shardscope::NAME. PUBLIC are the rooms whose headers its own headers include.
function(shardscope_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(shardscope_${name} STATIC ${ARG_SOURCES})
  add_library(shardscope::${name} ALIAS shardscope_${name})
  shardscope_use_precompiled(shardscope_${name} shardscope_precompiled)
  target_link_libraries(shardscope_${name} PUBLIC shardscope::flags ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
endfunction()

# shardscope_compile_alone(a.cpp ...): sources of this folder whose local names stand in others of their target, too. Where
# CMAKE_UNITY_BUILD is on, eight sources are compiled as one; these are not among them. A new source that does not compile
# there gets other names or stands in this list.
function(shardscope_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
