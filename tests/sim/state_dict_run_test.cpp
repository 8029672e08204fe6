// State dicts saved and loaded after training under configuration files of accelerate: what is
// allocated before, at the peak and after, against the real library on a CUDA device that computes
// nothing (tests/data/accelerate_runs/record.py).
#include <gtest/gtest.h>

#include <vector>

#include "core/pytorch/runtimes/fsdp1/state_dict.h"
#include "core/pytorch/runtimes/fsdp2/state_dict.h"
#include "core/pytorch/runtimes/training/fsdp1_model.h"
#include "core/pytorch/runtimes/training/fsdp2_model.h"
#include "core/pytorch/runtimes/training/recorded_schedule.h"
#include "sim/engine/program_player.h"
#include "tests/sim/accelerate_run.h"

namespace shardscope {
namespace {

using testing::AllocatorFigures;

struct Row {
  AllocatorFigures before, peak, after;
  bool operator==(const Row&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << "\n  before " << row.before << "\n  peak " << row.peak << "\n  after " << row.after;
}

bool says(const JsonValue& action, const char* key) {
  const auto value = action.find(key);
  return value && value->boolean();
}

/// One action of a recording under FSDP1: a save, and perhaps a load of it.
class Fsdp1Action {
 public:
  Fsdp1Action(eager::Session& s, eager::TrainingRun& run, const JsonValue& action)
      : s_(s), model_(dynamic_cast<eager::Fsdp1Model&>(run.model()).sharded()) {
    const std::string type = action.at("type").string();
    using Type = eager::fsdp1::StateDictType;
    options_ = {.type = type == "full"    ? Type::full
                        : type == "local" ? Type::local
                                          : Type::sharded,
                .rank0_only = says(action, "rank0_only"),
                .offload_to_cpu = says(action, "offload")};
  }
  void save() { saved_ = eager::fsdp1::state_dict(s_, model_, options_); }
  void load() { eager::fsdp1::load_state_dict(s_, model_, saved_, options_.type); }

 private:
  eager::Session& s_;
  eager::fsdp1::FullySharded& model_;
  eager::fsdp1::StateDictOptions options_;
  eager::fsdp1::StateDict saved_;
};

class Fsdp2Action {
 public:
  Fsdp2Action(eager::Session& s, eager::TrainingRun& run, const JsonValue& action)
      : s_(s), run_(run), model_(dynamic_cast<eager::Fsdp2Model&>(run.model()).sharded()) {
    options_ = {.full_state_dict = action.at("type").string() == "full",
                .cpu_offload = says(action, "offload"),
                .broadcast_from_rank0 = says(action, "broadcast")};
  }
  void save() {
    saved_ = eager::fsdp2::get_model_state_dict(s_, model_, run_.model().module(), options_);
  }
  void load() {
    eager::fsdp2::set_model_state_dict(s_, model_, run_.model().module(), run_.groups().world(),
                                       saved_, options_);
  }

 private:
  eager::Session& s_;
  eager::TrainingRun& run_;
  eager::fsdp2::FullySharded& model_;
  eager::fsdp2::StateDictOptions options_;
  eager::fsdp2::StateDict saved_;
};

/// Saves and loads as further steps; what was saved goes between the last of them and the next.
template <typename Action>
void act(eager::ScheduleRecorder& recorder, Action action, bool loads) {
  recorder.begin_step("save");
  action.save();
  recorder.end_step();
  if (!loads) return;
  recorder.begin_step("load");
  action.load();
  recorder.end_step();
}

/// The optimizer's state, which the caller drops when it was looked at.
void save_optimizer(eager::ScheduleRecorder& recorder, eager::Session& session,
                    eager::TrainingRun& run, bool offload) {
  recorder.begin_step("save");
  const auto saved = run.model().full_optimizer_state(session, run.loop().optimizer(), offload);
  recorder.end_step();
}

Schedule with_state_dicts(const JsonValue& row) {
  const testing::AccelerateRun given = testing::accelerate_run(row);
  eager::ScheduleRecorder recorder;
  eager::Session session(given.setup.session);
  session.observe(recorder);
  eager::TrainingRun run(session, given.model, given.config, given.setup);
  eager::record_steps(recorder, run);
  for (const JsonValue& action : row.at("state_dicts").elements())
    if (action.find("of"))
      save_optimizer(recorder, session, run, says(action, "offload"));
    else if (dynamic_cast<eager::Fsdp1Model*>(&run.model()) != nullptr)
      act(recorder, Fsdp1Action(session, run, action), says(action, "load"));
    else
      act(recorder, Fsdp2Action(session, run, action), says(action, "load"));
  return recorder.finish();
}

AllocatorFigures current(const AllocatorStatistics& s) {
  return {s.allocated_bytes.current, s.active_bytes.current, s.reserved_bytes.current};
}

std::vector<Row> played(const JsonValue& row) {
  const Schedule schedule = with_state_dicts(row);
  InstantDevice device;
  CachingAllocator allocator({}, {.total = Bytes{80LL << 30}}, device);
  ProgramPlayer player({.schedule = schedule, .allocator = &allocator, .device = device});
  std::vector<Row> rows;
  for (const Step& step : schedule.steps) {
    if (step.label != "save" && step.label != "load") continue;
    player.play_until(step.actions.begin);
    const AllocatorFigures before = current(allocator.statistics());
    allocator.reset_peaks();
    player.play_until(step.actions.end);
    const AllocatorStatistics& s = allocator.statistics();
    rows.push_back(
        {before, {s.allocated_bytes.peak, s.active_bytes.peak, s.reserved_bytes.peak}, current(s)});
  }
  return rows;
}

std::vector<Row> expected(const JsonValue& row) {
  std::vector<Row> rows;
  for (const JsonValue& one : row.at("recorded").at("state_dicts").elements())
    rows.push_back({testing::figures_of(one.at("before")), testing::figures_of(one.at("peak")),
                    testing::figures_of(one.at("after"))});
  return rows;
}

TEST(StateDictRun, AllocatesWhatTheRealLibraryDoes) {
  for (const auto& [name, row] : testing::accelerate_recording("recorded_state.json").members()) {
    SCOPED_TRACE(name);
    const std::vector<Row> got = played(row), wanted = expected(row);
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], wanted[i]) << "row " << i;
  }
}

}  // namespace
}  // namespace shardscope
