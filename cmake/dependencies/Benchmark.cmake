# Google Benchmark, for tests/bench.
shardscope_option(BENCHMARK "Google Benchmark (./dev bench)")
if(SHARDSCOPE_WANTS_BENCHMARK)
  find_package(benchmark QUIET)
endif()
shardscope_conclude(BENCHMARK "${benchmark_FOUND}" "version ${benchmark_VERSION}" "not found; install libbenchmark-dev")
