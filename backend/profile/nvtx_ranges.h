// NVTX ranges, so that Nsight Systems and whatever else listens shows a run by our names.
#pragma once

#include <memory>

#include "backend/executor/probe.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// Ranges in the NVTX domain "Shardscope": step > phase > unit > operation on the thread that walks
/// a step; collectives by themselves on the communication thread, or within the unit in which they
/// are queued. Categories are named so. Payloads: the step's number, the phase's micro-batch, bytes
/// and flops of an operation; of a collective bytes, elements, dtype, group and ranks by a schema,
/// or its bytes alone where the tool knows no schemas. Everything is registered here, so that a
/// step allocates nothing. Null where no tool listens, or this build has no NVTX. `schedule` must
/// outlive it.
std::unique_ptr<Probe> make_nvtx_ranges(const Schedule& schedule);

}  // namespace shardscope
