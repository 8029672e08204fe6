#include "gui/data/live_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "gui/data/predicted_place.h"
#include "traces/import/snapshot_categories.h"
#include "traces/import/snapshot_replay.h"

namespace shardscope::gui {
namespace {

using Kind = MemorySource::Kind;

void sort_by_size(std::vector<LiveBuffer>& buffers) {
  std::sort(buffers.begin(), buffers.end(), [](const LiveBuffer& a, const LiveBuffer& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.key < b.key;
  });
}

BandBytes sums_of(const std::vector<LiveBuffer>& buffers) {
  BandBytes sums;
  for (const LiveBuffer& buffer : buffers) sums[buffer.band] += buffer.bytes;
  return sums;
}

/// The prediction whose buffers the source's operations speak of; null: there is none.
const Side* schedule_of(const Scenario& scenario, const MemorySource& source) {
  if (source.kind != Kind::rank || !scenario.predicted) return nullptr;
  const Side* side = scenario.side(source.side);
  const bool is_import = side == nullptr || !side->imported.empty();
  if (is_import || scenario.predicted->buffers.empty()) return nullptr;
  // Of a pipeline they are the first stage's.
  if (scenario.predicted->ranks.size() < 2) return &*scenario.predicted;
  const std::size_t stage =
      source.side == SideKind::predicted ? source.index : predicted_place(scenario, source.index);
  return stage == 0 ? &*scenario.predicted : nullptr;
}

/// When an operation's buffers count: what it frees is freed when it has ended, so that before the
/// next one allocates there is a moment without.
enum class Moment : std::uint8_t { during, after };

bool is_alive(const PredictedBuffer& buffer, OperationId operation, Moment moment) {
  if (buffer.allocated_by && buffer.allocated_by > operation) return false;
  if (!buffer.freed_by) return true;
  return moment == Moment::during ? buffer.freed_by >= operation : buffer.freed_by > operation;
}

std::vector<std::uint32_t> alive(const std::vector<PredictedBuffer>& buffers, OperationId operation,
                                 Moment moment) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t i = 0; i < buffers.size(); ++i) {
    const bool rests = !operation && !buffers[i].allocated_by;
    if (rests || (operation && is_alive(buffers[i], operation, moment))) result.push_back(i);
  }
  return result;
}

Bytes distance(const std::vector<PredictedBuffer>& buffers, const std::vector<std::uint32_t>& alive,
               const BandBytes& held) {
  BandBytes left = held;
  for (const std::uint32_t i : alive)
    left[static_cast<std::size_t>(buffers[i].category)] -= buffers[i].bytes;
  Bytes sum;
  for (const Bytes bytes : left.by) sum += Bytes{std::abs(bytes.count)};
  return sum;
}

/// Samples of a caching allocator stand at turns, before or after an operation frees: whichever is
/// nearer to what is held.
std::vector<std::uint32_t> alive_at(const std::vector<PredictedBuffer>& buffers,
                                    const MemoryLevel& level) {
  auto during = alive(buffers, level.operation, Moment::during);
  if (!level.operation || distance(buffers, during, level.bytes).count == 0) return during;
  auto after = alive(buffers, level.operation, Moment::after);
  const bool is_after =
      distance(buffers, after, level.bytes) < distance(buffers, during, level.bytes);
  return is_after ? after : during;
}

std::string operation_text(const FactsTable& facts, OperationId operation, std::string_view none) {
  if (!operation) return std::string(none);
  const OperationFacts* fact = facts.find(operation);
  return fact == nullptr ? fmt::format("operation {}", operation.value)
                         : fmt::format("{} ({})", fact->name, operation.value);
}

std::vector<LiveBuffer> scheduled_buffers(const Side& predicted, const Trace& names,
                                          const MemoryLevel& level) {
  const FactsTable facts(names);
  std::vector<LiveBuffer> result;
  for (const std::uint32_t i : alive_at(predicted.buffers, level)) {
    const PredictedBuffer& buffer = predicted.buffers[i];
    result.push_back({.key = i,
                      .band = static_cast<std::size_t>(buffer.category),
                      .bytes = buffer.bytes,
                      .unit = buffer.unit,
                      .name = buffer.name,
                      .allocated_by = operation_text(facts, buffer.allocated_by, "before the step"),
                      .freed_by = operation_text(facts, buffer.freed_by, "never")});
  }
  return result;
}

std::string event_text(const SnapshotEvents& events, std::uint32_t event) {
  if (events.time_us[event] == no_time || events.time_us[0] == no_time)
    return fmt::format("event {}", event);
  return fmt::format("event {}, {:.3f} ms", event,
                     static_cast<double>(events.time_us[event] - events.time_us[0]) / 1000);
}

/// By address, the event that ends each of the blocks after `from`.
std::unordered_map<std::int64_t, std::uint32_t> ends_of(const std::vector<LiveBlock>& blocks,
                                                        const SnapshotEvents& events,
                                                        SnapshotAction completion,
                                                        std::size_t from) {
  std::unordered_set<std::int64_t> waited;
  for (const LiveBlock& block : blocks) waited.insert(block.address);
  std::unordered_map<std::int64_t, std::uint32_t> ends;
  for (std::size_t i = from; i < events.count() && !waited.empty(); ++i)
    if (events.action[i] == completion && waited.erase(events.address[i]) > 0)
      ends.emplace(events.address[i], static_cast<std::uint32_t>(i));
  return ends;
}

