// What NCCL's profiler interface tells: how each collective was moved, and over which network.
#pragma once

#include <memory>

#include "backend/executor/probe.h"
#include "backend/profile/instrument.h"
#include "core/schedule/schedule.h"
#include "traces/trace.h"

namespace shardscope {

/// Tells NCCL's events which operation they belong to, in a window or not: how operations are moved
/// is seen in steps that are walked, as a graph's replay tells nothing of it. Null where NCCL has
/// no such interface or takes part in nothing. To be made before the first step.
std::unique_ptr<Probe> make_nccl_probe(const Schedule& schedule);

/// Of a run whose collectives are NCCL's: algorithm, protocol and channels of each, and as measures
/// of its spans "network_steps", "network_sent_bytes" and "network_received_bytes", which are 0
/// where the ranks reach each other without a network.
std::unique_ptr<Instrument> make_nccl_instrument();

/// Says in the trace's facts how NCCL moved each operation, as far as it told.
void add_nccl_choices(Trace& trace);

}  // namespace shardscope
