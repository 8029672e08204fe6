#include "backend/watch/flight_recorder.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace shardscope {
namespace {

/// Of texts in an entry, so that they never allocate.
constexpr std::size_t longest_text = 120;

void keep(std::string& text, std::string_view value) { text.assign(value.substr(0, longest_text)); }

/// Of three or more ranks that lie equally far apart; else 0.
int stride_of(const std::vector<int>& ranks) {
  if (ranks.size() < 3) return 0;
  const int stride = ranks[1] - ranks[0];
  for (std::size_t i = 1; i < ranks.size(); ++i)
    if (ranks[i] - ranks[i - 1] != stride) return 0;
  return stride;
}

/// Ready to be announced or called.
void renew(FlightEntry& entry, std::uint64_t sequence) {
  entry.sequence = sequence;
  entry.operation.clear();
  entry.unit.clear();
  entry.group.clear();
  entry.call = 0;
  entry.peer = -1;
  entry.bytes = {};
  entry.dtype.reset();
  entry.state = FlightState::scheduled;
  entry.scheduled = steady_now();
  entry.started = entry.completed = {};
}

}  // namespace

const char* name_of(FlightState state) {
  constexpr std::array names{"scheduled", "started", "completed"};
  return names[static_cast<std::size_t>(state)];
}

Duration steady_now() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count()};
}

std::string rank_ranges(const std::vector<int>& ranks) {
  if (const int stride = stride_of(ranks); stride > 1)
    return fmt::format("{}-{}:{}", ranks.front(), ranks.back(), stride);
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", ranks[i]);
    if (last > i) text += fmt::format("{}{}", last == i + 1 ? "," : "-", ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string text_of(const FlightEntry& entry) {
  std::string text = fmt::format("{} of {} B", entry.operation, entry.bytes.count);
  if (entry.dtype) text += fmt::format(", {}", name_of(*entry.dtype));
  if (!entry.unit.empty()) text += ", unit " + entry.unit;
  if (entry.peer >= 0) return text + fmt::format(", with rank {}", entry.peer);
  return text + fmt::format(", call {} of ranks {}", entry.call, entry.group);
}

const FlightEntry* FlightSnapshot::under_way() const {
  const auto found = std::ranges::find(entries, FlightState::started, &FlightEntry::state);
  return found == entries.end() ? nullptr : &*found;
}

const FlightEntry* FlightSnapshot::last_completed() const {
  const FlightEntry* last = nullptr;
  for (const FlightEntry& entry : entries)
    if (entry.state == FlightState::completed) last = &entry;
  return last;
}

FlightRecorder::FlightRecorder(std::size_t capacity) : ring_(std::max<std::size_t>(capacity, 1)) {
  for (FlightEntry& entry : ring_)
    for (std::string* text : {&entry.operation, &entry.unit, &entry.group})
      text->reserve(longest_text);
}

std::size_t FlightRecorder::add_group(std::vector<int> ranks) {
  const std::lock_guard lock(mutex_);
  const auto same = std::ranges::count(groups_, ranks, &FlightSnapshot::Group::ranks);
  std::string name = rank_ranges(ranks);
  if (same > 0) name += fmt::format("#{}", same + 1);
  groups_.push_back({.name = std::move(name), .ranks = std::move(ranks), .calls = 0});
  return groups_.size() - 1;
}

FlightEntry& FlightRecorder::slot(std::uint64_t sequence) { return ring_[sequence % ring_.size()]; }
const FlightEntry& FlightRecorder::slot(std::uint64_t sequence) const {
  return ring_[sequence % ring_.size()];
}

FlightEntry* FlightRecorder::find(std::uint64_t sequence) {
  FlightEntry& entry = slot(sequence);
  return entry.sequence == sequence ? &entry : nullptr;
}

void FlightRecorder::announce(const PlannedCollective& planned, std::size_t group) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t sequence = ++announced_;
  // So far ahead that one which was not yet called would be lost: this one will be told of when it
  // is called.
  if (sequence - called_ > ring_.size()) return;
  FlightEntry& entry = slot(sequence);
  renew(entry, sequence);
  keep(entry.operation, planned.operation);
  keep(entry.unit, planned.unit);
  keep(entry.group, groups_[group].name);
  entry.bytes = planned.bytes;
  entry.dtype = planned.dtype;
}

std::uint64_t FlightRecorder::call(const Call& made) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t sequence = ++called_;
  announced_ = std::max(announced_, sequence);
  FlightEntry& entry = slot(sequence);
  if (entry.sequence != sequence) renew(entry, sequence);
  keep(entry.operation, made.operation);
  FlightSnapshot::Group& group = groups_[made.group];
  keep(entry.group, group.name);
  entry.peer = made.peer;
  if (made.peer < 0) entry.call = ++group.calls;
  entry.bytes = made.bytes;
  if (made.dtype) entry.dtype = made.dtype;
  return sequence;
}

void FlightRecorder::start(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  FlightEntry* entry = find(sequence);
  if (entry == nullptr || entry->state != FlightState::scheduled) return;
  entry->state = FlightState::started;
  entry->started = steady_now();
}

void FlightRecorder::complete(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  FlightEntry* entry = find(sequence);
  if (entry == nullptr || entry->state == FlightState::completed) return;
  entry->state = FlightState::completed;
  entry->completed = steady_now();
  if (entry->started.ns == 0) entry->started = entry->completed;
  while (completed_ < called_ && (slot(completed_ + 1).sequence != completed_ + 1 ||
                                  slot(completed_ + 1).state == FlightState::completed))
    ++completed_;
}

std::optional<Duration> FlightRecorder::under_way_since() const {
  const std::lock_guard lock(mutex_);
  for (std::uint64_t sequence = completed_ + 1; sequence <= called_; ++sequence) {
    const FlightEntry& entry = slot(sequence);
    if (entry.sequence == sequence && entry.state == FlightState::started) return entry.started;
  }
  return std::nullopt;
}

FlightSnapshot FlightRecorder::snapshot() const {
  const std::lock_guard lock(mutex_);
  FlightSnapshot taken{.entries = {}, .groups = groups_};
  for (const FlightEntry& entry : ring_)
    if (entry.sequence != 0) taken.entries.push_back(entry);
  std::ranges::sort(taken.entries, {}, &FlightEntry::sequence);
  return taken;
}

}  // namespace shardscope
