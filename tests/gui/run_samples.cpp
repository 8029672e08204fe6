#include "tests/gui/run_samples.h"

#include <stdlib.h>

#include "core/format/atomic_file.h"
#include "traces/chrome_writer.h"
#include "traces/predicted_buffers.h"
#include "traces/run_folder.h"
#include "traces/summary.h"

namespace shardscope::testing {
namespace {

constexpr Bytes shard{4096};

Schedule one_buffer() {
  Schedule schedule;
  schedule.names = {"layers.0 shard"};
  schedule.units = {{.name = "layers.0"}};
  schedule.buffers = {{.name = 0,
                       .category = MemoryCategory::parameters,
                       .bytes = shard,
                       .allocated_by = {},
                       .freed_by = {},
                       .unit = UnitId{0},
                       .owner = {}}};
  return schedule;
}

Summary summary_of(const Trace& trace, const SampleRun& run) {
  Summary summary = summarize(trace, {.strategy = run.strategy, .tokens_per_step = 64});
  summary.kind = trace.kind;
  return summary;
}

}  // namespace

ScratchFolder::ScratchFolder() {
  std::string name =
      (std::filesystem::temp_directory_path() / "shardscope-gui-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Trace sample_run_trace(TraceKind kind, int rank, const SampleRun& run) {
  Trace trace;
  trace.kind = kind;
  trace.rank = rank;
  trace.world = run.world;
  trace.names = {"forward"};
  trace.tracks = {{.name = "compute", .stream = Stream::compute}};
  trace.spans = {
      {.start = {}, .duration = run.step_time, .name = 0, .track = 0, .operation = {0}, .step = 1}};
  MemorySample sample{.time = {}, .operation = {0}};
  sample.live[MemoryCategory::parameters] = shard;
  trace.memory = {sample};
  trace.facts = {{.operation = {0},
                  .name = "forward",
                  .kind = OperationKind::compute,
                  .phase = Phase::forward,
                  .unit = "layers.0"}};
  return trace;
}

void write_sample_run(const std::filesystem::path& path, const SampleRun& run) {
  const RunFolder folder{path};
  create_folder(path);
  if (run.has_prediction) {
    create_folder(folder.predicted_summary().parent_path());
    const Trace trace = sample_run_trace(TraceKind::predicted, 0, run);
    write_chrome_trace(trace, folder.predicted_trace());
    write_buffers(one_buffer(), folder.predicted_buffers());
    write_summary(summary_of(trace, run), "simulate", folder.predicted_summary());
  }
  if (!run.is_profiled) return;
  for (int rank = 0; rank < run.world; ++rank)
    write_chrome_trace(sample_run_trace(TraceKind::profiled, rank, run), folder.trace(rank));
  write_summary(summary_of(sample_run_trace(TraceKind::profiled, 0, run), run), "train",
                folder.summary());
}

void write_sample_window(const std::filesystem::path& run, const std::string& steps,
                         const SampleRun& of) {
  const RunFolder folder{RunFolder{run}.profiles() / steps};
  create_folder(folder.root);
  for (int rank = 0; rank < of.world; ++rank)
    write_chrome_trace(sample_run_trace(TraceKind::profiled, rank, of), folder.trace(rank));
}

}  // namespace shardscope::testing
