// A checkpoint that is written beside the place that it will take.
#pragma once

#include <filesystem>

#include "backend/checkpoint/checkpoint_index.h"

namespace shardscope {

/// Gone unless it took its place.
class NewFolder {
 public:
  /// Throws Error where something lies at `place`.
  explicit NewFolder(const std::filesystem::path& place);
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder();

  const std::filesystem::path& path() const { return partial_; }
  /// With the index, last.
  void take_place(const CheckpointIndex& index);
  void take_place();

 private:
  std::filesystem::path place_, partial_;
};

}  // namespace shardscope
