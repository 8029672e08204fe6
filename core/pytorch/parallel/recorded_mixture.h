// A training of torchtitan's mixture of experts played on a session of its own, and written down as
// a schedule.
#pragma once

#include <span>

#include "core/pytorch/parallel/mixture_training.h"
#include "core/pytorch/parallel/recorded_training.h"

namespace shardscope::eager::parallel {

/// See recorded_training.
Schedule recorded_mixture(const MixtureSettings& settings, const RankPlace& place,
                          const SessionSettings& session, const KernelDevice& device,
                          std::span<const char* const> steps = recorded_steps,
                          ProgramListener* listener = nullptr);

}  // namespace shardscope::eager::parallel
