# libFuzzer comes with clang, and instruments everything for coverage, so it is off unless asked for; then the fuzzers are
# linked with our own driver (tests/fuzz/driver.cpp).
shardscope_option(LIBFUZZER "libFuzzer (coverage-guided fuzzing)" OFF)
set(libfuzzer_found FALSE)
if(SHARDSCOPE_WANTS_LIBFUZZER AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
  check_cxx_source_compiles("
    #include <cstddef>
    #include <cstdint>
    extern \"C\" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) { return 0; }" SHARDSCOPE_LIBFUZZER_LINKS)
  unset(CMAKE_REQUIRED_FLAGS)
  set(libfuzzer_found ${SHARDSCOPE_LIBFUZZER_LINKS})
endif()
shardscope_conclude(LIBFUZZER "${libfuzzer_found}" "from ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
                    "the compiler is ${CMAKE_CXX_COMPILER_ID} - configure with CXX=clang++ CC=clang")
if(SHARDSCOPE_HAS_LIBFUZZER)
  target_compile_options(shardscope_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(shardscope_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
