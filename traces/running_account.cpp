#include "traces/running_account.h"

#include <algorithm>

namespace shardscope {

void RunningAccount::add(TimeWindow window, SpanClass span_class) {
  const auto kind = static_cast<std::size_t>(span_class);
  static_assert(static_cast<int>(SpanClass::compute) == 0 &&
                static_cast<int>(SpanClass::communication) == 1 &&
                static_cast<int>(SpanClass::copy) == 2);
  if (kind >= ends_.size()) return;
  advance(window.begin.ns);
  ends_[kind] = std::max(ends_[kind], window.end.ns);
}

Accounting RunningAccount::account(TimeWindow window) {
  advance(*std::max_element(ends_.begin(), ends_.end()));
  const Duration span = std::max(Duration{}, window.length());
  return {.span = span,
          .compute = {compute_},
          .exposed_communication = {either_ - compute_},
          .exposed_copy = {any_ - either_},
          .idle = span - Duration{any_},
          .communication = {communication_},
          .overlap = {both_}};
}

/// What runs at `now_` runs on to its end.
void RunningAccount::advance(std::int64_t to) {
  const auto covered = [&](std::int64_t end) {
    return std::max<std::int64_t>(0, std::min(to, end) - now_);
  };
  const auto [compute, communication, copies] = ends_;
  compute_ += covered(compute);
  communication_ += covered(communication);
  copies_ += covered(copies);
  either_ += covered(std::max(compute, communication));
  any_ += covered(std::max({compute, communication, copies}));
  both_ += covered(std::min(compute, communication));
  now_ = std::max(now_, to);
}

}  // namespace shardscope
