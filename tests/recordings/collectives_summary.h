// What a recording of collectives says of its events in short.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace shardscope::recordings {

/// The sequence as rows [phase, iteration, micro-batch, tokens]; phases without tokens left out.
nlohmann::ordered_json order_of(const nlohmann::ordered_json& events);

/// Collectives by kind, in the order in which the kinds came first.
nlohmann::ordered_json counts_of(const nlohmann::ordered_json& events);

/// Whether two ranks issue the same collectives: kinds, units, sizes, dtypes, phases, sites.
bool same_collectives(const nlohmann::ordered_json& events, const nlohmann::ordered_json& others);

/// Whether all their events have the same kinds, units and modules.
bool same_sequence(const nlohmann::ordered_json& events, const nlohmann::ordered_json& others);

}  // namespace shardscope::recordings
