// A checkpoint of another library as one of ours. Its tensors are found by the names of a model's
// parameters.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "backend/checkpoint/checkpoint.h"
#include "backend/checkpoint/foreign_checkpoint.h"

namespace shardscope {

/// Training steps done: as the folder counts them, else as the optimizer does; 0 where neither
/// says.
std::int64_t step_of(const ForeignCheckpoint& checkpoint);

/// What such a folder does not say.
struct ForeignModel {
  std::filesystem::path config;  ///< config.json of the model
  std::int64_t next_token = 0;   ///< global token offset at which the data goes on
};

class ForeignReader final : public Checkpoint {
 public:
  /// Names may have any prefix. Throws Error for a parameter that is missing or has another shape.
  ForeignReader(ForeignCheckpoint checkpoint, const ForeignModel& model);

  const std::filesystem::path& folder() const override { return checkpoint_.folder; }
  std::filesystem::path config() const override { return config_; }
  const CheckpointIndex& index() const override { return index_; }
  std::vector<Tensor> tensors() const override;
  std::optional<Tensor> find(const std::string& name) const override;
  void read(const std::string& tensor, std::int64_t first, std::span<float> out) override;

 private:
  ForeignCheckpoint checkpoint_;
  std::filesystem::path config_;
  CheckpointIndex index_;
  std::map<std::string, const ForeignTensor*> entries_;  ///< by our names
};

}  // namespace shardscope
