#include "traces/import/memory_snapshot_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "core/base/error.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t max_size = std::int64_t{1} << 56;
constexpr std::size_t max_devices = 4096;
constexpr int max_settings = 10'000;
constexpr int max_setting_depth = 8;

/// Numbers values in the order in which they come.
template <class Value, class Key = Value>
class Interned {
 public:
  std::uint32_t number(const Key& key, const Value& value, std::vector<Value>& list) {
    const auto [at, is_new] = numbers_.try_emplace(key, static_cast<std::uint32_t>(list.size()));
    if (is_new) list.push_back(value);
    return at->second;
  }

 private:
  std::unordered_map<Key, std::uint32_t> numbers_;
};

class SnapshotReader {
 public:
  SnapshotReader(const Pickle& pickle, const std::string& file) : pickle_(pickle) {
    to_.file = file;
    to_.report.format = "memory_snapshot";
    to_.report.text_bytes = pickle.bytes();
  }

  MemorySnapshot read() {
    const PickleValue root = pickle_.root();
    const bool is_list = root.kind == PickleKind::list;
    const auto segments = is_list ? root : pickle_.find(root, "segments");
    const auto traces = pickle_.find(root, "device_traces");
    if (!segments && !traces) {
      throw Error({.where = to_.file,
                   .what = "a pickle, but no memory snapshot: it has neither segments nor "
                           "device_traces",
                   .way_out = "give what torch.cuda.memory._dump_snapshot() wrote"});
    }
    if (segments) read_segments(*segments, to_.segments);
    if (traces) read_traces(*traces);
    read_host(root);
    read_annotations(root);
    read_settings(root);
    if (!pickle_.problem().empty()) to_.report.guessed.push_back(pickle_.problem());
    to_.names = std::move(names_).take();
    return std::move(to_);
  }

 private:
  void skip(std::string_view reason) { ++to_.report.skipped[std::string(reason)]; }
  void odd(std::string_view what) { ++to_.report.odd[std::string(what)]; }

  /// A list's elements, once: what a file repeats by reference could be made endless.
  std::span<const PickleValue> list(std::optional<PickleValue> value) {
    if (!value || value->kind != PickleKind::list) return {};
    const auto elements = pickle_.elements(*value);
    if (elements.empty() || taken_.insert(value->at).second) return elements;
    odd("lists are the same as an earlier one, left out");
    return {};
  }

  std::optional<std::int64_t> integer(PickleValue dict, std::string_view key) const {
    const auto value = pickle_.find(dict, key);
    return value ? pickle_.integer(*value) : std::nullopt;
  }

  std::optional<Bytes> size(PickleValue dict, std::string_view key) const {
    const auto value = integer(dict, key);
    if (!value || *value < 0 || *value > max_size) return std::nullopt;
    return Bytes{*value};
  }

  std::uint32_t name(PickleValue dict, std::string_view key) {
    const auto value = pickle_.find(dict, key);
    return value && value->kind == PickleKind::text ? names_.intern(pickle_.text(*value)) : no_name;
  }

  std::string_view text(PickleValue dict, std::string_view key) const {
    const auto value = pickle_.find(dict, key);
    return value ? pickle_.text(*value) : std::string_view{};
  }

  std::uint32_t stream(PickleValue dict) {
    const std::int64_t handle = integer(dict, "stream").value_or(0);
    return streams_.number(handle, handle, to_.streams);
  }

  std::optional<PoolId> pool(PickleValue dict, std::string_view key) const {
    const auto value = pickle_.find(dict, key);
    if (!value || pickle_.elements(*value).size() != 2) return std::nullopt;
    const auto first = pickle_.integer(pickle_.elements(*value)[0]);
    const auto second = pickle_.integer(pickle_.elements(*value)[1]);
    if (!first || !second) return std::nullopt;
    return PoolId{*first, *second};
  }

  std::uint32_t pool_number(PickleValue event) {
    const auto id = pool(event, "pool_id");
    if (!id) return no_name;
    const auto at = std::find(to_.pools.begin(), to_.pools.end(), *id);
    if (at != to_.pools.end()) return static_cast<std::uint32_t>(at - to_.pools.begin());
    if (to_.pools.size() >= max_pools) return odd("are of more than 1,000 pools"), no_name;
    to_.pools.push_back(*id);
    return static_cast<std::uint32_t>(to_.pools.size() - 1);
  }

  // --- frames ---

  std::optional<std::uint32_t> frame(PickleValue value) {
    if (value.kind != PickleKind::dict) return std::nullopt;
    const auto known = frame_of_dict_.find(value.at);
    if (known != frame_of_dict_.end()) return known->second;
    const SnapshotFrame of{.name = names_.intern(text(value, "name")),
                           .file = names_.intern(text(value, "filename")),
                           .line = integer(value, "line").value_or(0)};
    const std::string key = fmt::format("{} {} {}", of.name, of.file, of.line);
    return frame_of_dict_[value.at] = frames_.number(key, of, to_.frames);
  }

