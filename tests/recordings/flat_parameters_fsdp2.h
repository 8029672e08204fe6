// What fsdp2.json and accelerate_v2.json have in common: groups in the recording's format.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "core/pytorch/plans/fsdp2.h"
#include "core/pytorch/plans/module_tree.h"
#include "tests/recordings/recordings.h"

namespace shardscope::recordings {

/// A plan and the tree whose dtypes it was made of.
struct RecordedPlan {
  ModuleTree tree;
  Fsdp2Plan plan;
};

/// Compares a case: `plan` is called for each world of it and may throw Refusal. `spec` is its
/// model's.
Outcome check_fsdp2_plans(const nlohmann::ordered_json& recorded,
                          const nlohmann::ordered_json& spec,
                          const std::function<RecordedPlan(int world)>& plan,
                          const Options& options);

/// Whether the recorder ran the model after wrapping it.
Fsdp2Moment recorded_moment(const nlohmann::ordered_json& given);

/// The mesh of a case on `world` ranks; one dimension where it gives none.
Fsdp2Mesh recorded_mesh(const nlohmann::ordered_json& given, int world);

}  // namespace shardscope::recordings
