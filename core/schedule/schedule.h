// Schedule: for one rank, the operations on streams with their dependencies, and the buffers they
// allocate, use and free. The simulator and the executor walk the same one.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/quantities.h"
#include "core/base/ranks.h"
#include "core/model/model.h"
#include "core/schedule/device_work.h"
#include "core/schedule/host_program.h"
#include "core/schedule/kernel.h"
#include "core/schedule/strategy.h"
#include "core/schedule/target.h"

namespace shardscope {

/// The memory categories, everywhere in this order.
enum class MemoryCategory : std::uint8_t {
  parameters,
  gradients,
  optimizer_states,
  activations,
  communication,
  temporaries,
  workspace,
  inputs
};
inline constexpr int memory_category_count = 8;
std::string_view name_of(MemoryCategory category);
inline constexpr std::array<MemoryCategory, memory_category_count> memory_categories{
    MemoryCategory::parameters,  MemoryCategory::gradients,     MemoryCategory::optimizer_states,
    MemoryCategory::activations, MemoryCategory::communication, MemoryCategory::temporaries,
    MemoryCategory::workspace,   MemoryCategory::inputs};

/// Bytes by category.
struct CategoryBytes {
  std::array<Bytes, memory_category_count> by{};
  Bytes& operator[](MemoryCategory c) { return by[static_cast<std::size_t>(c)]; }
  Bytes operator[](MemoryCategory c) const { return by[static_cast<std::size_t>(c)]; }
  Bytes total() const;
  bool operator==(const CategoryBytes&) const = default;
};

enum class OperationKind : std::uint8_t {
  compute,
  all_gather,
  reduce_scatter,
  all_reduce,
  reduce,
  broadcast,
  scatter,
  all_to_all,
  send,
  receive,
  barrier,
  copy,
  host,
  optimizer
};
std::string_view name_of(OperationKind kind);
bool is_collective(OperationKind kind);  ///< all_gather ... barrier

enum class Stream : std::uint8_t { host, compute, unshard, reduce, copy, send_receive };
inline constexpr int stream_count = 6;
std::string_view name_of(Stream stream);

/// Which way a copy goes between the memories of the device and of the host.
enum class CopyWay : std::uint8_t { within, to_host, to_device };
std::string_view name_of(CopyWay way);

enum class Phase : std::uint8_t { init, forward, backward, clip, optimizer, zero_grad, other };
std::string_view name_of(Phase phase);

struct OperationTag;
struct BufferTag;
struct UnitTag;
struct GroupTag;
struct OwnerTag;
using OperationId = Id<OperationTag>;
using BufferId = Id<BufferTag>;
using UnitId = Id<UnitTag>;
using GroupId = Id<GroupTag>;
using OwnerId = Id<OwnerTag>;

/// A half-open range of indices into one of the schedule's tables.
struct IndexRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t size() const { return end - begin; }
  bool operator==(const IndexRange&) const = default;
};

enum class Access : std::uint8_t { read, write, read_write };

/// One operand: a part of a buffer. An absent operand has no buffer.
struct Operand {
  BufferId buffer;
  Bytes offset;  ///< from the buffer's start
  Bytes bytes;
  Access access = Access::read;
  bool operator==(const Operand&) const = default;
};

struct Operation {
  std::uint32_t name = 0;  ///< index into Schedule::names
  OperationKind kind = OperationKind::compute;
  Stream stream = Stream::compute;
  Phase phase = Phase::forward;
  /// What products are computed in, where no kernel is known.
  Dtype dtype = Dtype::float32;
  std::int16_t micro_batch = 0;
  bool recomputed = false;  ///< of a forward that the backward runs again
  /// Part of a CUDA graph, but not its first operation: the host issues the whole graph with that.
  bool issued_with_graph = false;
  std::int32_t step = 0;  ///< index into Schedule::steps
  UnitId unit;            ///< none: belongs to no unit
  OwnerId owner;          ///< module in whose forward or backward it runs; none: not known
  /// Of compute and optimizer: index into kernels, or `no_kernel`; of collectives: into
  /// collectives.
  std::uint32_t detail = 0;
  /// An operator of PyTorch's.
  static constexpr std::uint32_t no_kernel = ~std::uint32_t{0};
  /// Of operators of PyTorch's and copies: index into works, or `no_work`.
  static constexpr std::uint32_t no_work = ~std::uint32_t{0};
  std::uint32_t work = no_work;
  /// Of operators of PyTorch's: index into shapes, or `no_shapes`.
  static constexpr std::uint32_t no_shapes = ~std::uint32_t{0};
  std::uint32_t shapes = no_shapes;
  /// Into Schedule::operands. Of kernels in the kernel's order; of collectives and of PyTorch's
  /// operators inputs, then outputs (one operand where a collective reduces in place).
  IndexRange operands;
  /// Into Schedule::after: operations that must have ended, beyond stream order.
  IndexRange after;
  IndexRange slices;  ///< into Schedule::slices, of clipping and optimizer kernels
  /// Read and written; of a collective its payload (out of the gather, into the reduction).
  Bytes bytes;
  Flops flops;
};

