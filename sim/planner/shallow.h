// A model with fewer of its equal blocks: what a block adds is recorded once, not once for each.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "sim/planner/choice.h"

namespace shardscope::planner {

/// Two numbers of blocks from which a larger one follows, because what is between them repeats.
struct Depths {
  int few = 2, more = 3;

  /// The value at `blocks` on the line through those at `few` and `more`.
  std::int64_t extended(std::int64_t at_few, std::int64_t at_more, int blocks) const {
    return at_more + (at_more - at_few) * (blocks - more) / (more - few);
  }
};

/// For blocks that repeat every `period` (as checkpointing every:K and units of K do). None where
/// recording the two takes more than three fifths of recording all. `periods`: that the fewer have
/// at least, and two blocks. Example: 32 blocks, each alike: 2 and 3; every second one: 2 and 4.
std::optional<Depths> depths_of(int blocks, int period, int periods = 1);

/// The model cut to fewer blocks, each number of them made once. Safe to use from several threads.
class ShallowModels {
 public:
  /// `training`: whose base, if the model has adapters, is cut with it.
  ShallowModels(const Model& model, const JsonValue& config, const Training& training = {});

  /// 0 where the model cannot be cut: blocks that are not alike, or a config that does not say how
  /// many they are.
  int blocks() const { return blocks_; }

  struct Cut {
    Model model;
    JsonValue config;
    Training training;
  };
  /// The first `blocks` of them.
  const Cut& with(int blocks) const;

 private:
  const Model& model_;
  const Training training_;
  std::string text_;  ///< of the config
  int blocks_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<int, std::unique_ptr<Cut>> cuts_;
};

}  // namespace shardscope::planner
