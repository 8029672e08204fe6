#include "sim/engine/program_player.h"

#include <algorithm>
#include <utility>

#include "core/schedule/private_pool.h"

namespace shardscope {

MemoryMoment ProgramPlayer::figures() const {
  const AllocatorStatistics& now = setting_.allocator->statistics();
  return {.allocated = live_,
          .active = {now.active_bytes.current},
          .reserved = {now.reserved_bytes.current}};
}

bool ProgramPlayer::play_until(std::uint32_t end) {
  const HostProgram& program = setting_.schedule.program;
  blocks_.resize(setting_.schedule.buffers.size());
  block_bytes_.resize(blocks_.size());
  events_.resize(program.events);
  while (next_ < end && !failed_) act(program.actions[next_++]);
  return !failed_;
}

void ProgramPlayer::unwind() {
  const auto& actions = setting_.schedule.program.actions;
  blocks_.resize(setting_.schedule.buffers.size());
  for (; next_ < actions.size(); ++next_)
    if (actions[next_].kind == HostActionKind::free) free(actions[next_]);
}

DeviceStream ProgramPlayer::stream(std::uint8_t lane) {
  const std::vector<Lane>& lanes = setting_.schedule.program.lanes;
  while (streams_.size() <= lane)
    streams_.push_back(device_stream(lanes[streams_.size()], streams_.size()));
  return streams_[lane];
}

void ProgramPlayer::act(const HostAction& action) {
  DeviceEvents& device = setting_.device;
  switch (action.kind) {
    case HostActionKind::launch:
      launched_ = OperationId{action.subject};
      return device.launch(stream(action.lane), launched_);
    case HostActionKind::run:
      launched_ = OperationId{action.subject};
      return device.run(stream(action.lane), launched_);
    case HostActionKind::dispatch:
      return device.dispatch(1);
    case HostActionKind::hook:
      return device.hook();
    case HostActionKind::allocate:
      return allocate(action);
    case HostActionKind::free:
      return free(action);
    case HostActionKind::record_stream:
      if (const auto& block = blocks_[action.subject])
        setting_.allocator->record_stream(*block, stream(action.lane));
      return;
    case HostActionKind::record_event:
      events_[action.subject] = device.record(stream(action.lane));
      return;
    case HostActionKind::wait_event:
      return device.stream_waits(stream(action.lane), events_[action.subject]);
    case HostActionKind::host_wait:
      return device.wait(events_[action.subject]);
    case HostActionKind::host_sync:
      return device.wait(stream(action.lane));
    case HostActionKind::empty_cache:
      if (setting_.allocator != nullptr)
        setting_.allocator->empty_cache(static_cast<std::uint16_t>(action.subject));
      return;
    case HostActionKind::mark:
      return pass(setting_.schedule.program.marks[action.subject]);
    case HostActionKind::repeat:
      repetition_ = {.begin = next_, .left = action.subject};
      return;
    case HostActionKind::again:
      if (--repetition_.left > 0) do_again();
      return;
  }
}

void ProgramPlayer::pass(const HostMark& mark) {
  if (setting_.schedule.names[mark.what] == private_pool_mark)
    memory_pool_ = static_cast<std::uint16_t>(mark.number);
}

void ProgramPlayer::allocate(const HostAction& action) {
  if (setting_.allocator == nullptr) return;
  const Buffer& buffer = setting_.schedule.buffers[action.subject];
  turn(true);
  const auto block =
      setting_.allocator->allocate(buffer.copy_bytes(), stream(action.lane), memory_pool_);
  if (!block) return fail(action);
  const std::int64_t bytes = setting_.allocator->size_of(*block).count;
  if (buffer.copies > 1)
    copies_[action.subject].blocks.push_back(*block);
  else
    blocks_[action.subject] = block;
  block_bytes_[action.subject] = bytes;
  live_[buffer.category].count += bytes;
}

void ProgramPlayer::free(const HostAction& action) {
  const Buffer& buffer = setting_.schedule.buffers[action.subject];
  if (buffer.copies > 1) return free_copies(action.subject);
  const auto block = std::exchange(blocks_[action.subject], std::nullopt);
  if (!block) return;
  turn(false);
  setting_.allocator->free(*block);
  live_[buffer.category].count -= block_bytes_[action.subject];
}

/// What is left of a repetition: at once where that is the same, else once more. The first time is
/// always by itself, so that a turn between rising and falling is seen where it is.
void ProgramPlayer::do_again() {
  const Body each = body();
  const bool at_once = each.only_one_way && (each.freed.empty() ? allocate_rest(each.allocations)
                                                                : free_rest(each.freed));
  if (!at_once) {
    next_ = repetition_.begin;
    return;
  }
  setting_.device.dispatch(each.dispatches * repetition_.left);
  repetition_.left = 0;
}

ProgramPlayer::Body ProgramPlayer::body() const {
  Body result;
  for (std::uint32_t i = repetition_.begin; i + 1 < next_; ++i) {
    const HostAction& action = setting_.schedule.program.actions[i];
    if (action.kind == HostActionKind::dispatch)
      ++result.dispatches;
    else if (action.kind == HostActionKind::free)
      result.freed.push_back(action.subject);
    else if (action.kind == HostActionKind::allocate)
      result.allocations.push_back(action);
    else
      result.only_one_way = false;
  }
  if (!result.freed.empty() && !result.allocations.empty()) result.only_one_way = false;
  return result;
}

bool ProgramPlayer::allocate_rest(const std::vector<HostAction>& allocations) {
  if (setting_.allocator == nullptr || allocations.empty()) return true;
  Alike alike{.buffers = {}, .times = repetition_.left, .runs = {}};
  std::vector<Bytes> requests;
  for (const HostAction& action : allocations) {
    if (action.lane != allocations.front().lane) return false;
    alike.buffers.push_back(action.subject);
    requests.push_back(setting_.schedule.buffers[action.subject].copy_bytes());
  }
  alike.runs = setting_.allocator->allocate_alike(requests, repetition_.left,
                                                  stream(allocations.front().lane));
  if (alike.runs.empty()) return false;
  for (const std::uint32_t buffer : alike.buffers)
    live_[setting_.schedule.buffers[buffer].category].count += block_bytes_[buffer] * alike.times;
  alike_.push_back(std::move(alike));
  return true;
}

bool ProgramPlayer::free_rest(const std::vector<std::uint32_t>& buffers) {
  if (setting_.allocator == nullptr) return true;
  const auto alike = std::ranges::find(alike_, buffers, &Alike::buffers);
  if (alike == alike_.end() || alike->times != repetition_.left) return false;
  if (std::ranges::any_of(buffers, [&](std::uint32_t b) { return copies_.contains(b); }))
    return false;
  for (const auto& run : alike->runs) setting_.allocator->free_run(run);
  for (const std::uint32_t buffer : buffers)
    live_[setting_.schedule.buffers[buffer].category].count -= block_bytes_[buffer] * alike->times;
  alike_.erase(alike);
  return true;
}

/// Copies of a buffer that were allocated at once become blocks of their own.
void ProgramPlayer::take_apart(std::uint32_t buffer) {
  const auto alike = std::ranges::find_if(alike_, [&](const Alike& one) {
    return std::ranges::find(one.buffers, buffer) != one.buffers.end();
  });
  if (alike == alike_.end()) return;
  std::size_t turn = 0;
  for (const auto& run : alike->runs) {
    std::vector<Bytes> requested;
    for (std::size_t i = 0; i < static_cast<std::size_t>(run.blocks); ++i)
      requested.push_back(
          setting_.schedule.buffers[alike->buffers[(turn + i) % alike->buffers.size()]]
              .copy_bytes());
    for (const MemoryBlockId block : setting_.allocator->cut_run(run, requested))
      copies_[alike->buffers[turn++ % alike->buffers.size()]].blocks.push_back(block);
  }
  alike_.erase(alike);
}

/// One each time where that is repeated, else all there are.
void ProgramPlayer::free_copies(std::uint32_t buffer) {
  if (repetition_.left == 0 || !copies_.contains(buffer)) take_apart(buffer);
  const auto found = copies_.find(buffer);
  if (found == copies_.end()) return;
  turn(false);
  Copies& copies = found->second;
  const std::size_t end = repetition_.left > 0 ? copies.freed + 1 : copies.blocks.size();
  for (; copies.freed < end; ++copies.freed) {
    setting_.allocator->free(copies.blocks[copies.freed]);
    live_[setting_.schedule.buffers[buffer].category].count -= block_bytes_[buffer];
  }
  if (copies.freed == copies.blocks.size()) copies_.erase(found);
}

void ProgramPlayer::turn(bool rises) {
  if (std::exchange(rising_, rises) != rises && watcher_ != nullptr)
    watcher_->on_turn(figures(), launched_);
}

/// The operator that asked lets go of what it has got since the last one was issued.
void ProgramPlayer::fail(const HostAction& action) {
  const auto& actions = setting_.schedule.program.actions;
  const std::uint32_t at = next_ - 1;
  failed_ = {
      .action = at, .buffer = BufferId{action.subject}, .failure = *setting_.allocator->failure()};
  for (std::uint32_t i = at; i-- > 0 && actions[i].kind == HostActionKind::allocate;)
    free(actions[i]);
}

}  // namespace shardscope
