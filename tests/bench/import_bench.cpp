// How long it takes to open Kineto traces and account for their overlap: a public one of 216,092
// events, where ../shared is beside the project, and generated ones of up to 1.3 GB; and how much
// memory an event takes.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "traces/import/device_activity.h"
#include "traces/import/import.h"

namespace shardscope {
namespace {

/// One of: an operator with its shapes, a launch, a kernel, a collective.
void append_event(std::string& out, int i) {
  const double time = i * 1.25;
  switch (i % 4) {
    case 0:
      fmt::format_to(std::back_inserter(out),
                     "  {{\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::op_{}\", "
                     "\"pid\": 7, \"tid\": 7,\n"
                     "    \"ts\": {:.3f}, \"dur\": 4.125,\n    \"args\": {{\n      \"External "
                     "id\": {},\"Sequence number\": {}, "
                     "\"Fwd thread id\": 0, \"Record function id\": 0, \"Ev Idx\": {}, \"Input "
                     "Dims\": [[8, 1024, 4096], "
                     "[4096, 4096], []], \"Input type\": [\"c10::BFloat16\", \"c10::BFloat16\", "
                     "\"Scalar\"]\n    }}\n  }},\n",
                     i % 97, time, i, i, i);
      break;
    case 1:
      fmt::format_to(std::back_inserter(out),
                     "  {{\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": "
                     "\"cudaLaunchKernel\", \"pid\": 7, "
                     "\"tid\": 7,\n    \"ts\": {:.3f}, \"dur\": 1.250,\n    \"args\": {{\n      "
                     "\"External id\": {}, \"cbid\": "
                     "211, \"correlation\": {}\n    }}\n  }},\n",
                     time, i, i);
      break;
    default:
      fmt::format_to(std::back_inserter(out),
                     "  {{\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"{}\", \"pid\": 0, "
                     "\"tid\": {},\n    \"ts\": {:.3f}, "
                     "\"dur\": 2.375,\n    \"args\": {{\n      \"External id\": {}, \"queued\": 0, "
                     "\"device\": 0, \"context\": 1, "
                     "\"stream\": {}, \"correlation\": {}, \"registers per thread\": 32, \"grid\": "
                     "[1, 2, 3], \"block\": "
                     "[128, 1, 1], \"est. achieved occupancy %\": 40\n    }}\n  }},\n",
                     i % 4 == 2 ? "void gemm_kernel<float>()" : "ncclDevKernel_AllReduce_Sum_f32",
                     i % 4 == 2 ? 7 : 20, time, i, i % 4 == 2 ? 7 : 20, i);
  }
}

/// A trace file of so many events, removed at the end.
class GeneratedTrace {
 public:
  explicit GeneratedTrace(int events)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("import_bench_{}.json", events)) {
    std::ofstream file(path_);
    file << "{\"schemaVersion\": 1, \"distributedInfo\": {\"rank\": 0}, \"traceEvents\": [\n";
    std::string block;
    for (int i = 0; i < events; ++i) {
      append_event(block, i);
      if (block.size() < (1u << 20)) continue;
      file << block;
      block.clear();
    }
    block.erase(block.size() - 2);
    file << block << "]}\n";
  }
  ~GeneratedTrace() { std::filesystem::remove(path_); }
  GeneratedTrace(const GeneratedTrace&) = delete;
  GeneratedTrace& operator=(const GeneratedTrace&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

const std::filesystem::path& trace_of(int events) {
  static std::map<int, GeneratedTrace> traces;
  return traces.try_emplace(events, events).first->second.path();
}

void open_trace(benchmark::State& state, const std::filesystem::path& path) {
  double first_events_s = 0, bytes_per_event = 0;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    first_events_s = 0;
    ImportOptions options;
    options.progress = [&](const ImportedTrace& trace, std::int64_t) {
      if (first_events_s == 0 && !trace.events.start_ns.empty())
        first_events_s =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      return false;
    };
    const auto traces = import_traces(path, options);
    bytes_per_event = static_cast<double>(traces[0].allocated_bytes()) /
                      static_cast<double>(traces[0].events.size());
  }
  state.counters["first_events_s"] = first_events_s;
  state.counters["bytes_per_event"] = bytes_per_event;
  state.counters["text_bytes"] = static_cast<double>(std::filesystem::file_size(path));
}

void account_for_overlap(benchmark::State& state, const std::filesystem::path& path) {
  const auto traces = import_traces(path);
  for (auto _ : state) {
    for (const DeviceActivities& device : device_activities(traces[0]))
      benchmark::DoNotOptimize(device_figures(device).time.overlap);
  }
}

void open_generated(benchmark::State& state) {
  open_trace(state, trace_of(static_cast<int>(state.range(0))));
}
BENCHMARK(open_generated)
    ->Arg(216'092)
    ->Arg(4'000'000)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

void account_for_overlap_generated(benchmark::State& state) {
  account_for_overlap(state, trace_of(static_cast<int>(state.range(0))));
}
BENCHMARK(account_for_overlap_generated)->Arg(216'092)->Unit(benchmark::kMillisecond);

/// DDP on a V100, gzip; its licence keeps it out of the project.
const std::filesystem::path public_trace =
    std::filesystem::path(SOURCE_ROOT) / "../shared/data/traces/hta_ddp_v100_memory_216k.json.gz";

void open_public(benchmark::State& state) {
  if (!std::filesystem::exists(public_trace)) return state.SkipWithError("no ../shared");
  open_trace(state, public_trace);
}
BENCHMARK(open_public)->Unit(benchmark::kMillisecond)->Iterations(1);

void account_for_overlap_public(benchmark::State& state) {
  if (!std::filesystem::exists(public_trace)) return state.SkipWithError("no ../shared");
  account_for_overlap(state, public_trace);
}
BENCHMARK(account_for_overlap_public)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shardscope
