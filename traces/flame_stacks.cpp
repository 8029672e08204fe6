#include "traces/flame_stacks.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "traces/held_sum.h"

namespace shardscope {
namespace {

std::vector<std::string> frames_of(std::string_view first, ModuleName of) {
  std::vector<std::string> frames{std::string(first)};
  for (std::string& frame : module_frames(of.module)) frames.push_back(std::move(frame));
  if (!of.rest.empty()) frames.push_back(std::move(of.rest));
  return frames;
}

OperationKind kind_of(SpanClass span_class) {
  switch (span_class) {
    case SpanClass::communication:
      return OperationKind::barrier;
    case SpanClass::copy:
      return OperationKind::copy;
    case SpanClass::host:
    case SpanClass::annotation:
      return OperationKind::host;
    case SpanClass::compute:
      break;
  }
  return OperationKind::compute;
}

FlameStack stack_of(const Trace& trace, const OperationFacts& facts) {
  return {.frames = frames_of(name_of(facts.phase), module_of(trace, facts)),
          .look = {.kind = facts.kind, .phase = facts.phase}};
}

FlameStack stack_of(const Trace& trace, const Span& span) {
  return {.frames = {std::string(name_of(span.span_class)), std::string(trace.name(span))},
          .look = {.kind = kind_of(span.span_class)}};
}

/// Sums by key, in the order in which keys come first.
template <class Key>
class Sums {
 public:
  std::int64_t& of(Key key) {
    const auto [place, is_new] = places_.try_emplace(key, sums_.size());
    if (is_new) sums_.emplace_back(key, 0);
    return sums_[place->second].second;
  }
  const std::vector<std::pair<Key, std::int64_t>>& all() const { return sums_; }

 private:
  std::unordered_map<Key, std::size_t> places_;
  std::vector<std::pair<Key, std::int64_t>> sums_;
};

}  // namespace

ModuleName module_of(const Trace& trace, const OperationFacts& facts) {
  if (facts.module != OperationFacts::unnamed && !trace.names[facts.module].empty())
    return {.module = trace.names[facts.module], .rest = facts.name};
  return split_module(facts.name, facts.unit);
}

ModuleName module_of(const Trace& trace, const PredictedBuffer& buffer,
                     const OperationFacts* facts) {
  const bool has_module = facts != nullptr && facts->module != OperationFacts::unnamed &&
                          !trace.names[facts->module].empty();
  if (has_module) return {.module = trace.names[facts->module], .rest = buffer.name};
  return split_module(buffer.name, buffer.unit);
}

std::vector<FlameStack> time_stacks(const Trace& trace, TimeWindow window) {
  const FactsTable facts(trace);
  Sums<const OperationFacts*> by_operation;
  // Of spans without facts: name and class.
  Sums<std::uint64_t> by_name;
  constexpr std::uint64_t classes = 8;
  for (const Span& span : trace.spans) {
    if (!is_on_device(trace, span) || span.start < window.begin || span.start >= window.end)
      continue;
    const OperationFacts* of = facts.find(span.operation);
    std::int64_t& sum =
        of != nullptr
            ? by_operation.of(of)
            : by_name.of(span.name * classes + static_cast<std::uint64_t>(span.span_class));
    sum = held_sum(sum, std::max<std::int64_t>(0, span.duration.ns));
  }
  std::vector<FlameStack> stacks;
  const auto add = [&](FlameStack stack, std::int64_t amount) {
    stack.amount = amount;
    stacks.push_back(std::move(stack));
  };
  for (const auto& [of, amount] : by_operation.all()) add(stack_of(trace, *of), amount);
  for (const auto& [key, amount] : by_name.all())
    add(stack_of(trace, Span{.name = static_cast<std::uint32_t>(key / classes),
                             .span_class = static_cast<SpanClass>(key % classes)}),
        amount);
  return stacks;
}

}  // namespace shardscope
