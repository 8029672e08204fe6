// Operators of PyTorch that an imported trace's host ran, as a schedule of operators counts them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "traces/match/host_tree.h"
#include "traces/match/profiled_steps.h"

namespace shardscope {

struct ProfiledOperator {
  std::uint32_t event = 0;
  std::string_view name;  ///< "aten::addmm"; of the trace, which must outlive it
  std::string shapes;     ///< as Schedule::shapes; "" also where the trace has none
  Duration start;
  /// Of what it made devices do; on a trace without a device that of the operator itself.
  Duration duration;
};

/// The operators of these names ("aten::addmm") that lie in no other of them and in no collective,
/// on the threads that run the model (which have the steps, or autograd's nodes), by start. One
/// that only hands a tensor of a subclass of Python's over, as those on DTensors do
/// ("PythonSubclass"), is none; what it calls on this rank's parts is.
std::vector<ProfiledOperator> profiled_operators(const ImportedTrace& trace, const HostTree& tree,
                                                 const std::set<std::string, std::less<>>& names);

/// "[[32, 40], [], [40, 20]]" as "32x40 40x20"; also of a list of tensors.
std::string shapes_of_dims(std::string_view dims);

}  // namespace shardscope
