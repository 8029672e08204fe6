#include "gui/data/snapshot_allocations.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "gui/data/snapshot_levels.h"
#include "traces/import/snapshot_categories.h"
#include "traces/import/snapshot_lifetimes.h"
#include "traces/import/snapshot_replay.h"

namespace shardscope::gui {
namespace {

constexpr std::size_t most_frames = 200;
/// A foreign file may say anything: regions together must fit.
constexpr std::int64_t most_bytes = std::int64_t{1} << 50;

void add_places(const ScenarioPointer& scenario, std::vector<SnapshotPlace>& places) {
  if (!scenario) return;
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled}) {
    const Side* side = scenario->side(kind);
    if (side == nullptr || side->snapshots.empty()) continue;
    for (const MemorySource& source : memory_sources(*side))
      if (source.kind == MemorySource::Kind::snapshot)
        places.push_back({.scenario = scenario,
                          .side = kind,
                          .source = source,
                          .label = source.label.starts_with(scenario->label)
                                       ? source.label
                                       : scenario->label + ": " + source.label});
  }
}

using Interval = std::pair<std::int64_t, std::int64_t>;

bool is_address(std::int64_t begin, std::int64_t bytes) {
  return begin >= 0 && bytes > 0 && bytes < most_bytes && begin < INT64_MAX - bytes;
}

/// The union of what segments and blocks ever covered.
std::vector<AddressRegion> regions_of(const MemorySnapshot& snapshot, std::int64_t device,
                                      const std::vector<BlockLifetime>& lifetimes) {
  std::vector<Interval> covered;
  const auto add = [&](std::int64_t address, std::int64_t bytes) {
    if (is_address(address, bytes)) covered.emplace_back(address, address + bytes);
  };
  for (const SnapshotSegment& segment : snapshot.segments)
    if (segment.device == device) add(segment.address, segment.total.count);
  if (const SnapshotEvents* events = snapshot.events_of(device))
    for (std::size_t i = 0; i < events->count(); ++i)
      if (events->action[i] >= SnapshotAction::segment_alloc &&
          events->action[i] <= SnapshotAction::segment_unmap)
        add(events->address[i], events->size[i]);
  for (const BlockLifetime& one : lifetimes) add(one.block.address, one.block.size.count);
  std::sort(covered.begin(), covered.end());
  std::vector<AddressRegion> regions;
  double bottom = 0;
  for (const auto& [begin, end] : covered) {
    if (!regions.empty() && begin <= regions.back().end) {
      bottom += static_cast<double>(std::max(end, regions.back().end) - regions.back().end);
      regions.back().end = std::max(end, regions.back().end);
    } else {
      regions.push_back({.begin = begin, .end = end, .bottom = bottom});
      bottom += static_cast<double>(end - begin);
    }
  }
  return regions;
}

double bottom_of(const std::vector<AddressRegion>& regions, std::int64_t address) {
  const auto next =
      std::upper_bound(regions.begin(), regions.end(), address,
                       [](std::int64_t at, const AddressRegion& r) { return at < r.begin; });
  if (next == regions.begin()) return 0;
  const AddressRegion& region = *std::prev(next);
  return region.bottom + static_cast<double>(address - region.begin);
}

class Allocations {
 public:
  Allocations(const SnapshotPlace& place, const MemoryPictureRequest& axis,
              const std::stop_token& stop)
      : snapshot_(place.snapshot()),
        device_(place.source.device),
        stop_(stop),
        clock_(source_clock(*place.scenario, place.source, axis)),
        times_(snapshot_event_times(snapshot_, device_)),
        end_(snapshot_length(snapshot_, device_)) {
    result_.place = place;
  }

  SnapshotAllocations run() {
    const std::vector<BlockLifetime> lifetimes = block_lifetimes(snapshot_, device_);
    result_.regions = regions_of(snapshot_, device_, lifetimes);
    if (!result_.regions.empty())
      result_.height =
          result_.regions.back().bottom +
          static_cast<double>(result_.regions.back().end - result_.regions.back().begin);
    result_.time = {.begin = axis_of(0), .end = axis_of(end_)};
    result_.names.resize(snapshot_.stack_begins.size() - 1);
    BlockCategories categories(snapshot_, device_);
    std::vector<bool> is_named(result_.names.size());
    for (const BlockLifetime& one : lifetimes) {
      if (stop_.stop_requested()) return std::move(result_);
      const auto category = categories.of(one.block);
      result_.blocks.push_back(block_of(one, category));
      if (is_named[one.block.stack]) continue;
      is_named[one.block.stack] = true;
      result_.names[one.block.stack] = innermost_telling_frame(snapshot_, one.block.stack);
    }
    std::stable_sort(result_.blocks.begin(), result_.blocks.end(),
                     [](const auto& a, const auto& b) { return a.size > b.size; });
    result_.state = snapshot_state(snapshot_, device_);
    add_segments(categories);
    result_.table = std::make_shared<const ColumnTable>(table());
    return std::move(result_);
  }

