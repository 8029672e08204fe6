#include "core/pytorch/runtimes/record/repeated_step.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace shardscope {
namespace {

/// The numbers that a step gives, one after the other.
struct Numbers {
  std::uint32_t begin = std::numeric_limits<std::uint32_t>::max(), end = 0;
  void note(std::uint32_t number) {
    begin = std::min(begin, number);
    end = std::max(end, number + 1);
  }
  std::uint32_t count() const { return end > begin ? end - begin : 0; }
};

/// Of a step: who comes and goes.
struct Made {
  Numbers buffers, events, marks;
  std::vector<std::uint32_t> left;    ///< its own buffers that it does not let go
  std::vector<std::uint32_t> let_go;  ///< buffers from before that it lets go
};

Made made_by(const Schedule& schedule, const Step& step) {
  Made made;
  std::vector<std::uint32_t> freed;
  for (std::uint32_t row = step.actions.begin; row < step.actions.end; ++row) {
    const HostAction& action = schedule.program.actions[row];
    if (action.kind == HostActionKind::allocate) made.buffers.note(action.subject);
    if (action.kind == HostActionKind::free) freed.push_back(action.subject);
    if (action.kind == HostActionKind::record_event) made.events.note(action.subject);
    if (action.kind == HostActionKind::mark) made.marks.note(action.subject);
  }
  std::ranges::sort(freed);
  for (const std::uint32_t buffer : freed)
    if (made.buffers.count() == 0 || buffer < made.buffers.begin) made.let_go.push_back(buffer);
  for (std::uint32_t buffer = made.buffers.begin; buffer < made.buffers.end; ++buffer)
    if (!std::ranges::binary_search(freed, buffer)) made.left.push_back(buffer);
  return made;
}

class Repetition {
 public:
  Repetition(Schedule& schedule, ProgramWriter& writer)
      : schedule_(schedule),
        writer_(writer),
        step_(schedule.steps.back()),
        made_(made_by(schedule, step_)),
        operations_(step_.operations.size()) {}

  bool is_possible() const {
    return std::ranges::equal(made_.left, made_.let_go, [&](std::uint32_t a, std::uint32_t b) {
      const Buffer &one = schedule_.buffers[a], &other = schedule_.buffers[b];
      return one.bytes == other.bytes && one.copies == other.copies && one.lane == other.lane &&
             one.on_host == other.on_host && one.owner == other.owner;
    });
  }

  void append(std::string label) {
    make_room();
    number_buffers();
    const std::uint32_t first_action = writer_.next_action();
    const std::uint32_t first_operation = writer_.next_operation();
    add_buffers();
    for (std::uint32_t mark = 0; mark < made_.marks.count(); ++mark)
      schedule_.program.marks.push_back(schedule_.program.marks[made_.marks.begin + mark]);
    for (std::uint32_t row = step_.actions.begin; row < step_.actions.end; ++row)
      write_again(schedule_.program.actions[row]);
    schedule_.steps.push_back({.label = std::move(label),
                               .operations = {first_operation, writer_.next_operation()},
                               .actions = {first_action, writer_.next_action()}});
  }

 private:
  void make_room() {
    const auto room = [](auto& rows, std::size_t more) { rows.reserve(rows.size() + more); };
    room(schedule_.program.actions, step_.actions.size());
    room(schedule_.operations, operations_);
    room(schedule_.buffers, made_.buffers.count());
  }

  /// By buffer: what stands for it in the copy.
  void number_buffers() {
    later_.resize(schedule_.buffers.size());
    for (std::uint32_t id = 0; id < later_.size(); ++id)
      later_[id] = id < made_.buffers.begin ? id : id + made_.buffers.count();
    for (std::size_t i = 0; i < made_.left.size(); ++i) later_[made_.let_go[i]] = made_.left[i];
  }

  OperationId later(OperationId id) const { return id ? OperationId{id.value + operations_} : id; }

  /// What is said of a buffer late in its life is said of those that the step has let go.
  void add_buffers() {
    for (std::uint32_t id = made_.buffers.begin; id < made_.buffers.end; ++id) {
      Buffer buffer = schedule_.buffers[id];
      buffer.allocated_by = later(buffer.allocated_by);
      buffer.freed_by = later(buffer.freed_by);
      schedule_.buffers.push_back(buffer);
    }
    for (std::size_t i = 0; i < made_.left.size(); ++i) {
      Buffer& left = schedule_.buffers[made_.left[i]];
      const Buffer& before = schedule_.buffers[made_.let_go[i]];
      left.name = before.name;
      left.category = before.category;
      left.unit = before.unit;
      left.freed_by = later(before.freed_by);
    }
  }

  /// Its `after` is the writer's.
  Operation again(Operation op) {
    ++op.step;
    const auto first = static_cast<std::uint32_t>(schedule_.operands.size());
    for (std::uint32_t i = op.operands.begin; i < op.operands.end; ++i) {
      Operand operand = schedule_.operands[i];
      if (operand.buffer) operand.buffer = BufferId{later_[operand.buffer.value]};
      schedule_.operands.push_back(operand);
    }
    if (op.operands.size() > 0)
      op.operands = {first, static_cast<std::uint32_t>(schedule_.operands.size())};
    return op;
  }

  void write_again(HostAction action) {
    switch (action.kind) {
      case HostActionKind::launch:
        writer_.launch(action.lane, again(schedule_.operations[action.subject]));
        break;
      case HostActionKind::run:
        writer_.run(action.lane, again(schedule_.operations[action.subject]));
        break;
      case HostActionKind::allocate:
      case HostActionKind::free:
      case HostActionKind::record_stream:
        writer_.add(action.kind, action.lane, later_[action.subject]);
        break;
      case HostActionKind::record_event:
        writer_.record_event(action.lane);
        break;
      case HostActionKind::wait_event:
        writer_.wait_event(action.lane, action.subject + made_.events.count());
        break;
      case HostActionKind::host_wait:
        writer_.add(action.kind, action.lane, action.subject + made_.events.count());
        break;
      case HostActionKind::mark:
        writer_.add(action.kind, action.lane, action.subject + made_.marks.count());
        break;
      default:
        writer_.add(action.kind, action.lane, action.subject);
        break;
    }
  }

  Schedule& schedule_;
  ProgramWriter& writer_;
  const Step step_;
  const Made made_;
  const std::uint32_t operations_;
  std::vector<std::uint32_t> later_;
};

}  // namespace

bool repeat_last_step(Schedule& schedule, ProgramWriter& writer, std::string label) {
  Repetition repetition(schedule, writer);
  if (!repetition.is_possible()) return false;
  repetition.append(std::move(label));
  return true;
}

}  // namespace shardscope
