# Compile flags of every room, as an interface target.
add_library(shardscope_flags INTERFACE)
add_library(shardscope::flags ALIAS shardscope_flags)
target_include_directories(shardscope_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(shardscope_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                       -Wno-sign-conversion -fno-omit-frame-pointer)
