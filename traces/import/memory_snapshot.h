// PyTorch's CUDA memory snapshot: what its caching allocator held, and what it did before.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/quantities.h"
#include "traces/import/event_column.h"
#include "traces/import/imported_trace.h"

namespace shardscope {

constexpr std::int64_t no_time = INT64_MIN;  ///< of events that do not say when
constexpr std::uint32_t no_stack = 0;        ///< the stack without frames

enum class SnapshotAction : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  snapshot,
  oom,
  annotate,
};
constexpr std::size_t snapshot_actions = 10;
/// As the file has it.
std::string_view name_of(SnapshotAction action);

enum class SnapshotBlockState : std::uint8_t {
  active_allocated,     ///< in use
  active_pending_free,  ///< freed, and still waited for on another stream
  inactive,
};
constexpr std::size_t snapshot_block_states = 3;
std::string_view name_of(SnapshotBlockState state);

struct SnapshotFrame {
  std::uint32_t name = 0;  ///< index into names
  std::uint32_t file = 0;  ///< index into names; a library for C++ frames
  std::int64_t line = 0;   ///< or the offset in a library
  bool operator==(const SnapshotFrame&) const = default;
};

/// {0, 0} is the default one.
struct PoolId {
  std::int64_t first = 0, second = 0;
  auto operator<=>(const PoolId&) const = default;
};

/// A part of a segment; blocks fill it without gaps.
struct SnapshotBlock {
  std::int64_t address = 0;
  Bytes size;       ///< rounded
  Bytes requested;  ///< of inactive ones left over from earlier use, or 0
  SnapshotBlockState state = SnapshotBlockState::inactive;
  std::uint32_t stack = no_stack;
};

struct SnapshotSegment {
  std::int64_t device = 0;
  std::int64_t address = 0;
  Bytes total;                             ///< of an expandable one, what is mapped
  std::optional<Bytes> allocated, active;  ///< as the file says
  std::uint32_t stream = 0;                ///< index into streams
  std::uint32_t type = no_name;            ///< "small", "large"
  std::optional<PoolId> pool;
  bool is_expandable = false;
  std::uint32_t first_block = 0, block_count = 0;  ///< of blocks
};

/// What one device's allocator did, the oldest first. Sizes of alloc and frees are as requested,
/// of segments as mapped; absent names are no_name. 49 bytes an event.
struct SnapshotEvents {
  EventColumn<std::int64_t> time_us;  ///< since 1970, or no_time
  EventColumn<std::int64_t> address;
  EventColumn<std::int64_t> size;
  EventColumn<std::uint32_t> stream;   ///< index into streams
  EventColumn<std::uint32_t> stack;    ///< of the call
  EventColumn<std::uint32_t> context;  ///< "compile_context"
  EventColumn<std::uint32_t> note;     ///< "user_metadata"
  EventColumn<std::uint32_t> category;
  EventColumn<std::uint32_t> pool;  ///< index into pools, or no_name
  EventColumn<SnapshotAction> action;

  std::size_t count() const { return action.size(); }
  std::size_t allocated_bytes() const;
};

/// An out-of-memory error: `bytes` were asked for, and the driver had `free` left.
struct SnapshotOutOfMemory {
  std::int64_t device = 0;  ///< -1: the host
  std::uint32_t event = 0;
  Bytes bytes;
  std::optional<Bytes> free;
};

/// One end of a range of the profiler (record_function).
struct SnapshotAnnotation {
  std::uint32_t name = no_name;
  std::uint32_t stage = no_name;  ///< "START", "END"
  std::int64_t device = 0;
  std::int64_t time_us = no_time;
};

struct MemorySnapshot {
  std::string file;
  std::vector<std::string> names;
  std::vector<SnapshotFrame> frames;  ///< each once
  std::vector<std::uint32_t> stack_frames, stack_begins{0, 0};
  std::vector<std::int64_t> streams;  ///< handles; 0 is the default one
  std::vector<PoolId> pools;
  std::vector<SnapshotSegment> segments, host_segments;
  std::vector<SnapshotBlock> blocks;   ///< of all segments
  std::vector<SnapshotEvents> events;  ///< by device
  SnapshotEvents host_events;
  std::vector<SnapshotOutOfMemory> out_of_memory;
  std::vector<SnapshotAnnotation> annotations;
  std::vector<std::pair<std::string, std::string>> settings;  ///< of the allocator; JSON values
  ImportReport report;

  /// Indices into frames, innermost first.
  std::span<const std::uint32_t> stack(std::uint32_t id) const {
    return std::span(stack_frames)
        .subspan(stack_begins[id], stack_begins[id + 1] - stack_begins[id]);
  }
  std::span<const SnapshotBlock> blocks_of(const SnapshotSegment& segment) const {
    return std::span(blocks).subspan(segment.first_block, segment.block_count);
  }
  /// Devices with segments or events, ascending.
  std::vector<std::int64_t> devices() const;
  /// Null for a device without any.
  const SnapshotEvents* events_of(std::int64_t device) const;
  std::size_t allocated_bytes() const;
};

/// "file:line:name"
std::string frame_text(const MemorySnapshot& snapshot, std::uint32_t frame);

/// The innermost frame of Python code, as text; empty where there is none. Frames of snapshots
/// that were made from a profile have it all in their name ("train.py(106): train_step").
std::string innermost_python_frame(const MemorySnapshot& snapshot, std::uint32_t stack);

/// The same; where there is none, the innermost function of C++ that is not the allocator's way to
/// it, without its parameters: "at::cuda::allocateCUDABlasWorkspace"; empty where none has a name.
std::string innermost_telling_frame(const MemorySnapshot& snapshot, std::uint32_t stack);

/// The innermost frame of Python code that is of no installed package and not of Python itself, so
/// most likely of the training script; empty where there is none.
std::string innermost_own_frame(const MemorySnapshot& snapshot, std::uint32_t stack);

}  // namespace shardscope
