#include "core/recording/recorded_order.h"

#include <algorithm>

namespace shardscope {
namespace {

std::string name_at(const Schedule& schedule, std::size_t operation) {
  if (operation >= schedule.operations.size()) return {};
  return std::string(schedule.names.at(schedule.operations[operation].name));
}

}  // namespace

std::optional<OrderDifference> order_difference(const Schedule& first, const Schedule& second) {
  const auto alike = [&](const Operation& a, const Operation& b) {
    return a.kind == b.kind && a.stream == b.stream && a.step == b.step && a.bytes == b.bytes &&
           first.names.at(a.name) == second.names.at(b.name);
  };
  const auto& all = first.operations;
  const auto [here, there] = std::mismatch(all.begin(), all.end(), second.operations.begin(),
                                           second.operations.end(), alike);
  if (here == all.end() && there == second.operations.end()) return std::nullopt;
  const auto operation = static_cast<std::size_t>(here - all.begin());
  return OrderDifference{.operation = operation + 1,
                         .first = name_at(first, operation),
                         .second = name_at(second, operation)};
}

}  // namespace shardscope
