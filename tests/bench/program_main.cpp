// The main of benchmarks of what the program does: with the program's settings of the heap.
#include <benchmark/benchmark.h>

#include "core/base/heap.h"

int main(int count, char** arguments) {
  shardscope::keep_freed_memory();
  benchmark::Initialize(&count, arguments);
  if (benchmark::ReportUnrecognizedArguments(count, arguments)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
