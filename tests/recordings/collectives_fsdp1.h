// The family fsdp1 of the kind `collectives`: cases as the product's settings, and the library's
// places as the recorder logs them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/pytorch/plans/fsdp1.h"
#include "core/pytorch/plans/module_tree.h"
#include "core/pytorch/runtimes/fsdp1/fully_sharded.h"
#include "tests/recordings/collectives_log.h"

namespace shardscope::recordings {

/// Names of the modules that a case wraps.
std::vector<std::string> fsdp1_units(const nlohmann::ordered_json& given,
                                     const std::vector<std::string>& blocks);
/// Units and shards as the product plans them for this rank.
Fsdp1Plan fsdp1_plan(const nlohmann::ordered_json& given, const ModuleTree& tree,
                     const std::vector<std::string>& units, int rank);
eager::fsdp1::Options fsdp1_options(const nlohmann::ordered_json& given);
/// Groups as the recorder makes them: of a mesh, or one by one.
eager::fsdp1::Groups fsdp1_groups(const nlohmann::ordered_json& given,
                                  eager::ProcessGroups& groups);
/// The tree of a model as named_modules() walks it.
ModuleTree module_tree_of(eager::Module& root);

/// describe_fsdp1.
nlohmann::ordered_json described(const eager::fsdp1::FullySharded& model);

/// patch_fsdp1: events of FSDP1's own functions.
class Fsdp1Log : public eager::fsdp1::Watcher {
 public:
  explicit Fsdp1Log(EventLog& log) : log_(log) {}

  void on_enter(eager::Session&, const eager::fsdp1::Visit& visit) override;
  void on_leave(eager::Session&, const eager::fsdp1::Visit&) override { log_.leave(); }
  void on_streams(eager::Session&, const eager::fsdp1::Streams& streams) override;
  void on_device_synchronize(eager::Session&) override;
  void on_stream_synchronize(eager::Session&, eager::StreamId stream) override;
  void on_limiter_enqueue(eager::Session&, eager::EventId event, std::size_t length) override;
  void on_limiter_dequeue(eager::Session&, std::optional<eager::EventId> event,
                          std::size_t length) override;
  void on_pre_unshard(eager::Session&, const eager::fsdp1::Unit& unit,
                      const eager::Tensor& flat) override;
  void on_low_precision_shard_freed(eager::Session&, const eager::fsdp1::Unit& unit) override;
  void on_record_stream(eager::Session&, const eager::Tensor& tensor,
                        eager::StreamId stream) override;
  void on_division(eager::Session&, const eager::Tensor& divided, double by) override;
  void on_gradient_cast(eager::Session&, const eager::Tensor& reduced, Dtype to) override;
  void on_accumulation(eager::Session&, const eager::fsdp1::Unit& unit,
                       const eager::Tensor& reduced) override;

 private:
  void note(const eager::fsdp1::Visit& visit);

  EventLog& log_;
};

}  // namespace shardscope::recordings
