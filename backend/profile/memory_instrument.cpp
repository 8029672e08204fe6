#include "backend/profile/memory_instrument.h"

#include <algorithm>
#include <utility>

#include "backend/executor/resident_memory.h"
#include "backend/executor/step_recorder.h"

namespace shardscope {
namespace {

constexpr std::string_view arena_owner = "arena";
constexpr std::string_view heap_owner = "heap and stacks";

std::vector<MemoryHolder> host_holders(const Executor& executor) {
  const bool has_arena = executor.device_memory().is_host();
  std::vector<MemoryHolder> holders =
      holders_of(own_mappings(), has_arena ? executor.arena() : std::span<const std::byte>());
  for (MemoryHolder& holder : holders) {
    if (holder.owner == heap_owner) holder.recorded = heap_in_use();
  }
  return holders;
}

std::vector<MemoryHolder> device_holders(const Executor& executor,
                                         const std::vector<MemoryMark>& marks) {
  const std::optional<Bytes> now = executor.device_memory().in_use();
  return now ? holders_of(marks, *now) : std::vector<MemoryHolder>();
}

}  // namespace

std::vector<MemoryHolder> holders_of(const std::vector<MemoryMark>& marks, Bytes now) {
  std::vector<MemoryHolder> holders;
  Bytes before;
  const auto add = [&](const std::string& owner, Bytes in_use) {
    if (in_use != before) {
      MemoryHolder& holder = holders.emplace_back();
      holder.owner = owner;
      holder.place = MemoryHolder::Place::device;
      holder.held = in_use - before;
    }
    before = in_use;
  };
  for (const MemoryMark& mark : marks) add(mark.owner, mark.in_use);
  if (!marks.empty())
    add("since then: connections of the communicator, code loaded late, other processes", now);
  return holders;
}

MemoryInstrument::MemoryInstrument(const Executor& executor, std::vector<MemoryMark> before)
    : executor_(executor), marks_(std::move(before)) {
  marks_.insert(marks_.end(), executor.memory_marks().begin(), executor.memory_marks().end());
}

void MemoryInstrument::start() {
  samples_.clear();
  take_sample();
}

void MemoryInstrument::take_sample() {
  const std::int64_t now_ns = monotonic_ns();
  if (const std::optional<ResidentSize> size = reader_.read()) samples_.push_back({now_ns, *size});
}

void MemoryInstrument::stop() {
  holders_ = device_holders(executor_, marks_);
  std::ranges::copy(host_holders(executor_), std::back_inserter(holders_));
  for (MemoryHolder& holder : holders_) {
    if (holder.owner == arena_owner) holder.planned = executor_.arena_bytes();
  }
}

void MemoryInstrument::add_to(Trace& trace, const MeasuredWindow& window) {
  Counter all{.name = "resident_bytes", .samples = {}};
  Counter shared{.name = "resident_shared_bytes", .samples = {}};
  for (const Sample& sample : samples_) {
    // The first one is taken before the first step, where a trace's time begins.
    const Duration time{std::max<std::int64_t>(sample.time_ns - window.base_monotonic_ns, 0)};
    all.samples.push_back({.time = time, .value = sample.size.all.count});
    shared.samples.push_back({.time = time, .value = sample.size.shared.count});
  }
  trace.counters.push_back(std::move(all));
  trace.counters.push_back(std::move(shared));
  std::vector<MemoryHolder>& memory = trace.recording.memory;
  memory.insert(memory.end(), holders_.begin(), holders_.end());
}

}  // namespace shardscope