  std::uint32_t stack(PickleValue owner) {
    const auto frames = pickle_.find(owner, "frames");
    if (!frames || frames->kind != PickleKind::list) return no_stack;
    const auto known = stack_of_list_.find(frames->at);
    if (known != stack_of_list_.end()) return known->second;
    std::u32string key;
    for (const PickleValue& value : pickle_.elements(*frames)) {
      if (const auto number = frame(value)) key.push_back(static_cast<char32_t>(*number));
    }
    return stack_of_list_[frames->at] = stack_number(key);
  }

  std::uint32_t stack_number(const std::u32string& frames) {
    if (frames.empty()) return no_stack;
    const auto next = static_cast<std::uint32_t>(to_.stack_begins.size() - 1);
    const auto [at, is_new] = stacks_.try_emplace(frames, next);
    if (is_new) {
      to_.stack_frames.insert(to_.stack_frames.end(), frames.begin(), frames.end());
      to_.stack_begins.push_back(static_cast<std::uint32_t>(to_.stack_frames.size()));
    }
    return at->second;
  }

  // --- segments ---

  void read_segments(PickleValue value, std::vector<SnapshotSegment>& segments) {
    for (const PickleValue& item : list(value)) {
      const auto address = integer(item, "address");
      const auto total = size(item, "total_size");
      if (!address || !total) {
        skip("segments without address or total_size");
        continue;
      }
      SnapshotSegment segment{.device = integer(item, "device").value_or(0),
                              .address = *address,
                              .total = *total,
                              .allocated = size(item, "allocated_size"),
                              .active = size(item, "active_size"),
                              .stream = stream(item),
                              .type = name(item, "segment_type"),
                              .pool = pool(item, "segment_pool_id")};
      const auto expandable = pickle_.find(item, "is_expandable");
      segment.is_expandable = expandable && pickle_.boolean(*expandable).value_or(false);
      read_blocks(item, segment);
      segments.push_back(segment);
    }
  }

  void read_blocks(PickleValue item, SnapshotSegment& segment) {
    segment.first_block = static_cast<std::uint32_t>(to_.blocks.size());
    std::int64_t next = segment.address;
    for (const PickleValue& value : list(pickle_.find(item, "blocks"))) {
      const auto bytes = size(value, "size");
      if (!bytes) {
        skip("blocks without size");
        continue;
      }
      SnapshotBlock block = block_of(value, *bytes);
      block.address = integer(value, "address").value_or(next);
      to_.blocks.push_back(block);
      next = held_end(block.address, block.size);
    }
    segment.block_count = static_cast<std::uint32_t>(to_.blocks.size()) - segment.first_block;
  }

  static std::int64_t held_end(std::int64_t address, Bytes size) {
    std::int64_t end = 0;
    return __builtin_add_overflow(address, size.count, &end) ? address : end;
  }

  /// torch 2.0 keeps what is asked for and by whom in the first entry of a history.
  SnapshotBlock block_of(PickleValue value, Bytes bytes) {
    SnapshotBlock block{.size = bytes, .state = state_of(text(value, "state"))};
    const auto history = pickle_.find(value, "history");
    const auto entries = history ? pickle_.elements(*history) : std::span<const PickleValue>{};
    const bool is_old = !pickle_.find(value, "frames") && !entries.empty();
    block.stack = stack(is_old ? entries.front() : value);
    if (const auto requested = size(value, "requested_size")) {
      block.requested = *requested;
    } else if (block.state != SnapshotBlockState::inactive) {
      block.requested =
          entries.empty() ? bytes : size(entries.front(), "real_size").value_or(bytes);
    }
    return block;
  }

  SnapshotBlockState state_of(std::string_view text) {
    for (std::size_t i = 0; i < snapshot_block_states; ++i) {
      const auto state = static_cast<SnapshotBlockState>(i);
      if (text == name_of(state)) return state;
    }
    if (text != "active_awaiting_free") odd("blocks are of no known state, taken as pending");
    return SnapshotBlockState::active_pending_free;
  }

  // --- events ---

  void read_traces(PickleValue value) {
    for (const PickleValue& trace : list(value)) {
      if (to_.events.size() >= max_devices) return skip("devices after the 4,096th");
      SnapshotEvents& events = to_.events.emplace_back();
      const auto device = static_cast<std::int64_t>(to_.events.size()) - 1;
      for (const PickleValue& event : list(trace)) read_event(event, device, events);
    }
  }

