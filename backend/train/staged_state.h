// A rank's part of a checkpoint, copied out of the arena, so that training can go on while it is
// written.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/base/memory_mapping.h"
#include "backend/checkpoint/checkpoint_writer.h"
#include "backend/checkpoint/full_checkpoint.h"
#include "backend/train/parameter_gather.h"
#include "backend/train/parameter_storage.h"
#include "backend/train/trainer.h"
#include "core/native/job.h"

namespace shardscope {

/// The stretch of a unit's flat storage that a rank writes where a checkpoint is SHARDED: ranks
/// that hold the same storage write equal parts of it. Elements of the flat storage.
struct FlatStretch {
  std::int64_t first = 0;
  std::int64_t elements = 0;
  bool operator==(const FlatStretch&) const = default;
};
/// Example: 1024 padded elements, 4 ranks in 2 replicas of 2 shards: rank 3 holds 512 from 512 on,
/// and writes 256 from 768 on. Where all ranks hold all of it, it writes the same.
FlatStretch written_stretch(const UnitStorage& storage, const Mesh& mesh, int rank);

/// Between steps only. The memory is kept for the next time.
class StagedState {
 public:
  /// Collective where `kind` is full: then rank 0 gathers whole tensors, and the others have
  /// nothing to write. Else without communication.
  void stage(CheckpointKind kind, Trainer& trainer, Communicator& world);

  /// For write_shard_file; valid until the next `stage`.
  const std::vector<TensorToWrite>& tensors() const { return tensors_; }
  std::int64_t bytes() const;
  /// For write_whole_states.
  std::vector<WholeState> whole_states() const;

 private:
  struct WholeTensors {
    std::string state;
    std::vector<std::vector<float>> by_parameter;
  };
  /// A tensor to write, and where it comes from: the arena or the start weights.
  struct Source {
    const UnitStorage* storage = nullptr;
    std::int64_t begin = 0;  ///< element of the storage's memory
    ParameterId start_weight;
  };

  void plan_shards(CheckpointKind kind, Trainer& trainer, int rank);
  void plan_parameters(const UnitStorage& storage, const FlatStretch& stretch,
                       std::string_view state, const Trainer& trainer);
  void plan_flat(const UnitStorage& storage, std::string_view state, const Trainer& trainer);
  void copy(Trainer& trainer);
  void gather(Trainer& trainer, Communicator& world);
  void gather_whole(std::string_view state, Trainer& trainer, Communicator& world,
                    const std::function<ParameterGather*(ParameterId)>& from);

  std::vector<std::vector<UnitStorage>> storages_;
  std::vector<Source> sources_;  ///< of tensors_
  std::vector<TensorToWrite> tensors_;
  MemoryMapping memory_;
  std::vector<WholeTensors> whole_;
};

}  // namespace shardscope
