#include "backend/calibrate/step_timer.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/calibrate/rank_group.h"
#include "backend/calibrate/straggling_samples.h"
#include "backend/comm/single/communicator.h"
#include "backend/executor/executor.h"
#include "core/base/bfloat16.h"
#include "core/base/median.h"

namespace shardscope {
namespace {

/// Spread evenly over [-0.02, 0.02), in no order that a product could cancel.
float made_up_weight(std::size_t index) {
  const std::uint32_t mixed = static_cast<std::uint32_t>(index) * 2654435761u;
  return (static_cast<float>(mixed >> 8) / 16777216.0f - 0.5f) * 0.04f;
}

template <class Element, class Convert>
void fill(std::span<std::byte> memory, Convert convert) {
  auto* values = reinterpret_cast<Element*>(memory.data());
  for (std::size_t i = 0; i < memory.size() / sizeof(Element); ++i)
    values[i] = convert(made_up_weight(i));
}

void fill_weights(std::span<std::byte> memory, Dtype dtype) {
  if (dtype == Dtype::bfloat16) return fill<Bfloat16>(memory, to_bfloat16);
  fill<float>(memory, [](float weight) { return weight; });
}

/// Rows of the smallest vocabulary that the schedule's kernels look tokens up in.
std::int64_t vocabulary_of(const Schedule& schedule) {
  std::int64_t vocabulary = 1;
  for (const Kernel& kernel : schedule.kernels)
    if (const auto* loss = kernel.get_if<CrossEntropyKernel>()) vocabulary = loss->classes;
  return vocabulary;
}

void fill_tokens(std::span<std::byte> memory, std::int64_t vocabulary) {
  auto* values = reinterpret_cast<std::int32_t*>(memory.data());
  for (std::size_t i = 0; i < memory.size() / sizeof(std::int32_t); ++i)
    values[i] = static_cast<std::int32_t>(i * 2654435761u % static_cast<std::uint64_t>(vocabulary));
}

/// Is the buffer the token input of an operation: operand 0 of embeddings and the loss.
bool holds_tokens(const Schedule& schedule, BufferId buffer) {
  return std::any_of(schedule.operations.begin(), schedule.operations.end(),
                     [&](const Operation& op) {
                       if (op.kind != OperationKind::compute) return false;
                       const KernelKind kind = schedule.kernels[op.detail].kind();
                       const bool reads_tokens = kind == KernelKind::embedding_forward ||
                                                 kind == KernelKind::embedding_backward ||
                                                 kind == KernelKind::cross_entropy;
                       return reads_tokens && schedule.operands_of(op)[0].buffer == buffer;
                     });
}

/// What is made up repeats after so many bytes: the weights of 1.6 billion parameters take a minute
/// to make.
constexpr std::size_t most_made = std::size_t{16} << 20;

void fill_persistent(Executor& executor) {
  const Schedule& schedule = executor.schedule();
  const PrecisionDtypes dtypes = dtypes_of(schedule.strategy.precision);
  for (std::size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    if (buffer.allocated_by) continue;
    const auto id = BufferId::of(i);
    const auto put = [&](const auto& fill_memory) {
      const std::span<std::byte> memory = executor.bytes(id);
      std::vector<std::byte> made(std::min(memory.size(), most_made));
      fill_memory(std::span<std::byte>(made));
      for (std::size_t at = 0; at < memory.size(); at += most_made)
        executor.memory_of(id).copy_in(
            memory.data() + at, std::span(made).first(std::min(most_made, memory.size() - at)));
    };
    if (buffer.category == MemoryCategory::parameters)
      put([&](std::span<std::byte> made) { fill_weights(made, dtypes.compute); });
    if (schedule.name(buffer).starts_with("master:"))
      put([&](std::span<std::byte> made) { fill_weights(made, dtypes.updated); });
    if (holds_tokens(schedule, id))
      put([&](std::span<std::byte> made) { fill_tokens(made, vocabulary_of(schedule)); });
  }
}

bool is_kernel(const Operation& op) {
  return op.kind == OperationKind::compute || op.kind == OperationKind::optimizer;
}

/// Durations of every call, by kernel.
std::vector<std::vector<Duration>> durations_by_kernel(const Executor& executor) {
  const Schedule& schedule = executor.schedule();
  std::vector<std::vector<Duration>> durations(schedule.kernels.size());
  for (const RecordedStep* step : executor.recorder().steps())
    for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
      const Operation& op = schedule.operations[i];
      if (!is_kernel(op) || op.phase == Phase::init) continue;
      durations[op.detail].push_back({step->operations[i].end_ns - step->operations[i].start_ns});
    }
  return durations;
}

/// Of every operation in order, in seconds.
std::vector<double> compute_of(const RecordedStep& step, const Schedule& schedule) {
  std::vector<double> seconds;
  for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
    const Operation& op = schedule.operations[i];
    if (!is_kernel(op) || op.phase == Phase::init) continue;
    seconds.push_back(Duration{step.operations[i].end_ns - step.operations[i].start_ns}.seconds());
  }
  return seconds;
}

