#include "sim/planner/bounds.h"

#include <algorithm>
#include <map>
#include <type_traits>

#include "core/base/error.h"
#include "sim/engine/clock_options.h"
#include "sim/planner/estimate.h"
#include "sim/planner/parallel.h"
#include "sim/planner/pipeline_bounds.h"
#include "sim/planner/plain_step.h"
#include "sim/planner/sharding_bounds.h"
#include "sim/planner/torchtitan_floor.h"

namespace shardscope::planner {
namespace {

/// Gathers and reductions of one sharding have one communicator.
Duration communication_time(const Communication& c, const SharingRules& rules) {
  const Duration experts = c.expert_gathers + c.expert_reductions;
  // Replicas of experts and of all else are the same ranks, in groups that may be apart.
  const Duration replicas = std::max(c.between_replicas, c.between_expert_replicas);
  if (!rules.collectives_serial)
    return std::max(
        {c.gathers, c.reductions, replicas, c.second_copy, c.expert_gathers, c.expert_reductions});
  if (rules.communicators_apart)
    return std::max({c.gathers + c.reductions, replicas, c.second_copy, experts});
  return c.gathers + c.reductions + c.between_replicas + c.second_copy + experts +
         c.between_expert_replicas;
}

PerStep of_step(const ShardingBounds& sharding, int micro_batches) {
  const auto sum = [&](const auto& part) {
    return part(sharding.each) * micro_batches + part(sharding.further) * (micro_batches - 1) +
           part(sharding.once);
  };
  const auto communication = [&](Duration Communication::*part) {
    return sum([&](const PerStep& p) { return p.communication.*part; });
  };
  return {.communication = {.gathers = communication(&Communication::gathers),
                            .reductions = communication(&Communication::reductions),
                            .between_replicas = communication(&Communication::between_replicas),
                            .second_copy = communication(&Communication::second_copy),
                            .expert_gathers = communication(&Communication::expert_gathers),
                            .expert_reductions = communication(&Communication::expert_reductions),
                            .between_expert_replicas =
                                communication(&Communication::between_expert_replicas)},
          // Once a step is what every runtime has to expose.
          .exposed = sharding.each.exposed * (sharding.exposes_each ? micro_batches : 1) +
                     sharding.once.exposed,
          .serial = sum([](const PerStep& p) { return p.serial; }),
          .copies = sum([](const PerStep& p) { return p.copies; }),
          .moves = sum([](const PerStep& p) { return p.moves; })};
}

/// Compute is slowed by collectives that run beside it, and not by those that it waits for. While
/// it waits for those of another communicator (`awaited` of `compute`), they slow nothing.
Duration device_time(const PerStep& step, Duration compute, Duration awaited,
                     const SharingRules& rules) {
  const Duration communication = communication_time(step.communication, rules);
  const bool at_once = !rules.collectives_serial || rules.communicators_apart;
  const auto rest = [&](Duration taken) { return std::max(Duration{}, communication - taken); };
  const Duration exposed = std::min(step.exposed, rest(step.serial));
  const Duration beside =
      rest(step.serial + exposed + step.moves + (at_once ? awaited : Duration{}));
  const double slowed = 1 - 1 / rules.compute_slowdown;
  return std::max(communication, compute + step.moves + step.serial + exposed +
                                     Duration::from_seconds(beside.seconds() * slowed));
}

Bounds combined(const Choice& choice, const TrialInputs& inputs, const PlainStep& plain,
                const ShardingBounds& sharding) {
  const PerStep step = of_step(sharding, choice.micro_batches);
  const Duration compute = plain.compute * choice.micro_batches + step.copies + sharding.update;
  const ModelStates& states = sharding.states;
  const Bytes between = states.parameters + states.optimizer_states;
  const Bytes kept = choice.micro_batches > 1 ? sharding.kept_gradients : Bytes{};
  const bool native = choice.runtime == Runtime::native;
  const Bytes outside = native ? Bytes{} : inputs.profile.context_memory.value_or(Bytes{});
  SharingRules rules = sharing_rules(inputs.profile);
  if (native) rules.communicators_apart = false;
  return {
      .time = std::max(device_time(step, compute, plain.awaited * choice.micro_batches, rules),
                       (plain.host + sharding.host) * choice.micro_batches + sharding.host_once),
      .memory = outside + between +
                std::max(plain.activations + sharding.gathered + kept, states.gradients)};
}

/// From two numbers of blocks: kernels add up, and the most that activations take is, as a function
/// of the blocks, convex, so that the line through two points is never above it.
PlainStep extended_plain_step(const Choice& choice, const TrialInputs& inputs) {
  const bool can_be_cut = inputs.findings != nullptr && choice.runtime != Runtime::native;
  const int blocks = can_be_cut ? inputs.findings->shallow().blocks() : 0;
  const auto depths =
      blocks > 0 ? depths_of(blocks, std::max(1, choice.checkpointing.every)) : std::nullopt;
  if (!depths) return plain_step(choice, inputs);
  const PlainStep few = plain_step(choice, with_blocks(inputs, depths->few));
  const PlainStep more = plain_step(choice, with_blocks(inputs, depths->more));
  return {.compute = {depths->extended(few.compute.ns, more.compute.ns, blocks)},
          .awaited = {depths->extended(few.awaited.ns, more.awaited.ns, blocks)},
          .host = {depths->extended(few.host.ns, more.host.ns, blocks)},
          .activations = {depths->extended(few.activations.count, more.activations.count, blocks)}};
}

PlainStep known_plain_step(const Choice& choice, const TrialInputs& inputs) {
  if (inputs.findings == nullptr) return plain_step(choice, inputs);
  const PlainKey key = plain_key(choice);
  if (const auto known = inputs.findings->plain(key)) return *known;
  const PlainStep step = extended_plain_step(choice, inputs);
  inputs.findings->keep(key, step);
  return step;
}

ShardingBounds known_sharding_bounds(const Choice& choice, const TrialInputs& inputs) {
  if (inputs.findings == nullptr) return sharding_bounds(choice, inputs);
  const ShardingKey key = sharding_key(choice);
  if (const auto known = inputs.findings->sharding(key)) return *known;
  const ShardingBounds bounds = sharding_bounds(choice, inputs);
  inputs.findings->keep(key, bounds);
  return bounds;
}

/// Values of the keys that occur, computed side by side.
template <class Key, class Value>
class Table {
 public:
  void need(const Key& key, std::size_t choice) { examples_.try_emplace(key, choice); }

