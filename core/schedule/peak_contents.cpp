#include "core/schedule/peak_contents.h"

#include <algorithm>

namespace shardscope {
namespace {

constexpr std::int64_t block_bytes = 512;

/// Goes through the program's actions and keeps what is alive.
class Walk {
 public:
  explicit Walk(const Schedule& schedule)
      : schedule_(schedule), alive_(schedule.buffers.size(), false) {}

  void to(std::uint32_t action) {
    for (; next_ < action; ++next_) act(schedule_.program.actions[next_]);
  }
  Bytes total() const { return total_; }

  ProgramContents contents() const {
    ProgramContents result{.action = next_ == 0 ? 0 : next_ - 1,
                           .operation = launched_,
                           .total = total_,
                           .buffers = {}};
    for (std::size_t i = 0; i < alive_.size(); ++i)
      if (alive_[i]) result.buffers.push_back(BufferId::of(i));
    return result;
  }

 private:
  Bytes size_of(std::uint32_t buffer) const {
    const Buffer& of = schedule_.buffers[buffer];
    return Bytes{(of.copy_bytes().count + block_bytes - 1) / block_bytes * block_bytes} * of.copies;
  }

  void act(const HostAction& action) {
    if (action.kind == HostActionKind::launch) launched_ = OperationId{action.subject};
    if (action.kind == HostActionKind::allocate) {
      alive_[action.subject] = true;
      total_ += size_of(action.subject);
    }
    if (action.kind == HostActionKind::free) {
      alive_[action.subject] = false;
      total_ -= size_of(action.subject);
    }
  }

  const Schedule& schedule_;
  std::vector<bool> alive_;
  std::uint32_t next_ = 0;
  OperationId launched_;
  Bytes total_;
};

}  // namespace

ProgramContents contents_at_peak(const Schedule& schedule, const Step& step) {
  Walk walk(schedule);
  walk.to(step.actions.begin);
  Bytes highest = walk.total();
  std::uint32_t peak = step.actions.begin;
  for (std::uint32_t next = step.actions.begin + 1; next <= step.actions.end; ++next) {
    walk.to(next);
    if (walk.total() <= highest) continue;
    highest = walk.total();
    peak = next;
  }
  Walk again(schedule);
  again.to(peak);
  return again.contents();
}

ProgramContents contents_before(const Schedule& schedule, OperationId operation) {
  const auto& actions = schedule.program.actions;
  const auto launch = std::find_if(actions.begin(), actions.end(), [&](const HostAction& action) {
    return action.kind == HostActionKind::launch && action.subject == operation.value;
  });
  Walk walk(schedule);
  walk.to(static_cast<std::uint32_t>(launch - actions.begin()));
  return walk.contents();
}

}  // namespace shardscope
