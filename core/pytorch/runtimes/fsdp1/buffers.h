// Buffers in the dtype that units compute in.
#pragma once

#include "core/pytorch/runtimes/fsdp1/unit.h"

namespace shardscope::eager::fsdp1 {

/// Every buffer to the dtype that the innermost unit around it computes with, once: at lazy
/// initialization. Source: torch 2.15, _runtime_utils.py, _get_buffers_and_dtypes_for_computation.
void cast_buffers_for_computation(Session& s, const Shared& shared);

/// Before the root's forward: full precision where it evaluates in that, and back afterwards.
void prepare_buffers(Session& s, Shared& shared);

}  // namespace shardscope::eager::fsdp1
