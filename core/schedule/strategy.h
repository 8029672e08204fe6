// Strategy: whose rules are followed, and what of P, G and OS is sharded over which groups.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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

/// Ranks as a grid, shard varying fastest: rank = (pipeline * replicate_count + replicate) *
/// shard_count + shard.
struct Mesh {
  int pipeline = 1;
  int replicate = 1;
  int shard = 1;
  int world() const { return pipeline * replicate * shard; }
  bool operator==(const Mesh&) const = default;
};

enum class WrapPolicy : std::uint8_t { transformer, size, none };
struct Wrap {
  WrapPolicy policy = WrapPolicy::transformer;
  /// size: neighbouring blocks are joined until a unit has this many elements.
  std::int64_t min_elements = 0;
  bool operator==(const Wrap&) const = default;
};

/// full: every block is run again in the backward.
enum class Checkpointing : std::uint8_t { none, full };
std::string_view name_of(Checkpointing checkpointing);

enum class OptimizerKind : std::uint8_t { adamw, sgd };
std::string_view name_of(OptimizerKind kind);
struct Optimizer {
  OptimizerKind kind = OptimizerKind::adamw;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  ///< adamw
  double momentum = 0.9;                             ///< sgd
  bool nesterov = false;
  double weight_decay = 0.1;  ///< on parameters of two and more dimensions
  bool operator==(const Optimizer&) const = default;
};

struct Strategy {
  Runtime runtime = Runtime::native;
  ShardingStrategy sharding = ShardingStrategy::full_shard;
  Mesh mesh;
  Wrap wrap;
  bool prefetch = true;  ///< the next unit is gathered while this one computes
  Checkpointing checkpointing = Checkpointing::none;
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
/// "none", "full"
Checkpointing parse_checkpointing(std::string_view text, std::string_view where);
/// "transformer", "none", "size:N"
Wrap parse_wrap(std::string_view text, std::string_view where);
/// "pipeline=2,replicate=2,shard=4"; every axis at most once, positive.
Mesh parse_mesh(std::string_view text, std::string_view where);
std::string text_of(const Wrap& wrap);
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
