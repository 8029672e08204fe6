#include "sim/planner/second_step.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace shardscope::planner {
namespace {

constexpr std::uint32_t unknown = ~std::uint32_t{0};

std::span<const HostAction> rows_of(const Schedule& schedule, const Step& step) {
  return std::span(schedule.program.actions)
      .subspan(step.actions.begin, step.actions.end - step.actions.begin);
}

bool are_alike(const Schedule& schedule, const Operation& a, const Operation& b) {
  const auto told = [](const Operation& op) {
    return std::tie(op.name, op.kind, op.stream, op.phase, op.dtype, op.micro_batch, op.recomputed,
                    op.work, op.owner, op.bytes, op.flops, op.issued_with_graph);
  };
  return told(a) == told(b) && (!is_collective(a.kind) ||
                                schedule.collectives[a.detail] == schedule.collectives[b.detail]);
}

bool are_alike(const Buffer& a, const Buffer& b) {
  const auto told = [](const Buffer& buffer) {
    return std::tie(buffer.bytes, buffer.copies, buffer.lane, buffer.on_host);
  };
  return told(a) == told(b);
}

/// Whether two rows of one schedule do the same, whatever the numbers of their buffers and events.
bool are_alike(const Schedule& schedule, const HostAction& a, const HostAction& b) {
  if (a.kind != b.kind || a.lane != b.lane) return false;
  switch (a.kind) {
    case HostActionKind::launch:
    case HostActionKind::run:
      return are_alike(schedule, schedule.operations[a.subject], schedule.operations[b.subject]);
    case HostActionKind::allocate:
    case HostActionKind::free:
    case HostActionKind::record_stream:
      return are_alike(schedule.buffers[a.subject], schedule.buffers[b.subject]);
    case HostActionKind::record_event:
    case HostActionKind::wait_event:
    case HostActionKind::host_wait:
      return true;
    case HostActionKind::mark:
      return schedule.program.marks[a.subject] == schedule.program.marks[b.subject];
    default:
      return a.subject == b.subject;
  }
}

/// By row of the first step: whether later steps have it, too.
std::vector<bool> repeated_rows(std::size_t rows, const FirstStepAlone& alone) {
  std::vector<bool> repeated(rows, true);
  for (const std::uint32_t row : alone.first_rows) repeated[row] = false;
  const auto end = repeated.end() - alone.behind;
  std::fill(end - alone.last_rows, end, false);
  return repeated;
}

/// What the rows that are repeated make and the step keeps, in the order of its making.
std::vector<std::uint32_t> left_by(const Schedule& schedule, std::span<const HostAction> rows,
                                   const std::vector<bool>& repeated) {
  std::vector<bool> freed(schedule.buffers.size(), false);
  for (const HostAction& row : rows)
    if (row.kind == HostActionKind::free) freed[row.subject] = true;
  std::vector<std::uint32_t> left;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].kind == HostActionKind::allocate && repeated[i] && !freed[rows[i].subject])
      left.push_back(rows[i].subject);
  return left;
}

std::vector<HostAction> second_step(const Schedule& schedule, const FirstStepAlone& alone) {
  const std::span<const HostAction> rows = rows_of(schedule, schedule.steps.front());
  const std::vector<bool> repeated = repeated_rows(rows.size(), alone);
  const std::vector<std::uint32_t> left = left_by(schedule, rows, repeated);
  std::vector<HostAction> result;
  result.reserve(rows.size() + left.size());
  auto wait = alone.waits.begin();
  std::uint32_t shared = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!repeated[i]) continue;
    if (shared == alone.lets_go_at)
      for (const std::uint32_t buffer : left)
        result.push_back({HostActionKind::free, schedule.buffers[buffer].lane, buffer});
    for (; wait != alone.waits.end() && wait->at == shared; ++wait) result.push_back(wait->row);
    result.push_back(rows[i]);
    ++shared;
  }
  return result;
}

/// Rows that name what the first step made, beside those that name what the second made.
class Comparison {
 public:
  explicit Comparison(const Schedule& schedule)
      : schedule_(schedule),
        buffers_(schedule.buffers.size(), unknown),
        events_(schedule.program.events, unknown) {}

  bool are_equal(std::span<const HostAction> written, std::span<const HostAction> recorded) {
    if (written.size() != recorded.size()) return false;
    for (std::size_t i = 0; i < written.size(); ++i)
      if (!are_alike(schedule_, written[i], recorded[i]) || !is_same(written[i], recorded[i]))
        return false;
    return true;
  }

 private:
  bool is_same(const HostAction& a, const HostAction& b) {
    switch (a.kind) {
      case HostActionKind::allocate:
        buffers_[a.subject] = b.subject;
        return true;
      case HostActionKind::free:
      case HostActionKind::record_stream:
        return names(buffers_, a, b);
      case HostActionKind::record_event:
        events_[a.subject] = b.subject;
        return true;
      case HostActionKind::wait_event:
      case HostActionKind::host_wait:
        return names(events_, a, b);
      default:
        return true;
    }
  }
  /// What this step has not made is from before it.
  static bool names(const std::vector<std::uint32_t>& made, const HostAction& a,
                    const HostAction& b) {
    return (made[a.subject] == unknown ? a.subject : made[a.subject]) == b.subject;
  }

