// The kind `collectives`: one source per family of runtimes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace shardscope::recordings {

/// One runtime's recordings: the folder FAMILY of the kind.
struct CollectivesFamily {
  std::string name;  ///< "fsdp1"
  /// What `rank` does in the case `given` (the recording's "case"), in the recording's own form:
  /// "groups", "events" and what else the family records ("units", "buckets_initial", ...). The
  /// frame adds what follows from the events: "order" and "counts".
  nlohmann::ordered_json (*play)(const nlohmann::ordered_json& given, int rank);
};

CollectivesFamily ddp_collectives();
CollectivesFamily fsdp1_collectives();
CollectivesFamily deepspeed_collectives();
CollectivesFamily fsdp2_collectives();
CollectivesFamily zero1_collectives();

/// The families known, one file each.
const std::vector<CollectivesFamily>& collectives_families();

}  // namespace shardscope::recordings
