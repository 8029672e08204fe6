#include "gui/data/verdict_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "gui/data/verdict.h"

namespace shardscope::gui {
namespace {

/// One part of the identity of a step's time.
struct Part {
  const char* name;
  const char* longer;  ///< with {}: by how much
  const char* shorter;
  Duration Accounting::*time;
  Duration change = {};
};

std::array<Part, 4> parts_of(const SideFigures& before, const SideFigures& after) {
  std::array<Part, 4> parts{
      {{"compute", "compute takes {} longer", "compute takes {} less", &Accounting::compute},
       {"exposed communication", "{} more communication is exposed",
        "{} less communication is exposed", &Accounting::exposed_communication},
       {"exposed copies", "{} more of copies is exposed", "{} less of copies is exposed",
        &Accounting::exposed_copy},
       {"idle", "the device is idle for {} more", "the device is idle for {} less",
        &Accounting::idle}}};
  for (Part& part : parts) part.change = after.time.*part.time - before.time.*part.time;
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return std::abs(a.change.ns) > std::abs(b.change.ns);
  });
  return parts;
}

Duration magnitude(Duration time) { return {std::abs(time.ns)}; }

std::string collectives_text(std::int64_t count) {
  return fmt::format("{} collective{}", count, count == 1 ? "" : "s");
}

/// "32 more collectives a step (18.6 MiB more)"; "" where there are not more.
std::string more_traffic(const SideFigures& before, const SideFigures& after) {
  if (!before.traffic || !after.traffic) return "";
  const std::int64_t more = after.traffic->collectives - before.traffic->collectives;
  const Bytes bytes = after.traffic->bytes - before.traffic->bytes;
  if (more <= 0 || bytes <= Bytes{}) return "";
  return fmt::format("{} more collective{} a step ({} more)", more, more == 1 ? "" : "s",
                     rounded_text(bytes));
}

std::string part_text(const Part& part, const SideFigures& before, const SideFigures& after) {
  const bool is_longer = part.change > Duration{};
  const std::string amount = rounded_text(magnitude(part.change));
  const std::string traffic = more_traffic(before, after);
  const bool is_communication = part.time == &Accounting::exposed_communication;
  if (is_communication && is_longer && !traffic.empty())
    return fmt::format("{} leave {} more communication exposed", traffic, amount);
  return fmt::format(fmt::runtime(is_longer ? part.longer : part.shorter), amount);
}

std::string hidden_text(const SideFigures& figures) {
  const auto share = figures.overlap_share();
  return share ? fmt::format("{:.0f}% hidden behind compute", *share * 100) : "none";
}

std::string traffic_text(const SideFigures& figures) {
  if (!figures.traffic) return "";
  const std::string collectives = collectives_text(figures.traffic->collectives);
  if (figures.traffic->bytes == Bytes{}) return collectives + ", ";
  return fmt::format("{} of {} together, ", collectives, rounded_text(figures.traffic->bytes));
}

std::string step_or_none(const SideFigures& figures) {
  if (figures.ran_out) return "out of memory";
  return figures.has_step() ? rounded_text(figures.step) : "not known";
}

std::string one_communication(const SideFigures& figures) {
  if (figures.ran_out) return "not known, out of memory";
  return fmt::format("{}{} long, {}, {} exposed", traffic_text(figures),
                     rounded_text(figures.time.communication), hidden_text(figures),
                     rounded_text(figures.time.exposed_communication));
}

}  // namespace

std::string time_reason(const SideFigures& before, const SideFigures& after) {
  const Duration change = after.step - before.step;
  std::string text;
  for (const Part& part : parts_of(before, after)) {
    const bool same_direction = (part.change < Duration{}) == (change < Duration{});
    if (!same_direction || magnitude(part.change) * 5 < magnitude(change)) continue;
    if (part.change == Duration{}) continue;
    text += (text.empty() ? "" : ", ") + part_text(part, before, after);
  }
  return text;
}

std::string hiding_reason(const SideFigures& before, const SideFigures& after) {
  const auto hidden = after.overlap_share();
  if (!hidden || after.time.communication <= before.time.communication) return "";
  const std::string traffic = more_traffic(before, after);
  return fmt::format("{}{:.0f}% of its {} of communication {} behind compute",
                     traffic.empty() ? "" : traffic + " cost little: ", *hidden * 100,
                     rounded_text(after.time.communication), "hide");
}

std::string communication_text(const SideFigures& before, const SideFigures& after) {
  if (before.time.communication == Duration{} && after.time.communication == Duration{}) return "";
  return fmt::format("Communication of a step: {}; before: {}", one_communication(after),
                     one_communication(before));
}

std::string step_text(const SideFigures& before, const SideFigures& after) {
  const bool is_told = before.has_step() || after.has_step() || before.ran_out || after.ran_out;
  if (!is_told) return "Step time not known of either";
  std::string text = fmt::format("Step {} -> {}", step_or_none(before), step_or_none(after));
  // Of a step that is not known the parts are not, either.
  if (!before.has_step() || !after.has_step()) return text;
  bool is_first = true;
  for (const Part& part : parts_of(before, after)) {
    if (part.change == Duration{}) continue;
    text += fmt::format("{}{} {}{}", is_first ? ": " : ", ", part.name,
                        part.change < Duration{} ? "-" : "+", rounded_text(magnitude(part.change)));
    is_first = false;
  }
  const bool is_same = is_first && before.step == after.step;
  return is_same ? fmt::format("Step {} in both", rounded_text(after.step)) : text;
}

}  // namespace shardscope::gui
