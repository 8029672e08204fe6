// Strategy: whose rules are followed, and what of P, G and OS is sharded over which groups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/precision.h"
#include "core/base/quantities.h"

namespace shardscope {

enum class Runtime : std::uint8_t { native, fsdp1, fsdp2, ddp, deepspeed };
std::string_view name_of(Runtime runtime);

/// no_shard is DDP, zero1 to full_shard are ZeRO's stages 1 to 3, the hybrids replicate what
/// full_shard and shard_grad_op shard. What the native runtime has: core/native/native_abilities.h.
enum class ShardingStrategy : std::uint8_t {
  no_shard,
  zero1,
  shard_grad_op,
  full_shard,
  hybrid_shard,
  hybrid_shard_zero2
};
std::string_view name_of(ShardingStrategy strategy);
/// Shards inside groups and replicates across them.
bool is_hybrid(ShardingStrategy strategy);
/// 0 of no_shard to 3 of full_shard; a hybrid has the stage of its shards.
int zero_stage(ShardingStrategy strategy);

/// Ranks as a grid, shard varying fastest: rank = (pipeline * replicate_count + replicate) *
/// shard_count + shard.
struct Mesh {
  int pipeline = 1;
  int replicate = 1;
  int shard = 1;
  int world() const { return pipeline * replicate * shard; }
  bool operator==(const Mesh&) const = default;
};

enum class WrapPolicy : std::uint8_t { transformer, size, by_hand, none };
struct Wrap {
  WrapPolicy policy = WrapPolicy::transformer;
  /// size: neighbouring blocks are joined until a unit has this many elements.
  std::int64_t min_elements = 0;
  /// by_hand: the blocks of each unit, ascending. A block in none of them belongs to the root.
  std::vector<std::vector<int>> blocks = {};
  bool operator==(const Wrap&) const = default;
};

/// When a sharded unit is gathered ahead of its own turn; PyTorch's words (FSDP's
/// backward_prefetch and forward_prefetch; torch/distributed/fsdp/api.py).
struct Prefetching {
  int forward = 1;             ///< units ahead in the forward; 0: none
  int backward = 1;            ///< units ahead in the backward; 0: none
  bool backward_post = false;  ///< BACKWARD_POST: behind the unit's backward, not before it
  int limit = 0;  ///< no prefetch beyond so many gathered units besides the root; 0: no limit
  bool operator==(const Prefetching&) const = default;
};

/// Which blocks are run again in the backward.
struct Checkpointing {
  int every = 0;  ///< k: every k-th block from the first on; 0: none of them
  int first = 0;  ///< the first so many blocks
  /// In the other blocks everything but products and attention, whose outputs are kept.
  bool selective = false;
  bool any() const { return every > 0 || first > 0 || selective; }
  /// The whole block is run again.
  bool runs_again(int block) const { return block < first || (every > 0 && block % every == 0); }
  bool operator==(const Checkpointing&) const = default;
};
constexpr Checkpointing full_checkpointing{.every = 1};

enum class OptimizerKind : std::uint8_t { adamw, sgd };
std::string_view name_of(OptimizerKind kind);
/// Parameters whose name holds a match of the regular expression are updated at their own rate.
struct ParameterGroup {
  std::string pattern;
  double rate = 1;                     ///< times the step's learning rate
  std::optional<double> weight_decay;  ///< of all of them, whatever their dimensions
  bool operator==(const ParameterGroup&) const = default;
};
struct Optimizer {
  OptimizerKind kind = OptimizerKind::adamw;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  ///< adamw
  double momentum = 0.9;                             ///< sgd
  bool nesterov = false;
  double weight_decay = 0.1;                ///< on parameters of two and more dimensions
  std::vector<ParameterGroup> groups = {};  ///< a parameter is in the first that matches
  bool operator==(const Optimizer&) const = default;
};

/// What lives in the host's memory and is updated there. native, deepspeed: optimizer states alone,
/// or parameters as well (deepspeed: stage 3); fsdp1 and fsdp2: everything.
enum class Offload : std::uint8_t { none, optimizer, all };
std::string_view name_of(Offload offload);

struct Strategy {
  Runtime runtime = Runtime::native;
  ShardingStrategy sharding = ShardingStrategy::full_shard;
  Mesh mesh;
  Wrap wrap;
  Prefetching prefetch;
  Checkpointing checkpointing;
  Offload offload = Offload::none;
  Precision precision = Precision::fp32;
  /// Gradients are reduced in every micro-batch (keeps only shards between them) or only in the
  /// last.
  bool reduce_every_micro_batch = false;
  bool operator==(const Strategy&) const = default;
};

/// Text as on the command line: "full_shard", "hybrid_shard"; throws Error naming `where` and the
/// choices.
ShardingStrategy parse_sharding_strategy(std::string_view text, std::string_view where);
Runtime parse_runtime(std::string_view text, std::string_view where);
OptimizerKind parse_optimizer(std::string_view text, std::string_view where);
/// "none", "full", "every:K", "first:N", "selective", "selective+first:N"
Checkpointing parse_checkpointing(std::string_view text, std::string_view where);
/// "on", "off", or a list of forward, forward=K, backward_pre, backward_pre=K, backward_post,
/// backward_post=K and limit=N: "forward=2,backward_pre=2,limit=3"
Prefetching parse_prefetching(std::string_view text, std::string_view where);
/// "transformer", "none", "size:N", "blocks:0+3,1+2,4+5"
Wrap parse_wrap(std::string_view text, std::string_view where);
Offload parse_offload(std::string_view text, std::string_view where);
/// "pipeline=2,replicate=2,shard=4"; every axis at most once, positive.
Mesh parse_mesh(std::string_view text, std::string_view where);
std::string text_of(const Wrap& wrap);
std::string text_of(const Prefetching& prefetching);
std::string text_of(const Checkpointing& checkpointing);
std::string text_of(const Mesh& mesh);

/// What is trained on, for one rank.
struct Workload {
  std::int64_t batch = 1;     ///< sequences per rank and micro-batch
  std::int64_t length = 128;  ///< tokens of a sequence
  int micro_batches = 1;      ///< gradient accumulation
  Optimizer optimizer;
  double clip = 0;  ///< largest gradient norm; 0: no clipping (the norm is still measured)
  bool operator==(const Workload&) const = default;
};

}  // namespace shardscope
