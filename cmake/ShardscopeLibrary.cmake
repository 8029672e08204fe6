# shardscope_library(NAME SOURCES a.cpp ... [PUBLIC target ...] [PRIVATE target ...]): the static library shardscope_NAME,
# known to others as shardscope::NAME. PUBLIC are the rooms whose headers its own headers include.
function(shardscope_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(shardscope_${name} STATIC ${ARG_SOURCES})
  add_library(shardscope::${name} ALIAS shardscope_${name})
  shardscope_use_precompiled(shardscope_${name} shardscope_precompiled)
  target_link_libraries(shardscope_${name} PUBLIC shardscope::flags ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
endfunction()

# shardscope_compile_quickly(NAME): -O1 takes 20 to 30% less time to compile. For libraries whose run time nobody notices.
function(shardscope_compile_quickly name)
  target_compile_options(shardscope_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# shardscope_compile_alone(a.cpp ...): sources of this folder whose local names stand in others of their target, too. Where
# CMAKE_UNITY_BUILD is on, eight sources are compiled as one, or as many as the target's
# UNITY_BUILD_BATCH_SIZE says (32 small sources with the same headers take three quarters of the time of four batches of eight); these are not among them. A new source that does not compile
# there gets other names or stands in this list.
function(shardscope_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# shardscope_unite_by_folder(TARGET ALONE a.cpp ...): where CMAKE_UNITY_BUILD is on, eight sources of one folder are compiled
# as one. For a target whose sources depend on options: what is compiled together elsewhere stays the same.
function(shardscope_unite_by_folder target)
  cmake_parse_arguments(ARG "" "" "ALONE" ${ARGN})
  list(TRANSFORM ARG_ALONE PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    get_filename_component(path ${source} ABSOLUTE)
    if(source MATCHES "^\\$<" OR path IN_LIST ARG_ALONE OR NOT path MATCHES "\\.cpp$")
      continue()
    endif()
    get_filename_component(folder ${path} DIRECTORY)
    file(RELATIVE_PATH folder ${CMAKE_CURRENT_SOURCE_DIR} ${folder})
    string(MAKE_C_IDENTIFIER ${folder} folder)
    math(EXPR count_${folder} "${count_${folder}} + 1")
    math(EXPR group "(${count_${folder}} - 1) / 8")
    set_source_files_properties(${path} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${folder}_${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()
