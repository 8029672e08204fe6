// Device time of an imported trace as stacks of a flame tree: by what the host ran around each
// launch.
#pragma once

#include <optional>
#include <vector>

#include "traces/flame.h"
#include "traces/import/imported_trace.h"
#include "traces/intervals.h"

namespace shardscope {

/// Durations of the devices' activities whose launch lies in the window of the host's clock (none:
/// of all), in nanoseconds: "forward;ResNet_0;Conv2d_3;aten::conv2d;sm80_xmma_fprop...". The phase
/// follows from autograd's nodes and the optimizer's annotations. Modules are the profiler's Python
/// frames "nn.Module: ..." and the annotations around the launch, of a backward those of its
/// forward operator (flows "fwdbwd"). Without a device in the trace, durations of the host's
/// outermost operators. O(events).
std::vector<FlameStack> host_stacks(const ImportedTrace& trace,
                                    std::optional<TimeWindow> window = {});

/// The host's window of the step that stands for the run: the lower median, without the first where
/// there are three. None: the trace marks no steps.
std::optional<TimeWindow> typical_host_step(const ImportedTrace& trace);

}  // namespace shardscope
