#include "traces/launches.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace shardscope {
namespace {

/// Operation, step, start, index.
using Key = std::tuple<OperationId, std::int32_t, Duration, std::size_t>;

std::pair<OperationId, std::int32_t> operation_and_step(const Key& key) {
  return {std::get<0>(key), std::get<1>(key)};
}

std::size_t index_of(const Key& key) { return std::get<3>(key); }

std::vector<Key> sorted_keys(const Trace& trace, bool on_device) {
  std::vector<Key> keys;
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    const Span& span = trace.spans[i];
    const bool is_host = span.span_class == SpanClass::host;
    const bool is_wanted = on_device ? is_on_device(trace, span) : is_host;
    if (is_wanted && span.operation) keys.emplace_back(span.operation, span.step, span.start, i);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace

LaunchTable::LaunchTable(const Trace& trace)
    : correlation_of_host_(trace.spans.size(), 0), has_launch_(trace.spans.size(), false) {
  const std::vector<Key> device = sorted_keys(trace, true);
  const std::vector<Key> host = sorted_keys(trace, false);
  for (std::size_t d = 0, h = 0; d < device.size() && h < host.size();) {
    const auto device_key = operation_and_step(device[d]);
    const auto host_key = operation_and_step(host[h]);
    if (device_key == host_key) {
      correlation_of_host_[index_of(host[h])] = index_of(device[d]) + 1;
      has_launch_[index_of(device[d])] = true;
      ++d, ++h;
    } else if (device_key < host_key) {
      ++d;
    } else {
      ++h;
    }
  }
}

}  // namespace shardscope