  const Schedule& schedule_;
  std::vector<std::uint32_t> buffers_, events_;  // by number in the first step: in the second
};

/// Rows at the ends of both steps that are alike.
std::size_t alike_to_the_end(const Schedule& schedule, std::span<const HostAction> first,
                             std::span<const HostAction> second) {
  const std::size_t most = std::min(first.size(), second.size());
  std::size_t count = 0;
  while (count < most &&
         are_alike(schedule, first[first.size() - 1 - count], second[second.size() - 1 - count]))
    ++count;
  return count;
}

/// Goes through both steps side by side, up to the rows at the end that they share: the second has
/// the rows of the first in their order, without some and with a few more.
class Alignment {
 public:
  explicit Alignment(const Schedule& two_steps)
      : schedule_(two_steps),
        first_(rows_of(two_steps, two_steps.steps[0])),
        second_(rows_of(two_steps, two_steps.steps[1])),
        events_(two_steps.program.events, unknown) {}

  std::optional<FirstStepAlone> result() {
    alone_.behind = static_cast<std::uint32_t>(alike_to_the_end(schedule_, first_, second_));
    const std::size_t end = second_.size() - alone_.behind;
    while (at_second_ < end) {
      while (at_second_ < end && is_alike_here(0)) share();
      if (at_second_ == end) break;
      if (!pass_what_is_let_go() && !pass_waits() && !pass_first_rows()) return std::nullopt;
    }
    if (at_first_ + alone_.behind > first_.size()) return std::nullopt;
    alone_.last_rows = static_cast<std::uint32_t>(first_.size() - alone_.behind - at_first_);
    return alone_;
  }

 private:
  bool is_alike_here(std::size_t further_second) const {
    const std::size_t second = at_second_ + further_second;
    return at_first_ < first_.size() && second < second_.size() &&
           are_alike(schedule_, first_[at_first_], second_[second]);
  }

  void share() {
    if (first_[at_first_].kind == HostActionKind::record_event)
      events_[second_[at_second_].subject] = first_[at_first_].subject;
    ++at_first_;
    ++at_second_;
    ++shared_;
  }

  /// Frees of what is from before the step, all of them in one place.
  bool pass_what_is_let_go() {
    if (has_let_go_ || second_[at_second_].kind != HostActionKind::free) return false;
    while (at_second_ < second_.size() && second_[at_second_].kind == HostActionKind::free)
      ++at_second_;
    has_let_go_ = true;
    alone_.lets_go_at = shared_;
    return true;
  }

  bool pass_waits() {
    constexpr std::size_t most = 4;
    std::vector<FirstStepAlone::Wait> waits;
    for (HostAction row : second_.subspan(at_second_)) {
      if (row.kind != HostActionKind::wait_event || waits.size() == most) break;
      if (events_[row.subject] == unknown) return false;  // of the step before
      row.subject = events_[row.subject];
      waits.push_back({shared_, row});
    }
    if (waits.empty() || !is_alike_here(waits.size())) return false;
    alone_.waits.insert(alone_.waits.end(), waits.begin(), waits.end());
    at_second_ += waits.size();
    return true;
  }

  bool pass_first_rows() {
    constexpr std::size_t most_in_a_row = 256;
    const std::size_t end = std::min(first_.size(), at_first_ + most_in_a_row);
    for (std::size_t row = at_first_ + 1; row < end; ++row) {
      if (!are_alike(schedule_, first_[row], second_[at_second_])) continue;
      for (; at_first_ < row; ++at_first_)
        alone_.first_rows.push_back(static_cast<std::uint32_t>(at_first_));
      return true;
    }
    return false;
  }

  const Schedule& schedule_;
  const std::span<const HostAction> first_, second_;
  std::vector<std::uint32_t> events_;  // by event of the second step: that of the first
  std::size_t at_first_ = 0, at_second_ = 0;
  std::uint32_t shared_ = 0;
  bool has_let_go_ = false;
  FirstStepAlone alone_;
};

}  // namespace

std::optional<FirstStepAlone> first_step_alone(const Schedule& two_steps) {
  if (two_steps.steps.size() != 2) return std::nullopt;
  std::optional<FirstStepAlone> found = Alignment(two_steps).result();
  if (!found) return std::nullopt;
  const bool is_so = Comparison(two_steps).are_equal(second_step(two_steps, *found),
                                                     rows_of(two_steps, two_steps.steps[1]));
  return is_so ? found : std::nullopt;
}

bool add_second_step(const FirstStepAlone& alone, Schedule& first_step) {
  if (first_step.steps.size() != 1) return false;
  const Step step = first_step.steps.front();
  const std::size_t rows = step.actions.end - step.actions.begin;
  const std::size_t first = alone.first_rows.empty() ? 0 : alone.first_rows.back() + 1;
  if (rows < first + alone.last_rows + alone.behind) return false;
  const std::vector<HostAction> second = second_step(first_step, alone);
  std::vector<HostAction>& actions = first_step.program.actions;
  const auto begin = static_cast<std::uint32_t>(actions.size());
  actions.insert(actions.end(), second.begin(), second.end());
  first_step.steps.push_back({.label = "steady",
                              .operations = step.operations,
                              .actions = {begin, static_cast<std::uint32_t>(actions.size())}});
  return true;
}

}  // namespace shardscope::planner
