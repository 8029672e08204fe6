# Options that are AUTO (used if found), ON (an error if not found) or OFF, and the summary that says what came of each.

# shardscope_option(KEY "what it is for" [DEFAULT]): declares SHARDSCOPE_<KEY>, AUTO unless told otherwise, and sets
# SHARDSCOPE_WANTS_<KEY> (false if OFF).
function(shardscope_option key purpose)
  set(default AUTO)
  if(ARGC GREATER 2)
    set(default ${ARGV2})
  endif()
  set(SHARDSCOPE_${key} ${default} CACHE STRING "${purpose}: AUTO, ON or OFF")
  set_property(CACHE SHARDSCOPE_${key} PROPERTY STRINGS AUTO ON OFF)
  if(SHARDSCOPE_${key} STREQUAL "OFF")
    set(SHARDSCOPE_WANTS_${key} FALSE PARENT_SCOPE)
  else()
    set(SHARDSCOPE_WANTS_${key} TRUE PARENT_SCOPE)
  endif()
  set_property(GLOBAL PROPERTY SHARDSCOPE_PURPOSE_${key} "${purpose}")
endfunction()

# shardscope_conclude(KEY FOUND "what was found" "why not, and the way out"): sets SHARDSCOPE_HAS_<KEY>, notes a line of the
# summary, and stops where the option is ON and nothing was found.
function(shardscope_conclude key found detail reason)
  get_property(purpose GLOBAL PROPERTY SHARDSCOPE_PURPOSE_${key})
  if(found)
    set(SHARDSCOPE_HAS_${key} TRUE PARENT_SCOPE)
    set(line "on   ${purpose}: ${detail}")
  else()
    set(SHARDSCOPE_HAS_${key} FALSE PARENT_SCOPE)
    if(NOT SHARDSCOPE_WANTS_${key})
      set(reason "SHARDSCOPE_${key}=OFF")
    elseif(NOT SHARDSCOPE_${key} STREQUAL "AUTO")
      message(FATAL_ERROR "SHARDSCOPE_${key}=${SHARDSCOPE_${key}}, but ${reason}")
    endif()
    set(line "off  ${purpose}: ${reason}")
  endif()
  set_property(GLOBAL APPEND PROPERTY SHARDSCOPE_SUMMARY "${line}")
endfunction()

# Prints the lines that were noted, after everything else.
function(shardscope_print_summary)
  get_property(lines GLOBAL PROPERTY SHARDSCOPE_SUMMARY)
  message(STATUS "Shardscope ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, "
                 "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  foreach(line ${lines})
    message(STATUS "  ${line}")
  endforeach()
endfunction()
