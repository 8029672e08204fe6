#include "backend/train/fault_injector.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "core/base/error.h"

namespace shardscope {
namespace {

constexpr std::array<std::pair<std::string_view, Fault::Kind>, 6> kinds{
    {{"kill", Fault::Kind::kill},
     {"hang", Fault::Kind::hang},
     {"slow", Fault::Kind::slow},
     {"flip", Fault::Kind::flip},
     {"nan", Fault::Kind::nan},
     {"write", Fault::Kind::write}}};

Error refused(const std::string& text) {
  return Error({.where = fault_variable,
                .what = fmt::format("\"{}\" is no fault", text),
                .way_out =
                    "give kill, hang, slow, flip, nan or write, then rank=R,step=S and, for flip "
                    "and nan always, operation=NAME: kill,rank=1,step=5"});
}

template <class Number>
Number number_of(std::string_view text, const std::string& whole) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) throw refused(whole);
  return number;
}

void set(Fault& fault, std::string_view key, std::string_view value, const std::string& whole) {
  if (key == "rank")
    fault.rank = number_of<int>(value, whole);
  else if (key == "step")
    fault.step = number_of<std::int64_t>(value, whole);
  else if (key == "seconds")
    fault.seconds = number_of<double>(value, whole);
  else if (key == "operation")
    fault.operation = value;
  else
    throw refused(whole);
}

class FaultInjector : public Probe {
 public:
  FaultInjector(Fault fault, const Executor& executor)
      : fault_(std::move(fault)), executor_(executor) {}

  void begin_step(std::int64_t step) override { armed_ = step == fault_.step && !done_; }

  void begin(OperationId operation) override {
    if (!is_here(operation)) return;
    switch (fault_.kind) {
      case Fault::Kind::kill:
        ::raise(SIGKILL);
        return;
      case Fault::Kind::hang:
        while (true) ::pause();
      case Fault::Kind::slow:
        done_ = true;
        armed_ = false;
        std::this_thread::sleep_for(std::chrono::duration<double>(fault_.seconds));
        return;
      case Fault::Kind::flip:
      case Fault::Kind::nan:
      case Fault::Kind::write:
        return;  // when it has written
    }
  }

  void end(OperationId operation) override {
    const bool spoils = fault_.kind == Fault::Kind::flip || fault_.kind == Fault::Kind::nan;
    if (spoils && is_here(operation)) spoil(operation);
  }

 private:
  bool is_here(OperationId operation) const {
    if (!armed_) return false;
    const Schedule& schedule = executor_.schedule();
    return fault_.operation.empty() ||
           schedule.names[schedule.operations[operation.value].name] == fault_.operation;
  }

  void spoil(OperationId operation) {
    const Schedule& schedule = executor_.schedule();
    for (const Operand& operand : schedule.operands_of(schedule.operations[operation.value])) {
      if (!operand.buffer || operand.access == Access::read) continue;
      std::byte* const number = executor_.bytes(operand.buffer).data() + operand.offset.count;
      std::array<std::byte, 4> value;  // little-endian
      executor_.device_memory().copy_out(value, number);
      if (fault_.kind == Fault::Kind::flip)
        value[3] ^= std::byte{0x40};
      else
        value.fill(std::byte{0xff});  // of float32 and bfloat16 alike
      executor_.device_memory().copy_in(number, value);
      done_ = true;
      armed_ = false;
      return;
    }
  }

  Fault fault_;
  const Executor& executor_;
  std::atomic<bool> armed_ = false, done_ = false;
};

}  // namespace

Fault parse_fault(const std::string& text) {
  Fault fault;
  std::string_view rest = text;
  for (bool first = true; !rest.empty(); first = false) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (first) {
      const auto* const kind = std::find_if(kinds.begin(), kinds.end(),
                                            [&](const auto& one) { return one.first == word; });
      if (kind == kinds.end()) throw refused(text);
      fault.kind = kind->second;
      continue;
    }
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) throw refused(text);
    set(fault, word.substr(0, equals), word.substr(equals + 1), text);
  }
  const bool spoils = fault.kind == Fault::Kind::flip || fault.kind == Fault::Kind::nan;
  if (text.empty() || (spoils && fault.operation.empty())) throw refused(text);
  return fault;
}

namespace {

std::optional<Fault> fault_of(const Variables& variables, int rank) {
  const auto asked = variables.find(fault_variable);
  if (asked == variables.end() || variables.contains(restart_variable)) return std::nullopt;
  Fault fault = parse_fault(asked->second);
  if (fault.rank != rank) return std::nullopt;
  return fault;
}

}  // namespace

std::unique_ptr<Probe> fault_injector_of(const Variables& variables, int rank,
                                         const Executor& executor) {
  std::optional<Fault> fault = fault_of(variables, rank);
  if (!fault || fault->kind == Fault::Kind::write) return nullptr;
  return std::make_unique<FaultInjector>(std::move(*fault), executor);
}

std::optional<std::int64_t> failing_save_of(const Variables& variables, int rank) {
  const std::optional<Fault> fault = fault_of(variables, rank);
  if (!fault || fault->kind != Fault::Kind::write) return std::nullopt;
  return fault->step;
}

}  // namespace shardscope
