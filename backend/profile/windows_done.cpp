#include "backend/profile/windows_done.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

namespace shardscope {
namespace {

// Together less than the store takes for a value: 64 KiB.
constexpr std::size_t most_lost = 8;
constexpr std::size_t longest_reason = 2000;

}  // namespace

void WindowsDone::add(std::int64_t first_step, std::string_view reason) {
  last = first_step;
  if (reason.empty()) return;
  std::string line(reason.substr(0, longest_reason));
  std::ranges::replace(line, '\n', ' ');
  lost.push_back({.first_step = first_step, .reason = std::move(line)});
  if (lost.size() > most_lost) lost.pop_front();
}

const LostTrace* WindowsDone::find(std::int64_t first_step) const {
  const auto found = std::ranges::find(lost, first_step, &LostTrace::first_step);
  return found == lost.end() ? nullptr : &*found;
}

std::string to_text(const WindowsDone& done) {
  std::string text = fmt::format("{}\n", done.last);
  for (const LostTrace& one : done.lost) text += fmt::format("{} {}\n", one.first_step, one.reason);
  return text;
}

WindowsDone windows_done_of(std::string_view text) {
  std::istringstream lines{std::string(text)};
  WindowsDone done;
  lines >> done.last;
  LostTrace one;
  while (lines >> one.first_step && lines.ignore() && std::getline(lines, one.reason))
    done.lost.push_back(one);
  return done;
}

}  // namespace shardscope
