// What a rank of a pipeline does in the recorder's runs, event by event.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/pipeline/program.h"

namespace shardscope::recordings {

/// Compute actions in the order in which they run: "0F0".
nlohmann::ordered_json executed_of(const PipelineProgram& program);

/// `run_events`: `steps` steps of every rank, with what PyTorch exchanges before the first.
nlohmann::ordered_json run_events(const PipelineSetup& setup,
                                  const std::vector<PipelineProgram>& programs, int steps);

}  // namespace shardscope::recordings
