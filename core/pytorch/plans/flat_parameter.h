// FSDP1's FlatParameter: the parameters of a unit one after the other, with fill, and each rank's
// part of it. Source: torch 2.15 distributed/fsdp/_flat_param.py (FlatParamHandle).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace shardscope {

/// Elements of no parameter inside a FlatParameter.
struct Fill {
  std::int32_t before = 0;  ///< index of the parameter that follows; their number: at the end
  std::int64_t elements = 0;
  bool operator==(const Fill&) const = default;
};

/// What a FlatParameter is laid out from.
struct FlatParameterInput {
  std::span<const std::int64_t> parameter_elements;
  std::int64_t alignment_elements = 0;  ///< parameters start on multiples of it; 0: anywhere
  int ranks = 1;                        ///< of the process group
  bool sharded = true;                  ///< false (NO_SHARD): every rank keeps all of it
};

struct FlatParameter {
  std::vector<std::int64_t> begins;    ///< offset of each parameter
  std::vector<std::int64_t> elements;  ///< of each parameter
  std::vector<Fill> fill;
  std::int64_t unpadded_elements = 0;  ///< fill included (_unpadded_unsharded_size)
  std::int64_t shard_elements = 0;     ///< stored by every rank (_sharded_size)
  int shards = 1;                      ///< 1: not sharded

  /// _padded_unsharded_size: the last shards are padded to the size of the first.
  std::int64_t padded_elements() const { return shard_elements * shards; }
  bool operator==(const FlatParameter&) const = default;
};

/// With alignment, fill goes before a parameter, and at the end up to a multiple of the ranks; then
/// torch.chunk: shards of ceil(unpadded / ranks) elements.
/// Example: parameters of 10 and 3 elements, alignment 4, 5 ranks: fill of 2 before the second,
/// unpadded 15, shards of 3.
FlatParameter lay_out(const FlatParameterInput& input);

/// The part of one parameter that lies in a shard.
struct ParameterPart {
  std::int64_t first = 0;     ///< element of the parameter
  std::int64_t elements = 0;  ///< may be 0 for a parameter without elements
  std::int64_t offset = 0;    ///< in the shard
  bool operator==(const ParameterPart&) const = default;
};
/// Absent: nothing of it lies there (_get_shard_metadata). A parameter without elements counts as
/// present where others lie on both its sides.
std::optional<ParameterPart> part_of(const FlatParameter& flat, std::size_t parameter, int shard);

/// What one shard consists of: padding + elements + the fill that falls into it.
struct ShardPiece {
  struct Range {
    std::int32_t first = 0;          ///< index of the first parameter
    std::int64_t first_element = 0;  ///< of that parameter
    std::int32_t last = 0;           ///< index of the last parameter
    std::int64_t last_element = 0;   ///< of that parameter, inclusive
    std::int64_t offset = 0;         ///< where the first begins in the shard
    bool operator==(const Range&) const = default;
  };
  std::int64_t padding_elements = 0;  ///< zeros at the right end
  std::int64_t elements = 0;          ///< of parameters
  std::optional<Range> range;         ///< absent where no parameter lies here
  bool operator==(const ShardPiece&) const = default;
};
/// Costs as much as the parameters that lie in it, so that asking for every shard stays cheap.
ShardPiece piece_of(const FlatParameter& flat, int shard);

}  // namespace shardscope
