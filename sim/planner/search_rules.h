// What a search looks for, and what rules a choice out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/planner/bounds.h"
#include "sim/planner/search.h"

namespace shardscope::planner {

/// The choices that were given, and behind them those of opened groups.
class Choices {
 public:
  explicit Choices(const std::vector<Choice>& given) : given_(given) {}

  std::size_t size() const { return given_.size() + opened_.size(); }
  const Choice& operator[](std::size_t i) const {
    return i < given_.size() ? given_[i] : opened_[i - given_.size()];
  }
  void add(Choice choice) { opened_.push_back(std::move(choice)); }
  const std::vector<Choice>& given() const { return given_; }
  const std::deque<Choice>& opened() const { return opened_; }

 private:
  const std::vector<Choice>& given_;
  std::deque<Choice> opened_;
};

/// A choice that was simulated and, as far as is known, fits.
struct Contender {
  std::size_t choice = 0;
  Trial trial;
  bool is_estimate = false;  ///< of the trial
  std::optional<FullSimulation> full = {};
};

struct SearchRules {
  const TrialInputs& inputs;
  const SearchOptions& options;

  bool by_memory() const { return options.objective == Objective::memory; }
  Bytes capacity() const { return inputs.profile.memory; }
  bool exceeds(Bytes memory) const {
    return capacity() > Bytes{} && memory + inputs.margin > capacity();
  }
  bool exceeds_host(Bytes memory) const {
    return inputs.host_memory && memory > *inputs.host_memory;
  }
  /// What a node keeps of an offloading choice in the host's memory.
  Bytes on_host(const Choice& choice) const;
  bool is_too_slow(Duration time) const { return options.slowest && time > *options.slowest; }
  /// Where its figures are off by that factor.
  bool is_out(const Trial& trial, double factor) const;

  /// What is sought is the smallest of these.
  std::int64_t sought(Duration time, Bytes memory) const {
    return by_memory() ? memory.count : time.ns;
  }
  std::int64_t sought(const Bounds& bounds) const { return sought(bounds.time, bounds.memory); }
  std::int64_t sought(const Trial& trial) const { return sought(trial.time.span, trial.needed()); }
  auto order_of(const Contender& contender) const {
    const Trial& trial = contender.trial;
    return std::tuple(sought(trial), trial.time.span, trial.needed(), contender.choice);
  }
};

inline std::int64_t scaled(std::int64_t value, double factor) {
  return static_cast<std::int64_t>(static_cast<double>(value) * factor);
}

}  // namespace shardscope::planner
