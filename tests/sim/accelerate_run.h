// Trainings under configuration files of accelerate, with what the real library did with them
// (tests/data/accelerate_runs).
#pragma once

#include <cstdint>
#include <filesystem>
#include <ostream>

#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "core/pytorch/runtimes/training/training_setup.h"

namespace shardscope::testing {

/// Bytes of one moment, or the largest of several.
struct AllocatorFigures {
  std::int64_t allocated = 0, active = 0, reserved = 0;
  bool operator==(const AllocatorFigures&) const = default;
};
std::ostream& operator<<(std::ostream& out, const AllocatorFigures& figures);
AllocatorFigures figures_of(const JsonValue& row);

/// A case of the folder's recordings, ready to be played as the recorder did.
struct AccelerateRun {
  JsonValue config;
  Model model;
  eager::TrainingSetup setup;
};
AccelerateRun accelerate_run(const JsonValue& row);

/// A file of the folder.
JsonValue accelerate_recording(const char* name);

}  // namespace shardscope::testing
