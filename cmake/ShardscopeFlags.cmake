# shardscope::flags: what every target of every room is compiled with.
set(SHARDSCOPE_SANITIZER "" CACHE STRING "Runtime checks: empty, address (with undefined) or thread")
set_property(CACHE SHARDSCOPE_SANITIZER PROPERTY STRINGS "" address thread)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

add_library(shardscope_flags INTERFACE)
add_library(shardscope::flags ALIAS shardscope_flags)
target_include_directories(shardscope_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_features(shardscope_flags INTERFACE cxx_std_20)
# g++ 12 warns of overlaps in its own std::string (-Wrestrict) that are none.
set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers
             $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# Sources that are compiled as one see each other's local names, which is no fault of theirs. The preset dev, which compiles
# each alone, keeps these warnings.
if(CMAKE_UNITY_BUILD)
  list(APPEND warnings -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
target_compile_options(shardscope_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>" -fno-omit-frame-pointer)

# g++ collects its garbage only from 384 MiB on: 5 to 10% less time for sources that are compiled as one, and some 100 MiB more memory.
if(CMAKE_UNITY_BUILD)
  target_compile_options(shardscope_flags INTERFACE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-heapsize=393216>")
endif()

if(SHARDSCOPE_SANITIZER STREQUAL "address")
  set(sanitizer_flags -fsanitize=address,undefined -fno-sanitize-recover=undefined)
elseif(SHARDSCOPE_SANITIZER STREQUAL "thread")
  set(sanitizer_flags -fsanitize=thread)
elseif(SHARDSCOPE_SANITIZER)
  message(FATAL_ERROR "SHARDSCOPE_SANITIZER=${SHARDSCOPE_SANITIZER}: give address, thread or nothing")
endif()
if(SHARDSCOPE_SANITIZER)
  # g++ 12 sees uninitialised reads in instrumented code of its own library.
  list(APPEND sanitizer_flags -Wno-maybe-uninitialized)
endif()
target_compile_options(shardscope_flags INTERFACE ${sanitizer_flags})

# A program holds the functions that it uses, not all of every source that is compiled with them.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(shardscope_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-ffunction-sections;-fdata-sections>")
  target_link_options(shardscope_flags INTERFACE -Wl,--gc-sections)
endif()
target_link_options(shardscope_flags INTERFACE ${sanitizer_flags})
