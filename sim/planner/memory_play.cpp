#include "sim/planner/memory_play.h"

namespace shardscope::planner {
namespace {

DeviceCapacity capacity_of(const MemoryPlay::Setting& setting) {
  constexpr Bytes endless{1ll << 60};
  return {.total = setting.memory > Bytes{} ? setting.memory : endless, .outside = setting.outside};
}

bool frees(const Schedule& schedule, std::uint32_t action) {
  return schedule.program.actions[action].kind == HostActionKind::free;
}

}  // namespace

MemoryPlay::MemoryPlay(const Setting& setting)
    : session_(setting.session),
      allocator_(setting.allocator, capacity_of(setting), instant_),
      recorder_(setting.device, setting.session.device),
      player_({.schedule = recorder_.schedule(), .allocator = &allocator_, .device = instant_}) {
  session_.observe(recorder_);
  recorder_.listen(*this);
}

void MemoryPlay::catch_up() {
  recorder_.catch_up();
  on_program(recorder_.schedule());
}

void MemoryPlay::begin() {
  catch_up();
  allocator_.reset_peaks();
}

void MemoryPlay::begin_after_frees() {
  catch_up();
  frees_first_ = true;
}

void MemoryPlay::on_program(const Schedule& so_far) {
  const auto end = static_cast<std::uint32_t>(so_far.program.actions.size());
  if (frees_first_) {
    while (player_.next_action() < end && frees(so_far, player_.next_action()))
      play_until(player_.next_action() + 1);
    if (player_.next_action() == end) return;
    allocator_.reset_peaks();
    frees_first_ = false;
  }
  play_until(end);
}

void MemoryPlay::play_until(std::uint32_t end) {
  if (!failed() && !player_.play_until(end)) throw OutOfMemoryStop();
}

}  // namespace shardscope::planner
