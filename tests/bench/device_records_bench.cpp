// What the records of a GPU cost: on the thread that launches, and on the one that reads them.
#include <benchmark/benchmark.h>

#include "backend/profile/activity_buffers.h"
#include "backend/profile/cupti_records.h"
#include "backend/profile/launch_links.h"
#include "tests/backend/profile/activity_buffer.h"

namespace shardscope {
namespace {

constexpr std::uint32_t kernels = 10'000;
constexpr std::uint32_t operations = 500;

/// Kernels of twenty steps as CUPTI writes them: the link to the operation, the call, the kernel.
test::ActivityBuffer twenty_steps() {
  test::ActivityBuffer buffer;
  for (std::uint32_t i = 1; i <= kernels; ++i) {
    const LaunchPlace place{.operation = OperationId{i % operations},
                            .step = static_cast<std::int32_t>(i / operations)};
    buffer.add(test::link_record(i, external_id_of(place)));
    auto call = test::empty_record<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
    call.correlationId = i;
    buffer.add(call);
    buffer.add(test::kernel_record("_ZN10shardscope4cuda5startINS0_3AddIfEEEEvT_", i, 13,
                                   std::uint64_t{i} * 1'000, std::uint64_t{i} * 1'000 + 900));
  }
  return buffer;
}

/// Reading full buffers and tying kernels to operations; CUPTI itself walks the buffer.
void read_kernels(benchmark::State& state) {
  test::ActivityBuffer buffer = twenty_steps();
  for (auto _ : state) {
    ParsedRecords parsed;
    parse_records(buffer.bytes(), cupti(), {.keep_calls = false}, parsed);
    link_records(parsed.records, std::move(parsed.links), {});
    benchmark::DoNotOptimize(parsed.records.data());
  }
  state.SetItemsProcessed(state.iterations() * kernels);
}
BENCHMARK(read_kernels);

/// What a traced thread pays for an exchange of buffers: once in 15,000 kernels.
void exchange_buffers(benchmark::State& state) {
  ActivityBuffers buffers(8, 64, [](ActivityBuffers::Filled) {});
  buffers.open_window();
  for (auto _ : state) {
    const std::span<std::uint8_t> buffer = buffers.request();
    if (!buffer.empty()) buffers.completed(buffer.data(), 0);
  }
}
BENCHMARK(exchange_buffers);

}  // namespace
}  // namespace shardscope
