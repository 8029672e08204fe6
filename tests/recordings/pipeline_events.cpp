#include "tests/recordings/pipeline_events.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

constexpr int elements = 12;  // the recorder's micro-batches are two rows of six

Json transfer_event(bool sends, std::int64_t numel, const char* dtype, int peer) {
  return {{"ev", sends ? "send" : "recv"}, {"numel", numel}, {"dtype", dtype}, {"peer", peer}};
}

/// The step events of one rank.
class RankEvents {
 public:
  explicit RankEvents(const PipelineSetup& setup) : setup_(setup) {}

  std::vector<Json> of(const PipelineProgram& program) {
    for (const PipelineInstruction& instruction : program) {
      if (instruction.kind == InstructionKind::act) act(instruction.action);
      if (instruction.kind == InstructionKind::post) post(instruction);
      if (instruction.kind == InstructionKind::wait)
        add({{"ev", "wait_p2p"}, {"works", program[instruction.posted].transfers.size()}});
    }
    return std::move(events_);
  }

 private:
  /// GPipe and 1F1B name what they post; 1F1B names the place in its loop, whatever the first and
  /// the last stage leave out there.
  Json described(const PipelineInstruction& posted) const {
    if (!has_single_stage(setup_.kind)) return nullptr;
    std::string text;
    for (const PipelineTransfer& transfer : posted.transfers) {
      const ActionKind kind = transfer.action.kind;
      text += text.empty() ? "" : "_";
      text += is_of_gradient(kind) ? "bwd_" : "fwd_";
      text += is_send(kind) ? "send" : "recv";
    }
    return text;
  }

  void add(Json event) { events_.push_back(std::move(event)); }

  void post(const PipelineInstruction& posted) {
    Json ops = Json::array();
    for (const PipelineTransfer& transfer : posted.transfers) {
      const char* const name = is_send(transfer.action.kind) ? "isend" : "irecv";
      ops.push_back(Json::array({name, transfer.peer, elements}));
    }
    add({{"ev", "batch_p2p"}, {"desc", described(posted)}, {"ops", ops}});
    for (const PipelineTransfer& transfer : posted.transfers)
      add(transfer_event(is_send(transfer.action.kind), elements, "float32", transfer.peer));
  }

  void act(const Action& action) {
    switch (action.kind) {
      case ActionKind::forward:
        return chunk("forward", action, Json::object());
      case ActionKind::full_backward:
      case ActionKind::backward_input: {
        const bool full = action.kind == ActionKind::full_backward;
        const bool last = full && ++backwards_[action.stage] == setup_.micro_batches;
        return chunk("backward", action, {{"full", full}, {"last_backward", last}});
      }
      case ActionKind::backward_weight:
        ++backwards_[action.stage];
        return chunk("backward_weight", action, Json::object());
      case ActionKind::reduce_grad:
        return add({{"ev", "reduce_grad"}, {"stage", action.stage}});
      default:
        return;  // the stages are not sharded
    }
  }

  void chunk(const std::string& name, const Action& action, const Json& more) {
    Json event{{"ev", name + "_begin"}, {"stage", action.stage}, {"mb", action.micro_batch}};
    event.update(more);
    add(std::move(event));
    add({{"ev", name + "_end"}, {"stage", action.stage}, {"mb", action.micro_batch}});
  }

  const PipelineSetup& setup_;
  std::vector<Json> events_;
  std::map<int, int> backwards_;  ///< whole ones, by stage
};

/// Before the first step: a vote on whether shapes are known, an element over each edge between
/// ranks to connect them, and shapes forward and backward through the stages.
class SetUp {
 public:
  SetUp(const PipelineSetup& setup, int rank)
      : stages_(setup.stages()), rank_(rank), rank_of_stage_(rank_of_stages(setup)) {}

  std::vector<Json> events() && {
    if (!any_edge()) return {};
    vote();
    connect();
    for (int stage = 0; stage < stages_; ++stage) {
      if (!is_here(stage)) continue;
      if (stage > 0) object(false, stage - 1);
      if (stage + 1 < stages_) object(true, stage + 1);
    }
    for (int stage = stages_ - 1; stage >= 0; --stage) {
      if (!is_here(stage)) continue;
      if (stage + 1 < stages_) object(false, stage + 1);
      if (stage > 0) object(true, stage - 1);
    }
    return std::move(events_);
  }

 private:
  int rank_of(int stage) const { return rank_of_stage_[static_cast<std::size_t>(stage)]; }
  bool is_here(int stage) const { return rank_of(stage) == rank_; }
  bool any_edge() const {
    return std::adjacent_find(rank_of_stage_.begin(), rank_of_stage_.end(),
                              std::not_equal_to<>()) != rank_of_stage_.end();
  }
  void vote() { events_.push_back({{"ev", "allreduce"}, {"numel", 1}, {"dtype", "int32"}}); }
  /// Pairs of ranks that meet, lower rank first, in rounds of which each takes all pairs that do
  /// not share a rank.
  void connect() {
    std::set<std::pair<int, int>> pairs;
    for (int stage = 1; stage < stages_; ++stage)
      if (rank_of(stage) != rank_of(stage - 1))
        pairs.insert(std::minmax({rank_of(stage - 1), rank_of(stage)}));
    while (!pairs.empty()) {
      std::set<int> used;
      for (auto pair = pairs.begin(); pair != pairs.end();) {
        if (used.contains(pair->first) || used.contains(pair->second)) {
          ++pair;
          continue;
        }
        used.insert({pair->first, pair->second});
        if (pair->first == rank_) events_.push_back(transfer_event(true, 1, "int32", pair->second));
        if (pair->second == rank_)
          events_.push_back(transfer_event(false, 1, "int32", pair->first));
        pair = pairs.erase(pair);
      }
      vote();
    }
  }
  /// A pickled object goes as its size and its bytes, to another rank.
  void object(bool sends, int other_stage) {
    if (is_here(other_stage)) return;
    events_.push_back(transfer_event(sends, 1, "int64", rank_of(other_stage)));
    events_.push_back(transfer_event(sends, 0, "uint8", rank_of(other_stage)));
  }

  int stages_, rank_;
  std::vector<int> rank_of_stage_;
  std::vector<Json> events_;
};

}  // namespace

Json executed_of(const PipelineProgram& program) {
  Json executed = Json::array();
  for (const PipelineInstruction& instruction : program)
    if (instruction.kind == InstructionKind::act && is_compute(instruction.action.kind))
      executed.push_back(text_of(instruction.action));
  return executed;
}

Json run_events(const PipelineSetup& setup, const std::vector<PipelineProgram>& programs,
                int steps) {
  Json events = Json::array();
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const int rank = static_cast<int>(i);
    for (int step = 0; step < steps; ++step) {
      std::vector<Json> of_step;
      if (step == 0) of_step = SetUp(setup, rank).events();
      const std::vector<Json> training = RankEvents(setup).of(programs[i]);
      of_step.insert(of_step.end(), training.begin(), training.end());
      for (const Json& event : of_step) {
        Json row{{"rank", rank}, {"step", step}};
        row.update(event);
        events.push_back(std::move(row));
      }
    }
  }
  return events;
}

}  // namespace shardscope::recordings