/// `elements_in` = what this rank puts in, `elements_out` = what it holds afterwards. All-gather:
/// out = in * group size, rank i's part at i * in; reduce-scatter: in = out * group size.
/// Reductions are sums.
struct Collective {
  GroupId group;
  std::int64_t elements_in = 0;
  std::int64_t elements_out = 0;
  Dtype dtype = Dtype::float32;
  int peer = -1;  ///< of a transfer in a larger group: the other rank of the job; -1: not known
  bool operator==(const Collective&) const = default;
};

struct Group {
  std::string name;  ///< "world", "shard", "replicate"
  Ranks ranks;       ///< ascending
  bool operator==(const Group&) const = default;
};

struct Buffer {
  std::uint32_t name = 0;  ///< index into Schedule::names
  MemoryCategory category = MemoryCategory::activations;
  std::uint8_t lane = 0;  ///< of the host program: on which it is allocated
  bool on_host = false;   ///< in the host's memory, not in the device's
  Bytes bytes;
  /// Blocks of equal size that it is made of, where the host program repeats its allocation.
  std::uint32_t copies = 1;
  OperationId allocated_by;  ///< none: before the first step
  OperationId freed_by;      ///< none: never. Freed when this operation has ended
  UnitId unit;
  OwnerId owner;  ///< module in whose forward or backward it is allocated; none: not known
  Bytes copy_bytes() const { return bytes / copies; }
};

/// A parameter's place in its unit's flat storage.
struct FlatSlot {
  ParameterId parameter;
  std::int64_t elements = 0;  ///< of the parameter
  std::int64_t offset = 0;    ///< elements from the start, a multiple of piece_elements
  bool operator==(const FlatSlot&) const = default;
};

/// The group of parameters gathered and reduced together, with its FlatParameter.
struct Unit {
  std::string name;  ///< "" is the root
  std::string class_name;
  std::vector<FlatSlot> slots;
  std::int64_t elements = 0;           ///< of its parameters
  std::int64_t unpadded_elements = 0;  ///< with the fill that aligns each parameter
  std::int64_t padded_elements = 0;    ///< a multiple of the world size
  std::int64_t shard_elements = 0;     ///< padded / shard ranks
  std::vector<std::int64_t> padding_elements_by_rank;
};

/// One distinct step. The native runtime is steady: its schedule has one step that every training
/// step repeats.
struct Step {
  std::string label;  ///< "steady", "1", "2"
  IndexRange operations;
  IndexRange actions;  ///< of the host program; what comes before the first step's is set-up
};

/// Where a schedule's buffers come from.
enum class MemorySource : std::uint8_t {
  arena,              ///< laid out ahead of time: memory follows from operations alone
  caching_allocator,  ///< asked for and let go by the host program
};

/// One rank's program and memory. Ids are dense; operations are in issue order, the same on all
/// ranks.
struct Schedule {
  Strategy strategy;
  Workload workload;
  int rank = 0;
  int world = 1;
  std::vector<std::string> names;
  std::vector<Unit> units;
  std::vector<std::string> owners;  ///< full names of modules
  std::vector<Group> groups;
  std::vector<Kernel> kernels;    ///< distinct ones
  std::vector<DeviceWork> works;  ///< distinct ones
  /// Of an operator's tensors in the order of its arguments, without scalars and what has no
  /// dimension: "32x40 40x20"; distinct ones.
  std::vector<std::string> shapes;
  std::vector<Collective> collectives;  ///< distinct ones
  std::vector<Slice> slices;
  std::vector<Operation> operations;
  std::vector<Operand> operands;
  std::vector<OperationId> after;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  HostProgram program;
  MemorySource memory = MemorySource::arena;
  std::vector<std::string> assumed;

  std::string_view name(const Operation& op) const { return names[op.name]; }
  std::string_view name(const Buffer& buffer) const { return names[buffer.name]; }
  std::span<const Operand> operands_of(const Operation& op) const {
    return {operands.data() + op.operands.begin, op.operands.size()};
  }
  std::span<const OperationId> after_of(const Operation& op) const {
    return {after.data() + op.after.begin, op.after.size()};
  }
  std::span<const Slice> slices_of(const Operation& op) const {
    return {slices.data() + op.slices.begin, op.slices.size()};
  }
  const Operation& at(OperationId id) const { return operations[id.value]; }
  const Buffer& at(BufferId id) const { return buffers[id.value]; }
};

/// Live bytes by category while each operation runs, in issue order (index = operation). For
/// `native` this is exact.
std::vector<CategoryBytes> live_bytes(const Schedule& schedule);

/// Where each buffer lies in the one arena. Two buffers overlap only if one is freed before the
/// other is allocated.
struct ArenaLayout {
  std::vector<Bytes> offset;  ///< by buffer
  Bytes size;
};
/// `gap` bytes are kept free behind every buffer (canaries of the checking mode).
ArenaLayout arena_layout(const Schedule& schedule, Bytes gap = {});
/// Of the rank of a pipeline that has the largest.
Bytes largest_arena(std::span<const Schedule> stages);
/// Whether none is larger than `most`; takes less time than their layouts.
bool arenas_fit(std::span<const Schedule> stages, Bytes most);

}  // namespace shardscope