Duration total(std::span<const double> seconds) {
  return Duration::from_seconds(std::accumulate(seconds.begin(), seconds.end(), 0.0));
}

/// What the median step's compute takes over what its kernels' medians add up to.
double step_over_medians(const Executor& executor,
                         const std::vector<std::vector<Duration>>& durations) {
  std::vector<Duration> steps;
  for (const RecordedStep* step : executor.recorder().steps())
    steps.push_back(total(compute_of(*step, executor.schedule())));
  double medians = 0;
  for (const std::vector<Duration>& calls : durations)
    medians += median(calls).seconds() * static_cast<double>(calls.size());
  return median(steps).seconds() * static_cast<double>(steps.size()) / std::max(medians, 1e-9);
}

/// One step's operations cut into `parts`: seconds of each part, of every rank after the other.
std::vector<double> parts_of_all_ranks(Communicator& world, std::span<const double> operations,
                                       std::size_t parts) {
  std::vector<double> mine(parts);
  for (std::size_t i = 0; i < operations.size(); ++i)
    mine[i * parts / operations.size()] += operations[i];
  std::vector<double> all(parts * static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  return all;
}

/// Of every step and size of part.
std::vector<StragglingSample> straggling(Communicator& world, const Executor& executor,
                                         bool cores_are_shared) {
  std::vector<StragglingSample> samples;
  if (world.size() == 1) return samples;
  for (const std::size_t parts : {64, 16, 4, 1}) {
    if (parts > 1 && cores_are_shared) continue;
    for (const RecordedStep* step : executor.recorder().steps()) {
      const std::vector<double> operations = compute_of(*step, executor.schedule());
      if (operations.size() >= parts)
        samples.push_back(straggling_of(parts_of_all_ranks(world, operations, parts), parts));
    }
  }
  return samples;
}

void begin(Executor& executor) {
  fill_persistent(executor);
  executor.run_init();
}

/// On the host's clock, until the device is done.
Duration run_step(Executor& executor, int step) {
  const std::int64_t begin_ns = monotonic_ns();
  executor.run_step({.learning_rate = 1e-5, .step = step});
  executor.device_memory().wait();
  return {monotonic_ns() - begin_ns};
}

Duration overhead_of(const RecordedStep& step, const Schedule& schedule) {
  std::int64_t rest_ns = step.end_ns - step.begin_ns;
  std::int64_t operations = 0;
  for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
    if (schedule.operations[i].phase == Phase::init) continue;
    rest_ns -= step.operations[i].end_ns - step.operations[i].start_ns;
    ++operations;
  }
  return {std::max<std::int64_t>(rest_ns, 0) / std::max<std::int64_t>(operations, 1)};
}

}  // namespace

MeasuredStep time_step(Communicator& world, Device& device, const Schedule& schedule,
                       const CoreUse& cores, int steps) {
  const std::unique_ptr<Communicator> alone = make_single_communicator(device.memory());
  Executor executor(schedule, device, *alone, {.recorded_steps = static_cast<std::size_t>(steps)});
  begin(executor);
  std::vector<Duration> steps_taken;
  for (int step = 0; step <= steps; ++step) {
    world.barrier();
    steps_taken.push_back(run_step(executor, step + 1));
  }

  MeasuredStep times;
  const std::vector<std::vector<Duration>> durations = durations_by_kernel(executor);
  const double factor =
      cores.are_shared() ? mean_over_ranks(world, step_over_medians(executor, durations)) : 1;
  for (std::size_t i = 0; i < durations.size(); ++i) {
    if (durations[i].empty()) continue;
    const Duration time =
        mean_over_ranks(world, Duration::from_seconds(median(durations[i]).seconds() * factor));
    times.kernels.push_back({schedule.kernels[i], std::max(time, Duration{1})});
  }
  std::vector<Duration> overheads;
  for (const RecordedStep* step : executor.recorder().steps())
    overheads.push_back(overhead_of(*step, schedule));
  times.operation_overhead = mean_over_ranks(world, median(overheads));
  const Duration later = median(std::vector(steps_taken.begin() + 1, steps_taken.end()));
  times.first_step_overhead =
      mean_over_ranks(world, std::max(steps_taken.front() - later, Duration{}));
  times.straggling = straggling(world, executor, cores.are_shared());
  return times;
}

}  // namespace shardscope