  template <class Compute>
  void fill(unsigned threads, const Compute& compute) {
    std::vector<std::pair<Key, std::size_t>> keys(examples_.begin(), examples_.end());
    std::vector<Value> values(keys.size());
    for_each_index(keys.size(), threads,
                   [&](std::size_t i) { values[i] = compute(keys[i].second); });
    for (std::size_t i = 0; i < keys.size(); ++i) values_.emplace(keys[i].first, values[i]);
  }
  const Value& at(const Key& key) const { return values_.at(key); }

 private:
  std::map<Key, std::size_t> examples_;
  std::map<Key, Value> values_;
};

/// Of what is not pipelined, from a plain step of each key.
template <class PlainStepOf>
std::vector<Bounds> bounds_with(const PlainStepOf& plain_step_of, const PipelineBounds& pipelines,
                                std::span<const Choice> choices, const TrialInputs& inputs,
                                unsigned threads, const std::stop_token& stop) {
  Table<PlainKey, PlainStep> plain;
  Table<ShardingKey, ShardingBounds> shardings;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (is_pipelined(choices[i]) || choices[i].tensor > 1) continue;
    plain.need(plain_key(choices[i]), i);
    shardings.need(sharding_key(choices[i]), i);
  }
  // What cannot be recorded or planned has no bound: trying it out says why.
  const auto or_nothing = [&](const auto& compute) {
    try {
      if (!stop.stop_requested()) return compute();
    } catch (const Error&) {
    }
    return std::invoke_result_t<decltype(compute)>{};
  };
  plain.fill(threads, [&](std::size_t i) {
    return or_nothing([&] { return plain_step_of(choices[i], inputs); });
  });
  shardings.fill(threads, [&](std::size_t i) {
    return or_nothing([&] { return known_sharding_bounds(choices[i], inputs); });
  });
  std::vector<Bounds> result;
  result.reserve(choices.size());
  for (const Choice& choice : choices)
    result.push_back(stop.stop_requested() || choice.tensor > 1 ? Bounds{}
                     : is_pipelined(choice)                     ? pipelines.of(choice)
                                            : combined(choice, inputs, plain.at(plain_key(choice)),
                                                       shardings.at(sharding_key(choice))));
  return result;
}

std::map<PlainKey, ModelCosts> cost_floors_of(std::span<const Choice> choices,
                                              const TrialInputs& inputs,
                                              const std::stop_token& stop) {
  std::map<PlainKey, ModelCosts> costs;
  for (const Choice& choice : choices) {
    if (stop.stop_requested()) break;
    const auto [of, is_new] = costs.try_emplace(plain_key(choice));
    if (is_new) try {
        of->second = torchtitan_cost_floor(choice, inputs);
      } catch (const Error&) {
        // Trying it out says why.
      }
  }
  return costs;
}

}  // namespace

std::vector<Bounds> bounds_of(std::span<const Choice> choices, const TrialInputs& inputs,
                              unsigned threads, const std::stop_token& stop) {
  PipelineBounds pipelines(inputs);
  return bounds_of(choices, inputs, threads, stop, pipelines);
}

std::vector<Bounds> bounds_of(std::span<const Choice> choices, const TrialInputs& inputs,
                              unsigned threads, const std::stop_token& stop,
                              PipelineBounds& known) {
  known.add(choices, threads, stop);
  return bounds_with(known_plain_step, known, choices, inputs, threads, stop);
}

namespace {

std::vector<Bounds> floors_of_some(std::span<const Choice> choices, const TrialInputs& inputs,
                                   const std::stop_token& stop) {
  std::vector<Choice> known, pipelined;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (!choices[i].torchtitan) continue;
    places.push_back(i);
    known.push_back(choices[i]);
    if (is_pipelined(choices[i])) pipelined.push_back(choices[i]);
  }
  PipelineBounds pipelines(inputs);
  pipelines.add(pipelined, cost_floors_of(pipelined, inputs, stop), stop);
  const std::vector<Bounds> found =
      bounds_with(torchtitan_floor, pipelines, known, inputs, 1, stop);
  std::vector<Bounds> result(choices.size());
  for (std::size_t i = 0; i < places.size(); ++i) result[places[i]] = found[i];
  return result;
}

}  // namespace

std::vector<Bounds> floors_of(std::span<const Choice> choices, const TrialInputs& inputs,
                              unsigned threads, const std::stop_token& stop) {
  // What neighbours share is found once for each part.
  constexpr std::size_t part = 1024;
  std::vector<Bounds> result(choices.size());
  for_each_index((choices.size() + part - 1) / part, threads, [&](std::size_t i) {
    const std::size_t first = i * part;
    std::ranges::copy(floors_of_some(choices.subspan(first, std::min(part, choices.size() - first)),
                                     inputs, stop),
                      result.begin() + static_cast<std::ptrdiff_t>(first));
  });
  return result;
}

}  // namespace shardscope::planner
