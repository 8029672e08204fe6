// The kind `parallel`: collectives and memory of tensor, context, expert and pipeline parallel
// training steps.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/pytorch/engine/session.h"
#include "core/pytorch/parallel/training.h"
#include "core/pytorch/runtimes/common/process_group.h"

namespace shardscope::recordings {

/// A case with the recorder's defaults under it. Error where a family is not known here.
nlohmann::ordered_json with_parallel_defaults(const nlohmann::ordered_json& given);
/// What it trains.
eager::parallel::ParallelSettings parallel_settings(const nlohmann::ordered_json& given);

/// The rows of a rank's collectives, as record.py's Observer writes them.
class ParallelLog final : public eager::Observer {
 public:
  using Json = nlohmann::ordered_json;

  /// `groups` are the mesh's own, name to ranks; others are named g0, g1, .. as they come.
  ParallelLog(const eager::ProcessGroups& all, Json groups)
      : all_(all), groups_(std::move(groups)) {}

  void phase(std::string name) { phase_ = std::move(name); }
  void stage(int stage) { stage_ = stage; }
  /// Modules of the stages with these numbers are named below their place on the rank.
  void name_stages(std::vector<int> stages) { stages_ = std::move(stages); }
  /// Rows since the last call.
  Json take();
  const Json& groups() const { return groups_; }

  void on_collective(eager::Session& s, const eager::CollectiveCall& call) override;
  void on_work_wait(eager::Session& s, eager::WorkId work, eager::StreamId) override;

 private:
  std::string name_of_group(GroupId group);
  std::string name_of_module(const eager::Module* module) const;

  const eager::ProcessGroups& all_;
  Json groups_;
  Json rows_ = Json::array();
  std::string phase_ = "construct";
  int stage_ = 0;
  std::vector<int> stages_;
  std::vector<std::optional<std::size_t>> row_of_work_;
};

/// A rank's result with the fields that are compared.
nlohmann::ordered_json parallel_result(const nlohmann::ordered_json& given, int rank);

}  // namespace shardscope::recordings
