#include "core/pipeline/program.h"

#include <map>

#include "core/pipeline/pipeline_schedule.h"

namespace shardscope {
namespace {

/// A lowered order as instructions.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(const std::vector<int>& rank_of_stage) : rank_of_stage_(rank_of_stage) {}

  PipelineProgram built(const ActionOrder& order) && {
    for (const ActionSlot& slot : order)
      for (const Action& action : slot.actions()) add(action);
    return std::move(program_);
  }

 private:
  void add(const Action& action) {
    if (is_send(action.kind) || is_receive(action.kind)) return post(action);
    if (is_wait_send(action.kind)) return wait(send_of(action));
    if (action.kind == ActionKind::forward)
      wait({ActionKind::receive_forward, action.stage, action.micro_batch});
    if (is_input_backward(action.kind))
      wait({ActionKind::receive_backward, action.stage, action.micro_batch});
    program_.push_back({.kind = InstructionKind::act, .action = action, .transfers = {}});
  }

  void post(const Action& action) {
    posted_[action] = program_.size();
    const int peer = rank_of_stage_[static_cast<std::size_t>(peer_stage(action))];
    program_.push_back(
        {.kind = InstructionKind::post, .action = {}, .transfers = {{action, peer}}});
  }

  /// Of nothing where the neighbour is on the same rank.
  void wait(const Action& transfer) {
    const auto posted = posted_.find(transfer);
    if (posted == posted_.end()) return;
    program_.push_back(
        {.kind = InstructionKind::wait, .action = {}, .transfers = {}, .posted = posted->second});
  }

  const std::vector<int>& rank_of_stage_;
  PipelineProgram program_;
  std::map<Action, std::size_t> posted_;  ///< instruction
};

}  // namespace

std::vector<PipelineProgram> pipeline_programs(const PipelineSetup& setup) {
  std::vector<PipelineProgram> programs;
  if (has_single_stage(setup.kind)) {
    check_counts(setup);
    for (int rank = 0; rank < setup.ranks; ++rank)
      programs.push_back(single_stage_program(setup, rank));
    return programs;
  }
  const std::vector<int> rank_of_stage = rank_of_stages(setup);
  for (const ActionOrder& order : lowered_schedule(setup).lowered)
    programs.push_back(ProgramBuilder(rank_of_stage).built(order));
  return programs;
}

}  // namespace shardscope
