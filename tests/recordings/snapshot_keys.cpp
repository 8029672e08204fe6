#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>
#include <vector>

#include "tests/recordings/snapshot_figures.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

/// Keys that dicts of one kind have, in the order in which they come.
class KeyTypes {
 public:
  explicit KeyTypes(const Pickle& pickle) : pickle_(pickle) {}

  void add(PickleValue dict) {
    ++dicts_;
    const auto pairs = pickle_.elements(dict);
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::string key(pickle_.text(pairs[i]));
      auto at = std::find_if(keys_.begin(), keys_.end(),
                             [&](const Key& known) { return known.name == key; });
      if (at == keys_.end()) at = keys_.insert(keys_.end(), {.name = key});
      ++at->count;
      at->types.emplace(python_type_of(pairs[i + 1].kind));
    }
  }

  Json json() const {
    Json object = Json::object();
    for (const Key& key : keys_) {
      std::string types;
      for (const std::string& type : key.types) types += (types.empty() ? "" : "|") + type;
      object[key.name + (key.count == dicts_ ? "" : "?")] = types;
    }
    return object;
  }

 private:
  struct Key {
    std::string name;
    std::int64_t count = 0;
    std::set<std::string> types;
  };

  const Pickle& pickle_;
  std::vector<Key> keys_;
  std::int64_t dicts_ = 0;
};

class KeysOfSnapshot {
 public:
  explicit KeysOfSnapshot(const Pickle& pickle) : pickle_(pickle) {}

  Json json() {
    const PickleValue root = pickle_.root();
    const bool is_list = root.kind == PickleKind::list;
    Json keys{
        {"top", is_list ? Json{{"segments", "list"}, {"device_traces", "list"}} : of({root})}};
    const auto segments = is_list ? elements(root) : list(root, "segments");
    const auto blocks = blocks_of(segments);
    const auto events = flattened(list(root, "device_traces"));
    keys["segment"] = of(segments);
    keys["block"] = of(blocks);
    keys["event"] = of(events);
    keys["frame"] = of(frames_of(events, blocks));
    for (const char* name : {"host_segments", "host_traces", "external_annotations"}) {
      const auto flat = flattened(list(root, name));
      if (flat.empty()) continue;
      keys[name] = of(flat);
      if (name == std::string("host_segments") && pickle_.find(flat[0], "blocks"))
        keys["host_block"] = of(blocks_of(flat));
    }
    return keys;
  }

 private:
  using Values = std::vector<PickleValue>;

  Values elements(PickleValue value) const {
    const auto span = pickle_.elements(value);
    return {span.begin(), span.end()};
  }

  Values list(PickleValue dict, std::string_view key) const {
    const auto value = pickle_.find(dict, key);
    return value ? elements(*value) : Values{};
  }

  Values flattened(const Values& values) const {
    Values flat;
    for (const PickleValue& value : values) {
      if (value.kind != PickleKind::list) {
        flat.push_back(value);
        continue;
      }
      for (const PickleValue& inside : pickle_.elements(value)) flat.push_back(inside);
    }
    return flat;
  }

  Values blocks_of(const Values& segments) const {
    Values blocks;
    for (const PickleValue& segment : segments) {
      for (const PickleValue& block : list(segment, "blocks")) blocks.push_back(block);
    }
    return blocks;
  }

  /// Each dict once: frames are shared.
  Values frames_of(const Values& events, const Values& blocks) const {
    Values frames;
    std::unordered_set<std::uint32_t> known;
    for (const Values* owners : {&events, &blocks}) {
      for (const PickleValue& owner : *owners) {
        for (const PickleValue& frame : list(owner, "frames")) {
          if (known.insert(frame.at).second) frames.push_back(frame);
        }
      }
    }
    return frames;
  }

  Json of(const Values& dicts) const {
    KeyTypes types(pickle_);
    for (const PickleValue& dict : dicts) types.add(dict);
    return types.json();
  }

  const Pickle& pickle_;
};

}  // namespace

Json pickle_json(const Pickle& pickle) {
  Json opcodes = Json::object();
  for (const auto& [name, count] : pickle.opcodes()) opcodes[std::string(name)] = count;
  return {{"bytes", pickle.bytes()},
          {"protocol", pickle.protocol()},
          {"opcodes", opcodes},
          {"globals", Json::array()},  // a pickle with one is refused
          {"largest_memo_index_read", pickle.largest_memo_index_read()}};
}

Json keys_json(const Pickle& pickle) { return KeysOfSnapshot(pickle).json(); }

}  // namespace shardscope::recordings