std::vector<LiveBuffer> snapshot_buffers(const MemorySnapshot& snapshot, std::int64_t device,
                                         const MemoryLevel& level) {
  const bool is_before = level.event == MemoryLevel::no_event;
  const std::int64_t event = is_before ? std::int64_t{-1} : std::int64_t{level.event};
  const std::vector<LiveBlock> blocks = live_blocks(snapshot, device, event);
  const SnapshotEvents none;
  const SnapshotEvents* has = snapshot.events_of(device);
  const SnapshotEvents& events = has == nullptr ? none : *has;
  const auto ends = ends_of(blocks, events, replay(snapshot, device).completion,
                            static_cast<std::size_t>(event + 1));
  BlockCategories categories(snapshot, device);
  std::unordered_map<std::uint32_t, std::string> frames;  // by stack
  constexpr std::uint64_t by_address = std::uint64_t{1} << 63;
  std::vector<LiveBuffer> result;
  for (const LiveBlock& block : blocks) {
    const auto category = categories.of(block);
    const auto end = ends.find(block.address);
    const auto [frame, is_new] = frames.try_emplace(block.stack);
    if (is_new) frame->second = innermost_telling_frame(snapshot, block.stack);
    result.push_back(
        {.key = block.event ? *block.event : by_address | static_cast<std::uint64_t>(block.address),
         .band = category ? static_cast<std::size_t>(*category) : unknown_band,
         .bytes = block.size,
         .unit = frame->second,
         .name = fmt::format("0x{:x}", block.address),
         .allocated_by = block.event ? event_text(events, *block.event) : "before the first event",
         .freed_by = end == ends.end() ? "never" : event_text(events, end->second),
         .stack = block.stack});
  }
  return result;
}

}  // namespace

bool has_buffers(const Scenario& scenario, const MemorySource& source) {
  return source.kind == Kind::snapshot || schedule_of(scenario, source) != nullptr;
}

LiveSet live_set(const Scenario& scenario, const MemorySource& source, const MemoryLevel& level) {
  LiveSet set{.held = level.bytes};
  if (source.kind == Kind::snapshot) {
    set.snapshot = scenario.side(source.side)->snapshots[source.index];
    set.buffers = snapshot_buffers(*set.snapshot, source.device, level);
  } else if (const Side* schedule = schedule_of(scenario, source)) {
    set.buffers =
        scheduled_buffers(*schedule, *scenario.side(source.side)->ranks[source.index], level);
  }
  sort_by_size(set.buffers);
  set.unlisted = set.held - sums_of(set.buffers);
  return set;
}

std::string stack_text(const LiveSet& set, const LiveBuffer& buffer) {
  constexpr std::size_t most_frames = 64;
  if (!set.snapshot) return {};
  const auto frames = set.snapshot->stack(buffer.stack);
  std::string text;
  for (const std::uint32_t frame : frames.first(std::min(frames.size(), most_frames))) {
    if (!text.empty()) text += '\n';
    text += frame_text(*set.snapshot, frame);
  }
  return text;
}

LiveChange change_between(const LiveSet& a, const LiveSet& b) {
  std::unordered_set<std::uint64_t> in_a, in_b;
  for (const LiveBuffer& buffer : a.buffers) in_a.insert(buffer.key);
  for (const LiveBuffer& buffer : b.buffers) in_b.insert(buffer.key);
  LiveChange change;
  const auto put = [](std::vector<LiveBuffer>& list, Bytes& sum, const LiveBuffer& buffer) {
    list.push_back(buffer);
    sum += buffer.bytes;
  };
  for (const LiveBuffer& buffer : a.buffers)
    if (!in_b.contains(buffer.key)) put(change.freed, change.freed_bytes, buffer);
  for (const LiveBuffer& buffer : b.buffers) {
    if (in_a.contains(buffer.key))
      put(change.common, change.common_bytes, buffer);
    else
      put(change.fresh, change.fresh_bytes, buffer);
  }
  return change;
}

std::vector<HeldByUnit> held_by_unit(const LiveSet& a, const LiveSet& b) {
  std::map<std::tuple<std::size_t, bool, std::string>, HeldByUnit> rows;
  const auto row = [&](std::size_t band, const std::string& unit, bool is_listed) -> HeldByUnit& {
    HeldByUnit& held = rows[{band, !is_listed, unit}];
    held.band = band;
    held.unit = unit;
    held.is_listed = is_listed;
    return held;
  };
  for (const LiveBuffer& buffer : a.buffers) row(buffer.band, buffer.unit, true).a += buffer.bytes;
  for (const LiveBuffer& buffer : b.buffers) row(buffer.band, buffer.unit, true).b += buffer.bytes;
  for (std::size_t band = 0; band < memory_band_count; ++band) {
    if (a.unlisted[band].count == 0 && b.unlisted[band].count == 0) continue;
    row(band, {}, false).a = a.unlisted[band];
    row(band, {}, false).b = b.unlisted[band];
  }
  std::vector<HeldByUnit> result;
  for (const auto& [key, held] : rows) result.push_back(held);
  std::stable_sort(result.begin(), result.end(), [](const HeldByUnit& x, const HeldByUnit& y) {
    return std::abs(x.difference().count) > std::abs(y.difference().count);
  });
  return result;
}

}  // namespace shardscope::gui
