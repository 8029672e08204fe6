// Whether two recordings of one script did the same in the same order: they can differ where the
// script asks how long work takes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "core/schedule/schedule.h"

namespace shardscope {

struct OrderDifference {
  std::size_t operation = 0;  ///< number in both, from 1
  std::string first, second;  ///< name there; empty: it had ended
  bool operator==(const OrderDifference&) const = default;
};

/// The first operation that is another one, in another step, on another stream, or of other bytes.
/// None: the order is the same.
std::optional<OrderDifference> order_difference(const Schedule& first, const Schedule& second);

}  // namespace shardscope
