#include "tests/gui/snapshot_scenarios.h"

#include <memory>

namespace shardscope::testing {
namespace {

constexpr std::int64_t begin_us = 1'000'000;

void add(SnapshotEvents& events, SnapshotAction action, std::int64_t after_us, std::int64_t address,
         std::int64_t size) {
  events.time_us.push_back(begin_us + after_us);
  events.address.push_back(address);
  events.size.push_back(size);
  events.stream.push_back(0);
  events.stack.push_back(1);
  events.context.push_back(no_name);
  events.note.push_back(no_name);
  events.category.push_back(no_name);
  events.pool.push_back(no_name);
  events.action.push_back(action);
}

SnapshotBlock block(std::int64_t address, std::int64_t size, std::int64_t requested,
                    SnapshotBlockState state) {
  return {.address = address,
          .size = {size},
          .requested = {requested},
          .state = state,
          .stack = state == SnapshotBlockState::inactive ? no_stack : 1};
}

}  // namespace

MemorySnapshot small_snapshot(const std::string& file, std::int64_t kept) {
  MemorySnapshot snapshot{.file = file};
  snapshot.names = {"/x/site-packages/torch/nn/functional.py", "linear", "/home/me/model.py",
                    "forward", "small"};
  snapshot.frames = {{.name = 1, .file = 0, .line = 5}, {.name = 3, .file = 2, .line = 12}};
  snapshot.stack_frames = {0, 1};
  snapshot.stack_begins = {0, 0, 2};
  snapshot.streams = {0};
  snapshot.segments = {
      {.device = 0, .address = 0x1000, .total = {4096}, .type = 4, .block_count = 3}};
  snapshot.blocks = {block(0x1000, 1024, 1000, SnapshotBlockState::active_allocated),
                     block(0x1400, 1024, 0, SnapshotBlockState::inactive),
                     block(0x1800, 2048, kept, SnapshotBlockState::active_allocated)};
  SnapshotEvents& events = snapshot.events.emplace_back();
  add(events, SnapshotAction::alloc, 0, 0x1000, 1000);
  add(events, SnapshotAction::alloc, 10, 0x1400, 1000);
  add(events, SnapshotAction::free_requested, 30, 0x1400, 1000);
  add(events, SnapshotAction::free_completed, 31, 0x1400, 1000);
  add(events, SnapshotAction::alloc, 40, 0x1800, kept);
  return snapshot;
}

gui::ScenarioPointer snapshot_scenario(const std::string& label, std::int64_t kept) {
  auto scenario = std::make_shared<gui::Scenario>();
  scenario->label = label;
  scenario->path = "runs/" + label;
  scenario->profiled = gui::Side{.kind = gui::SideKind::profiled};
  scenario->profiled->snapshots = {
      std::make_shared<const MemorySnapshot>(small_snapshot(label + ".pickle", kept))};
  return scenario;
}

}  // namespace shardscope::testing
