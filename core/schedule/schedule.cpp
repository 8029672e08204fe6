#include "core/schedule/schedule.h"

#include <algorithm>

namespace shardscope {
namespace {

constexpr std::array<std::string_view, memory_category_count> category_names{
    "parameters",    "gradients",   "optimizer_states", "activations",
    "communication", "temporaries", "workspace",        "inputs"};
constexpr std::array<std::string_view, 14> operation_kind_names{
    "compute",    "all_gather", "reduce_scatter", "all_reduce", "reduce", "broadcast", "scatter",
    "all_to_all", "send",       "receive",        "barrier",    "copy",   "host",      "optimizer"};
constexpr std::array<std::string_view, stream_count> stream_names{
    "host", "compute", "unshard", "reduce", "copy", "send_receive"};
constexpr std::array<std::string_view, 3> copy_way_names{"within", "to_host", "to_device"};
constexpr std::array<std::string_view, 7> phase_names{"init",      "forward",   "backward", "clip",
                                                      "optimizer", "zero_grad", "other"};

}  // namespace

std::string_view name_of(MemoryCategory category) {
  return category_names[static_cast<std::size_t>(category)];
}
std::string_view name_of(OperationKind kind) {
  return operation_kind_names[static_cast<std::size_t>(kind)];
}
std::string_view name_of(Stream stream) { return stream_names[static_cast<std::size_t>(stream)]; }
std::string_view name_of(CopyWay way) { return copy_way_names[static_cast<std::size_t>(way)]; }
std::string_view name_of(Phase phase) { return phase_names[static_cast<std::size_t>(phase)]; }

bool is_collective(OperationKind kind) {
  return kind >= OperationKind::all_gather && kind <= OperationKind::barrier;
}

Bytes CategoryBytes::total() const {
  Bytes sum;
  for (Bytes bytes : by) sum += bytes;
  return sum;
}

std::vector<CategoryBytes> live_bytes(const Schedule& schedule) {
  const std::size_t count = schedule.operations.size();
  std::vector<CategoryBytes> change(count + 1);
  for (const Buffer& buffer : schedule.buffers) {
    if (buffer.on_host) continue;
    change[buffer.allocated_by ? buffer.allocated_by.value : 0][buffer.category] += buffer.bytes;
    if (buffer.freed_by) change[buffer.freed_by.value + 1][buffer.category] -= buffer.bytes;
  }
  std::vector<CategoryBytes> live(count);
  CategoryBytes now;
  for (std::size_t i = 0; i < count; ++i) {
    for (MemoryCategory category : memory_categories) now[category] += change[i][category];
    live[i] = now;
  }
  return live;
}

}  // namespace shardscope
