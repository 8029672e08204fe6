// Brings sharded parameters to one rank, piece by piece.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/comm/communicator.h"
#include "backend/executor/executor.h"
#include "backend/train/parameter_storage.h"
#include "core/model/model.h"
#include "core/native/units.h"

namespace shardscope {

/// Gathers pieces of parameters, or of a state of them, on rank 0 from the ranks that hold the
/// first replica's shards, of the first stage that has them, so that no rank ever holds more than
/// its shard and one piece. Between steps only.
class ParameterGather {
 public:
  /// Of parameters as exactly as they are kept. `plans`: the units of every rank of the pipeline
  /// (`unit_plans`).
  ParameterGather(const Model& model, const std::vector<UnitPlan>& plans, Executor& executor,
                  Communicator& world);
  /// Of a state of the trained parameters, which `storages` hold.
  ParameterGather(const Model& model, const std::vector<UnitPlan>& plans, Executor& executor,
                  Communicator& world, std::vector<UnitStorage> storages);

  /// All ranks call it with the same piece; on rank 0, `out` becomes elements [first, first +
  /// elements) of the parameter. On other ranks `out` is empty.
  void gather(ParameterId parameter, std::int64_t first, std::int64_t elements,
              std::span<float> out);

 private:
  enum class Gathered : std::uint8_t { parameters, state };
  ParameterGather(const Model& model, const std::vector<UnitPlan>& plans, Executor& executor,
                  Communicator& world, std::vector<UnitStorage> storages, Gathered what);

  struct Place {
    int first_rank = 0;  ///< of the stage that has it
    std::size_t unit = 0;
    std::int64_t offset = 0;    ///< elements from the start of the unit's flat storage
    std::int64_t by_owner = 0;  ///< elements of the flat storage that a rank keeps
  };
  /// Elements of one rank's part of a unit.
  struct Piece {
    int owner = 0;
    std::size_t unit = 0;
    std::int64_t begin = 0, elements = 0;
  };

  void move(const Piece& piece, std::span<float> out);

  Executor& executor_;
  Communicator& world_;
  std::vector<UnitStorage> storages_;
  std::vector<Place> places_;  ///< by parameter
};

}  // namespace shardscope