 private:
  void add_segments(BlockCategories& categories) {
    result_.final_bands.assign(snapshot_.blocks.size(), unknown_band);
    for (std::uint32_t i = 0; i < snapshot_.segments.size(); ++i) {
      const SnapshotSegment& segment = snapshot_.segments[i];
      if (segment.device != device_) continue;
      result_.segments.push_back(i);
      for (std::uint32_t b = 0; b < segment.block_count; ++b) {
        const SnapshotBlock& block = snapshot_.blocks[segment.first_block + b];
        const auto category = categories.of({.size = block.requested, .stack = block.stack});
        if (category)
          result_.final_bands[segment.first_block + b] = static_cast<std::uint8_t>(*category);
      }
    }
    std::stable_sort(result_.segments.begin(), result_.segments.end(), [&](auto a, auto b) {
      return snapshot_.segments[a].total > snapshot_.segments[b].total;
    });
  }

  double axis_of(double since_first) const {
    return clock_.map.axis_of(since_first + clock_.shift);
  }

  SnapshotAllocation block_of(const BlockLifetime& one,
                              std::optional<MemoryCategory> category) const {
    const LiveBlock& block = one.block;
    return {.time = {.begin = axis_of(block.event ? times_[*block.event] : 0),
                     .end = axis_of(one.end ? times_[*one.end] : end_)},
            .bottom = bottom_of(result_.regions, block.address),
            .size = block.size,
            .address = block.address,
            .stack = block.stack,
            .stream = block.stream,
            .band = static_cast<std::uint8_t>(category ? static_cast<std::size_t>(*category)
                                                       : unknown_band),
            .is_from_before = !block.event,
            .is_alive_at_end = !one.end};
  }

  Column column(std::string id, std::string title, std::string about, Quantity quantity) const {
    return {.id = std::move(id),
            .title = std::move(title),
            .about = std::move(about),
            .scale = {},
            .quantity = quantity};
  }

  ColumnTable table() const {
    Column size = column("bytes", "Size", "as requested", Quantity::bytes);
    Column begin = column("begin", "Allocated", "on the axis; empty: before the first event",
                          Quantity::duration);
    Column life = column("lifetime", "Lifetime", "empty: begins or ends outside the history",
                         Quantity::duration);
    Column category =
        column("category", "Category", "by the rules of report --print-rules", Quantity::text);
    Column frame = column("frame", "First useful frame", "who asked for it", Quantity::text);
    Column own = column("code", "Your code", "innermost frame that is of no installed package",
                        Quantity::text);
    std::vector<std::uint32_t> categories, stacks;
    std::vector<std::string> bands, codes(result_.names.size());
    for (std::size_t band = 0; band < memory_band_count; ++band)
      bands.emplace_back(band_name(band));
    std::vector<bool> is_known(result_.names.size());
    for (const SnapshotAllocation& block : result_.blocks) {
      size.numbers.push_back(static_cast<double>(block.size.count));
      begin.numbers.push_back(block.is_from_before ? no_number : block.time.begin);
      const bool is_whole = !block.is_from_before && !block.is_alive_at_end;
      life.numbers.push_back(is_whole ? block.time.length() : no_number);
      categories.push_back(block.band);
      stacks.push_back(block.stack);
      if (is_known[block.stack]) continue;
      is_known[block.stack] = true;
      codes[block.stack] = innermost_own_frame(snapshot_, block.stack);
    }
    set_texts(category, bands, categories);
    set_texts(frame, result_.names, stacks);
    set_texts(own, codes, stacks);
    ColumnTable table{.columns = {std::move(frame), std::move(size), std::move(category),
                                  std::move(begin), std::move(life), std::move(own)},
                      .rows = result_.blocks.size()};
    set_units(table);
    return table;
  }

  const MemorySnapshot& snapshot_;
  std::int64_t device_;
  const std::stop_token& stop_;
  SourceClock clock_;
  std::vector<double> times_;
  double end_;
  SnapshotAllocations result_;
};

std::vector<LiveBlock> blocks_at(const SnapshotPlace& place, ComparedInstant instant) {
  const MemorySnapshot& snapshot = place.snapshot();
  const SnapshotEvents* events = snapshot.events_of(place.source.device);
  const auto last = static_cast<std::int64_t>(events == nullptr ? 0 : events->count()) - 1;
  const std::int64_t event = instant == ComparedInstant::end
                                 ? last
                                 : replay(snapshot, place.source.device).peak_active.event;
  return live_blocks(snapshot, place.source.device, event);
}

}  // namespace

std::vector<SnapshotPlace> snapshot_places(const ScenarioPointer& a, const ScenarioPointer& b) {
  std::vector<SnapshotPlace> places;
  add_places(a, places);
  if (b != a) add_places(b, places);
  return places;
}

