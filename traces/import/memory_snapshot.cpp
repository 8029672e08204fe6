#include "traces/import/memory_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace shardscope {
namespace {

constexpr std::array<std::string_view, snapshot_actions> action_names{
    "alloc",       "free_requested", "free_completed", "segment_alloc", "segment_free",
    "segment_map", "segment_unmap",  "snapshot",       "oom",           "annotate"};
constexpr std::array<std::string_view, snapshot_block_states> state_names{
    "active_allocated", "active_pending_free", "inactive"};

template <class T>
std::size_t bytes_of(const std::vector<T>& values) {
  return values.capacity() * sizeof(T);
}

bool is_made_from_profile(std::string_view file, std::string_view name) {
  return file == "none" && name.find(".py(") != name.npos;
}

}  // namespace

std::string_view name_of(SnapshotAction action) {
  return action_names[static_cast<std::size_t>(action)];
}

std::string_view name_of(SnapshotBlockState state) {
  return state_names[static_cast<std::size_t>(state)];
}

std::size_t SnapshotEvents::allocated_bytes() const {
  return time_us.allocated_bytes() + address.allocated_bytes() + size.allocated_bytes() +
         stream.allocated_bytes() + stack.allocated_bytes() + context.allocated_bytes() +
         note.allocated_bytes() + category.allocated_bytes() + pool.allocated_bytes() +
         action.allocated_bytes();
}

std::vector<std::int64_t> MemorySnapshot::devices() const {
  std::set<std::int64_t> devices;
  for (const SnapshotSegment& segment : segments) devices.insert(segment.device);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].count() > 0) devices.insert(static_cast<std::int64_t>(i));
  }
  return {devices.begin(), devices.end()};
}

const SnapshotEvents* MemorySnapshot::events_of(std::int64_t device) const {
  const bool is_there = device >= 0 && device < static_cast<std::int64_t>(events.size());
  return is_there ? &events[static_cast<std::size_t>(device)] : nullptr;
}

std::size_t MemorySnapshot::allocated_bytes() const {
  std::size_t bytes = bytes_of(frames) + bytes_of(stack_frames) + bytes_of(stack_begins) +
                      bytes_of(segments) + bytes_of(host_segments) + bytes_of(blocks) +
                      bytes_of(annotations) + bytes_of(names) + host_events.allocated_bytes();
  for (const std::string& name : names) bytes += name.capacity();
  for (const SnapshotEvents& of_device : events) bytes += of_device.allocated_bytes();
  return bytes;
}

std::string frame_text(const MemorySnapshot& snapshot, std::uint32_t frame) {
  const SnapshotFrame& of = snapshot.frames[frame];
  return fmt::format("{}:{}:{}", snapshot.names[of.file], of.line, snapshot.names[of.name]);
}

std::string innermost_python_frame(const MemorySnapshot& snapshot, std::uint32_t stack) {
  for (const std::uint32_t frame : snapshot.stack(stack)) {
    const std::string_view file = snapshot.names[snapshot.frames[frame].file];
    const std::string& name = snapshot.names[snapshot.frames[frame].name];
    if (file.ends_with(".py")) return frame_text(snapshot, frame);
    if (is_made_from_profile(file, name)) return name;
  }
  return {};
}

namespace {

/// Between an operator and the allocator, which all stacks go through.
constexpr std::array ways_to_the_allocator{std::string_view("??"),
                                           std::string_view("torch::unwind::"),
                                           std::string_view("torch::CapturedTraceback"),
                                           std::string_view("c10::"),
                                           std::string_view("at::detail::empty"),
                                           std::string_view("at::native::empty"),
                                           std::string_view("at::_ops::empty"),
                                           std::string_view("at::TensorIteratorBase::")};

bool leads_to_the_allocator(std::string_view function) {
  return function.empty() ||
         std::any_of(ways_to_the_allocator.begin(), ways_to_the_allocator.end(),
                     [&](std::string_view way) { return function.starts_with(way); });
}

std::string without_parameters(std::string_view function) {
  constexpr std::string_view nameless = "(anonymous namespace)";
  std::size_t open = function.find('(');
  while (open != std::string_view::npos && function.substr(open).starts_with(nameless))
    open = function.find('(', open + nameless.size());
  return std::string(function.substr(0, open));
}

}  // namespace

std::string innermost_own_frame(const MemorySnapshot& snapshot, std::uint32_t stack) {
  constexpr std::array elsewhere{std::string_view("-packages/"), std::string_view("lib/python"),
                                 std::string_view("<frozen ")};
  for (const std::uint32_t frame : snapshot.stack(stack)) {
    const std::string_view file = snapshot.names[snapshot.frames[frame].file];
    if (!file.ends_with(".py")) continue;
    if (std::none_of(elsewhere.begin(), elsewhere.end(), [&](std::string_view part) {
          return file.find(part) != std::string_view::npos;
        }))
      return frame_text(snapshot, frame);
  }
  return {};
}

std::string innermost_telling_frame(const MemorySnapshot& snapshot, std::uint32_t stack) {
  std::string python = innermost_python_frame(snapshot, stack);
  if (!python.empty()) return python;
  for (const std::uint32_t frame : snapshot.stack(stack)) {
    const std::string& name = snapshot.names[snapshot.frames[frame].name];
    if (!leads_to_the_allocator(name)) return without_parameters(name);
  }
  return {};
}

}  // namespace shardscope