  void read_event(PickleValue event, std::int64_t device, SnapshotEvents& events) {
    ++to_.report.events_read;
    const auto action = action_of(text(event, "action"));
    if (!action) return skip("no known action");
    const auto bytes = size(event, "size");
    if (!bytes) return skip("no usable size");
    const auto address = integer(event, "addr");
    if (!address && *action != SnapshotAction::oom) return skip("no address");
    if (*action == SnapshotAction::oom)
      to_.out_of_memory.push_back({.device = device,
                                   .event = static_cast<std::uint32_t>(events.count()),
                                   .bytes = *bytes,
                                   .free = size(event, "device_free")});
    events.time_us.push_back(integer(event, "time_us").value_or(no_time));
    events.address.push_back(address.value_or(0));
    events.size.push_back(bytes->count);
    events.stream.push_back(stream(event));
    events.stack.push_back(stack(event));
    events.context.push_back(name(event, "compile_context"));
    events.note.push_back(name(event, "user_metadata"));
    events.category.push_back(name(event, "category"));
    events.pool.push_back(pool_number(event));
    events.action.push_back(*action);
    ++to_.report.events_kept;
  }

  static std::optional<SnapshotAction> action_of(std::string_view text) {
    for (std::size_t i = 0; i < snapshot_actions; ++i) {
      const auto action = static_cast<SnapshotAction>(i);
      if (text == name_of(action)) return action;
    }
    return std::nullopt;
  }

  // --- the rest ---

  void read_host(PickleValue root) {
    if (const auto segments = pickle_.find(root, "host_segments"))
      read_segments(*segments, to_.host_segments);
    for (const PickleValue& value : list(pickle_.find(root, "host_traces"))) {
      if (value.kind == PickleKind::dict) read_event(value, host_device, to_.host_events);
      for (const PickleValue& event : list(value)) read_event(event, host_device, to_.host_events);
    }
  }

  void read_annotations(PickleValue root) {
    for (const PickleValue& value : list(pickle_.find(root, "external_annotations"))) {
      to_.annotations.push_back({.name = name(value, "name"),
                                 .stage = name(value, "stage"),
                                 .device = integer(value, "device").value_or(0),
                                 .time_us = integer(value, "time_us").value_or(no_time)});
    }
  }

  void read_settings(PickleValue root) {
    const auto settings = pickle_.find(root, "allocator_settings");
    if (!settings) return;
    const auto pairs = pickle_.elements(*settings);
    for (std::size_t i = 0; i + 1 < pairs.size() && i < max_settings; i += 2) {
      to_.settings.emplace_back(
          pickle_.text(pairs[i]),
          json(pairs[i + 1], 1).dump(-1, ' ', false, Json::error_handler_t::replace));
    }
  }

  /// What lies deeper than a setting would, or behind many of them, is null.
  Json json(PickleValue value, int depth) {
    if (++settings_ > max_settings || depth > max_setting_depth) return {};
    if (const auto number = pickle_.integer(value)) return *number;
    if (const auto flag = pickle_.boolean(value)) return *flag;
    if (const auto real = pickle_.real(value)) return *real;
    if (value.kind == PickleKind::text) return std::string(pickle_.text(value));
    const auto elements = pickle_.elements(value);
    if (value.kind == PickleKind::dict) {
      Json object = Json::object();
      for (std::size_t i = 0; i + 1 < elements.size() && settings_ < max_settings; i += 2)
        object[std::string(pickle_.text(elements[i]))] = json(elements[i + 1], depth + 1);
      return object;
    }
    if (value.kind != PickleKind::list && value.kind != PickleKind::tuple) return {};
    Json array = Json::array();
    for (std::size_t i = 0; i < elements.size() && settings_ < max_settings; ++i)
      array.push_back(json(elements[i], depth + 1));
    return array;
  }

  static constexpr std::int64_t host_device = -1;
  static constexpr std::size_t max_pools = 1000;

  const Pickle& pickle_;
  MemorySnapshot to_;
  NameTable names_;
  Interned<std::int64_t> streams_;
  Interned<SnapshotFrame, std::string> frames_;
  std::unordered_map<std::u32string, std::uint32_t> stacks_;
  std::unordered_map<std::uint32_t, std::uint32_t> frame_of_dict_, stack_of_list_;
  std::unordered_set<std::uint32_t> taken_;  ///< lists, by number
  int settings_ = 0;
};

}  // namespace

MemorySnapshot memory_snapshot_of(const Pickle& pickle, const std::string& file) {
  return SnapshotReader(pickle, file).read();
}

MemorySnapshot read_memory_snapshot(TextInput& input, const std::string& file,
                                    const PickleBounds& bounds) {
  return memory_snapshot_of(read_pickle(input, file, bounds), file);
}

}  // namespace shardscope