std::optional<std::size_t> SnapshotAllocations::at(double when, double bottom) const {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const SnapshotAllocation& block = blocks[i];
    if (block.bottom <= bottom && bottom < block.bottom + static_cast<double>(block.size.count) &&
        block.time.begin <= when && when < block.time.end)
      return i;
  }
  return std::nullopt;
}

SnapshotAllocations snapshot_allocations(const SnapshotPlace& place,
                                         const MemoryPictureRequest& axis,
                                         const std::stop_token& stop) {
  return Allocations(place, axis, stop).run();
}

std::string all_frames(const MemorySnapshot& snapshot, std::uint32_t stack) {
  const auto frames = snapshot.stack(stack);
  std::string text;
  for (std::size_t i = 0; i < std::min(frames.size(), most_frames); ++i)
    text += frame_text(snapshot, frames[i]) + "\n";
  return text;
}

std::string short_frame(std::string_view frame) {
  const std::size_t name = frame.rfind(':');
  const std::size_t line =
      name == 0 || name == frame.npos ? frame.npos : frame.rfind(':', name - 1);
  const bool is_python = line != frame.npos && frame[name - 1] >= '0' && frame[name - 1] <= '9';
  if (!is_python) {
    const std::size_t scope = frame.rfind("::");
    return std::string(scope == frame.npos ? frame : frame.substr(scope + 2));
  }
  const std::size_t folder = frame.rfind('/', line);
  const std::size_t file = folder == frame.npos ? 0 : folder + 1;
  return fmt::format("{}, {}", frame.substr(name + 1), frame.substr(file, name - file));
}

std::string fragmentation_text(const SnapshotState& state) {
  const Bytes reserved = state.reserved.total;
  if (reserved.count <= 0) return "The snapshot has no segments.";
  const BlockSums& inactive =
      state.by_state[static_cast<std::size_t>(SnapshotBlockState::inactive)];
  const double share =
      static_cast<double>(inactive.size.count) / static_cast<double>(reserved.count);
  std::string text = fmt::format(
      "{} reserved in {} segment{}; {} of it ({:.1f}%) is free in {} "
      "block{}.",
      rounded_text(reserved), state.reserved.count, state.reserved.count == 1 ? "" : "s",
      rounded_text(inactive.size), 100 * share, inactive.count, inactive.count == 1 ? "" : "s");
  if (inactive.count > 0)
    text += fmt::format(" The largest free block has {}: a larger request needs a new segment.",
                        rounded_text(state.largest_inactive));
  return text;
}

ColumnTable growth_table(const SnapshotPlace& before, const SnapshotPlace& after,
                         ComparedInstant instant, GrowthBy by) {
  const std::vector<LiveBlock> a = blocks_at(before, instant), b = blocks_at(after, instant);
  const std::vector<MemoryGrowth> rows =
      memory_growth({before.snapshot(), a}, {after.snapshot(), b}, by);
  const auto bytes_column = [](std::string id, std::string title) {
    return Column{.id = std::move(id),
                  .title = std::move(title),
                  .about = "as requested",
                  .scale = "bytes",
                  .quantity = Quantity::bytes};
  };
  const auto count_column = [](std::string id, std::string title) {
    return Column{.id = std::move(id),
                  .title = std::move(title),
                  .about = "blocks alive at that instant",
                  .scale = {},
                  .quantity = Quantity::count};
  };
  Column frame{.id = "frame",
               .title = "First useful frame",
               .about = "who asked for it",
               .scale = {},
               .quantity = Quantity::text};
  Column block = bytes_column("block", "One block");
  block.scale = {};
  block.is_shown_at_first = by == GrowthBy::frame_and_size;
  Column held_before = bytes_column("before", "Before"),
         held_after = bytes_column("after", "After");
  Column growth = bytes_column("growth", "After - before");
  growth.look = CellLook::difference;
  growth.is_signed = true;
  Column blocks_before = count_column("blocks_before", "Blocks before");
  Column blocks_after = count_column("blocks_after", "Blocks after");
  std::vector<std::string> frames;
  const auto number = [](auto value) { return static_cast<double>(value); };
  for (const MemoryGrowth& row : rows) {
    frames.push_back(row.frame.empty() ? "(no frame was recorded)" : row.frame);
    block.numbers.push_back(by == GrowthBy::frame ? no_number : number(row.block.count));
    held_before.numbers.push_back(number(row.before.count));
    held_after.numbers.push_back(number(row.after.count));
    growth.numbers.push_back(number(row.growth().count));
    blocks_before.numbers.push_back(number(row.blocks_before));
    blocks_after.numbers.push_back(number(row.blocks_after));
  }
  set_texts(frame, frames);
  ColumnTable table{.columns = {std::move(frame), std::move(growth), std::move(held_before),
                                std::move(held_after), std::move(block), std::move(blocks_before),
                                std::move(blocks_after)},
                    .rows = rows.size()};
  set_units(table);
  return table;
}

}  // namespace shardscope::gui
