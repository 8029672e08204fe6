// Small run folders as train and simulate leave them.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/quantities.h"
#include "traces/trace.h"

namespace shardscope::testing {

/// A new empty folder, gone at the end.
class ScratchFolder {
 public:
  ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

struct SampleRun {
  std::string strategy = "full_shard";
  int world = 2;
  Duration step_time{1000};
  bool has_prediction = true, is_profiled = true;
};

/// One compute operation of `step_time` a rank.
Trace sample_run_trace(TraceKind kind, int rank, const SampleRun& run);

/// Summary and traces of all ranks, and the prediction with its one buffer.
void write_sample_run(const std::filesystem::path& folder, const SampleRun& run = {});

/// RUN/profiles/<steps> with the traces of all ranks.
void write_sample_window(const std::filesystem::path& run, const std::string& steps,
                         const SampleRun& of = {});

}  // namespace shardscope::testing
