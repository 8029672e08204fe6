#include "sim/megatron/expert_parallel.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/ranks.h"
#include "sim/kernels/steady_step.h"

namespace shardscope {
namespace {

constexpr std::int64_t bytes_of_activation = 2;
constexpr std::int64_t bytes_of_count = 8;

/// The experts that an operation is of: "model.layers.3.mlp.experts"; none: of no experts.
std::optional<std::string> experts_of(const Schedule& schedule, const Operation& op) {
  constexpr std::string_view experts = ".mlp.experts";
  if (!op.owner || (op.phase != Phase::forward && op.phase != Phase::backward)) return std::nullopt;
  const std::string& module = schedule.owners[op.owner.value];
  const std::size_t at = module.find(experts);
  if (at == std::string::npos) return std::nullopt;
  return module.substr(0, at + experts.size());
}

/// One use of experts: in which micro-batch, forward or backward, first or again.
using Use = std::tuple<std::string, int, Phase, bool>;

class Dispatcher {
 public:
  Dispatcher(Schedule schedule, const ExpertParallel& experts)
      : schedule_(std::move(schedule)), experts_(experts) {}

  Schedule insert() {
    add_group();
    find_uses();
    rewrite_steady_step(schedule_, [&](std::uint32_t i, std::vector<HostAction>& changed) {
      const HostAction action = schedule_.program.actions[i];
      if (begins_.contains(i)) dispatch(action, changed);
      changed.push_back(action);
      if (ends_.contains(i)) combine(action, changed);
    });
    return std::move(schedule_);
  }

 private:
  void add_group() {
    schedule_.groups.push_back({.name = "expert", .ranks = Ranks::up_to(experts_.ranks)});
    group_ = GroupId::of(schedule_.groups.size() - 1);
    schedule_.works.push_back(
        {.kind = WorkKind::gather, .dtype = Dtype::bfloat16, .bytes = Bytes{2 * rows_bytes()}});
    sort_ = static_cast<std::uint32_t>(schedule_.works.size() - 1);
  }

  std::int64_t rows_bytes() const { return experts_.rows * experts_.hidden * bytes_of_activation; }

  /// The first and the last launch of each use.
  void find_uses() {
    std::map<Use, std::pair<std::uint32_t, std::uint32_t>> uses;
    const IndexRange range = schedule_.steps.back().actions;
    for (std::uint32_t i = range.begin; i < range.end; ++i) {
      const HostAction& action = schedule_.program.actions[i];
      if (action.kind != HostActionKind::launch) continue;
      const Operation& op = schedule_.operations[action.subject];
      const std::optional<std::string> experts = experts_of(schedule_, op);
      if (!experts) continue;
      const Use use{*experts, op.micro_batch, op.phase, op.recomputed};
      const auto [found, fresh] = uses.try_emplace(use, i, i);
      found->second.second = i;
    }
    for (const auto& [use, launches] : uses) {
      begins_.insert(launches.first);
      ends_.insert(launches.second);
    }
  }

  void dispatch(const HostAction& before, std::vector<HostAction>& actions) {
    const Operation& op = schedule_.operations[before.subject];
    const bool forward = op.phase == Phase::forward || op.recomputed;
    if (forward && experts_.counts_tokens) {
      exchange(before, OperationKind::all_gather, experts_.ranks * bytes_of_count, actions);
      actions.push_back({.kind = HostActionKind::host_sync, .lane = before.lane});
    }
    exchange(before, OperationKind::all_to_all, rows_bytes(), actions);
    put_in_order(before, actions);
  }

  void combine(const HostAction& after, std::vector<HostAction>& actions) {
    put_in_order(after, actions);
    exchange(after, OperationKind::all_to_all, rows_bytes(), actions);
  }

  void exchange(const HostAction& beside, OperationKind kind, std::int64_t bytes,
                std::vector<HostAction>& actions) {
    Operation op = bare_operation(schedule_, beside);
    op.kind = kind;
    op.bytes = Bytes{bytes};
    const std::int64_t elements = bytes / bytes_of_activation;
    schedule_.collectives.push_back({.group = group_,
                                     .elements_in = elements,
                                     .elements_out = elements,
                                     .dtype = Dtype::bfloat16});
    op.detail = static_cast<std::uint32_t>(schedule_.collectives.size() - 1);
    add_launch(schedule_, op, beside.lane, actions);
  }

  void put_in_order(const HostAction& beside, std::vector<HostAction>& actions) {
    Operation op = bare_operation(schedule_, beside);
    op.work = sort_;
    op.bytes = schedule_.works[sort_].bytes;
    add_launch(schedule_, op, beside.lane, actions);
  }

  Schedule schedule_;
  const ExpertParallel& experts_;
  GroupId group_;
  std::uint32_t sort_ = 0;                 ///< work
  std::set<std::uint32_t> begins_, ends_;  // actions
};

}  // namespace

Schedule with_expert_parallel(Schedule schedule, const ExpertParallel& experts) {
  return Dispatcher(std::move(schedule), experts).insert();
}

}  // namespace shardscope
