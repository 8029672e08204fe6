// The files of the kind flat_parameters: one source per file.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/recordings/recordings.h"

namespace shardscope::recordings {

/// One file of the kind, NAME.json or NAME.json.gz: an array of cases with a name each.
struct FlatParametersFile {
  std::string name;                 ///< "fsdp1"
  std::vector<std::string> fields;  ///< what --except may name
  /// `recorded` is one case; models.json lies in `folder`. What it throws is the case's difference.
  Outcome (*check)(const nlohmann::ordered_json& recorded, const std::filesystem::path& folder,
                   const Options& options);
};

FlatParametersFile accelerate_v2_recordings();
FlatParametersFile ddp_assign_recordings();
FlatParametersFile ddp_run_recordings();
FlatParametersFile deepspeed_zero_recordings();
FlatParametersFile estimator_recordings();
FlatParametersFile fsdp1_recordings();
FlatParametersFile fsdp2_recordings();

}  // namespace shardscope::recordings
