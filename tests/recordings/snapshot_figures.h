// Figures of memory snapshots in the shape of ../shared/data/pytorch/snapshots' golden files.
#pragma once

#include <nlohmann/json.hpp>

#include "traces/import/memory_snapshot.h"
#include "traces/import/pickle.h"

namespace shardscope::recordings {

/// Opcodes, protocol and memo of a pickle.
nlohmann::ordered_json pickle_json(const Pickle& pickle);
/// The keys of the snapshot's dicts by their kind, with the Python types of what they hold; "key?"
/// where not all have it.
nlohmann::ordered_json keys_json(const Pickle& pickle);

/// By device: what was there, and the replay of the events.
nlohmann::ordered_json devices_json(const MemorySnapshot& snapshot);
/// The replay of one device's events.
nlohmann::ordered_json snapshot_trace_json(const MemorySnapshot& snapshot, std::int64_t device);
nlohmann::ordered_json settings_json(const MemorySnapshot& snapshot);
nlohmann::ordered_json annotations_json(const MemorySnapshot& snapshot);
nlohmann::ordered_json host_json(const MemorySnapshot& snapshot);
/// Of two snapshots of a run: segments that only one of them has.
nlohmann::ordered_json changes_json(const MemorySnapshot& before, const MemorySnapshot& after);

}  // namespace shardscope::recordings
