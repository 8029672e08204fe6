#include "backend/recorder/device/held_lines.h"

#include <algorithm>
#include <utility>

namespace shardscope::recorder {
namespace {

struct Parts {
  std::string_view thread, rest;
};

Parts parts_of(std::string_view line) {
  const std::size_t tab = line.find('\t');
  return {line.substr(0, tab), line.substr(tab + 1)};
}

/// Of `op`, name, inputs, number.
bool has_number_of_autograd(std::string_view op) {
  for (int field = 0; field < 3; ++field) op.remove_prefix(std::min(op.find('\t') + 1, op.size()));
  return !op.starts_with("-1\t");
}

}  // namespace

bool GivenBack::take(std::string_view line) {
  const auto [thread, rest] = parts_of(line);
  const bool asks = rest.starts_with("free\t"), completes = rest.starts_with("freed\t");
  if (completes && !pairs_.empty() && !pairs_.back().is_complete && thread == thread_ &&
      rest.substr(sizeof "freed") == pairs_.back().block) {
    pairs_.back().is_complete = true;
    return true;
  }
  // Of what waits for a stream nothing is known yet: it stays where it is.
  if (!asks || (!pairs_.empty() && (!pairs_.back().is_complete || thread != thread_))) return false;
  thread_ = thread;
  pairs_.push_back({.block = std::string(rest.substr(sizeof "free"))});
  return true;
}

std::string GivenBack::lines() {
  // Addresses are written in hexadecimal without leading zeros: a longer one is higher.
  const auto before = [](const Pair& a, const Pair& b) {
    const std::size_t length = a.block.find('\t'), other = b.block.find('\t');
    return length != other ? length < other : a.block < b.block;
  };
  if (!pairs_.empty()) std::sort(pairs_.begin(), pairs_.end() - !pairs_.back().is_complete, before);
  std::string text;
  for (const Pair& pair : pairs_) {
    text += thread_ + "\tfree\t" + pair.block;
    if (pair.is_complete) text += thread_ + "\tfreed\t" + pair.block;
  }
  pairs_.clear();
  return text;
}

bool Views::take(std::string_view line) {
  const auto [thread, rest] = parts_of(line);
  const bool is_empty = views_ == 0 && operators_.empty();
  if (!is_empty && thread != thread_) return false;
  if (rest.starts_with("op\t") && !has_number_of_autograd(rest)) {
    thread_ = thread;
    operators_.push_back({.begin = std::string(line)});
    return true;
  }
  if (!rest.starts_with("end\t") || operators_.empty()) return false;
  const std::int64_t inside = operators_.back().views;
  if (inside == 0 && !rest.ends_with("\tview\n")) return false;
  operators_.pop_back();
  (operators_.empty() ? views_ : operators_.back().views) += std::max<std::int64_t>(inside, 1);
  return true;
}

std::vector<std::string> Views::lines() {
  std::vector<std::string> lines;
  const auto tell = [&](std::int64_t views) {
    if (views > 0) lines.push_back(thread_ + "\tviews\t" + std::to_string(views) + "\n");
  };
  tell(std::exchange(views_, 0));
  for (Operator& one : operators_) {
    lines.push_back(std::move(one.begin));
    tell(one.views);
  }
  operators_.clear();
  return lines;
}

}  // namespace shardscope::recorder
