#include "traces/match/profiled_operators.h"

#include <algorithm>
#include <unordered_map>

#include "traces/import/json_scanner.h"

namespace shardscope {
namespace {

constexpr int deepest_list = 4;

void add_shapes(std::string_view dims, int depth, std::string& text) {
  std::string shape;
  for_each_element(dims, [&](std::string_view element) {
    if (element.starts_with('[')) {
      if (depth < deepest_list) add_shapes(element, depth + 1, text);
    } else {
      shape += (shape.empty() ? "" : "x") + std::string(element);
    }
  });
  if (!shape.empty()) text += (text.empty() ? "" : " ") + shape;
}

/// Of the event's arguments.
std::string shapes_of(const ImportedTrace& trace, std::uint32_t event) {
  const std::string text = trace.text_of(event);
  std::string shapes;
  for_each_member(text, [&](std::string_view key, std::string_view arguments) {
    if (key != "args") return;
    for_each_member(arguments, [&](std::string_view argument, std::string_view value) {
      if (argument == "Input Dims") shapes = shapes_of_dims(value);
    });
  });
  return shapes;
}

/// Names of the trace that stand for one of `names`, and those that make a thread the model's.
struct NameKinds {
  NameKinds(const ImportedTrace& trace, const std::set<std::string, std::less<>>& names) {
    for (const std::string& name : trace.names) {
      is_operator.push_back(names.contains(name));
      is_transport.push_back(name.starts_with("c10d::"));
      is_of_model.push_back(name.starts_with("ProfilerStep#") ||
                            name.starts_with("autograd::engine::evaluate_function"));
    }
  }
  std::vector<bool> is_operator, is_transport, is_of_model;
};

std::vector<bool> tracks_of_model(const ImportedTrace& trace, const NameKinds& kinds) {
  std::vector<bool> result(trace.tracks.size());
  bool any = false;
  for (const std::uint32_t event : trace.by_track) {
    const bool is_thread = trace.track_of(event).kind == TrackKind::thread;
    if (!is_thread || !kinds.is_of_model[trace.events.name[event]]) continue;
    result[trace.events.track[event]] = any = true;
  }
  if (!any) result.assign(result.size(), true);
  return result;
}

std::vector<bool> events_that_hand_over(const ImportedTrace& trace, const HostTree& tree) {
  std::vector<bool> result(trace.events.size());
  const auto name = std::find(trace.names.begin(), trace.names.end(), "PythonSubclass");
  if (name == trace.names.end()) return result;
  for (const std::uint32_t event : trace.by_track) {
    const bool is_inner =
        trace.events.name[event] == static_cast<std::uint32_t>(name - trace.names.begin());
    if (is_inner && tree.around(event) != no_event) result[tree.around(event)] = true;
  }
  return result;
}

/// Adds the time of what each operator launched; false where the trace has no device.
bool add_device_time(const ImportedTrace& trace, const HostTree& tree,
                     std::vector<ProfiledOperator>& operators) {
  std::unordered_map<std::uint32_t, std::size_t> place;
  for (std::size_t i = 0; i < operators.size(); ++i) place[operators[i].event] = i;
  bool has_device = false;
  for (const std::uint32_t event : trace.by_track) {
    if (trace.track_of(event).kind != TrackKind::stream) continue;
    has_device = true;
    for (std::uint32_t at = tree.on_host(event); at != no_event && at != event;
         at = tree.around(at)) {
      const auto found = place.find(at);
      if (found == place.end()) continue;
      operators[found->second].duration += Duration{trace.events.duration_ns[event]};
      break;
    }
  }
  return has_device;
}

}  // namespace

std::string shapes_of_dims(std::string_view dims) {
  // The scanner wants a byte behind the text.
  const std::string text(dims);
  std::string shapes;
  add_shapes(text, 0, shapes);
  return shapes;
}

std::vector<ProfiledOperator> profiled_operators(const ImportedTrace& trace, const HostTree& tree,
                                                 const std::set<std::string, std::less<>>& names) {
  const NameKinds kinds(trace, names);
  const std::vector<bool> is_of_model = tracks_of_model(trace, kinds);
  const std::vector<bool> hands_over = events_that_hand_over(trace, tree);
  std::vector<bool> is_inside(trace.events.size());
  std::vector<ProfiledOperator> operators;
  for (const std::uint32_t event : trace.by_track) {
    const std::uint32_t track = trace.events.track[event];
    if (!is_of_model[track] || trace.tracks[track].kind != TrackKind::thread) continue;
    const std::uint32_t outer = tree.around(event);
    const bool is_operator = kinds.is_operator[trace.events.name[event]] && !hands_over[event];
    const bool is_in_other = outer != no_event && is_inside[outer];
    is_inside[event] = is_in_other || is_operator || kinds.is_transport[trace.events.name[event]];
    if (!is_operator || is_in_other) continue;
    operators.push_back({.event = event,
                         .name = trace.name_of(event),
                         .shapes = shapes_of(trace, event),
                         .start = {trace.events.start_ns[event]}});
  }
  std::stable_sort(
      operators.begin(), operators.end(),
      [](const ProfiledOperator& a, const ProfiledOperator& b) { return a.start < b.start; });
  if (!add_device_time(trace, tree, operators))
    for (ProfiledOperator& op : operators) op.duration = {trace.events.duration_ns[op.event]};
  return operators;
}

}  // namespace shardscope
