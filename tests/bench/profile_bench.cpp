// What a profile costs training on the CPU: steps that are measured and steps that are not, in
// turn, by the wall clock and in processor time; and between steps, a window's opening and closing.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "backend/comm/single/communicator.h"
#include "backend/cpu/cpu_device.h"
#include "backend/executor/executor.h"
#include "backend/executor/profiled_trace.h"
#include "backend/job/make_communicator.h"
#include "backend/profile/memory_instrument.h"
#include "backend/profile/operation_counters.h"
#include "backend/profile/peer_waits.h"
#include "core/format/json_reader.h"
#include "core/model/huggingface.h"
#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"
#include "core/schedule/schedule.h"
#include "core/schedule/strategy.h"
#include "tests/backend/comm/forked_ranks.h"

namespace shardscope {
namespace {

struct Training {
  std::int64_t width, layers, vocabulary, batch, length;
};

std::string config_of(const Training& training) {
  return fmt::format(
      R"({{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": {}, "n_positions": {}, "n_embd": {}, "n_layer": {}, "n_head": {}}})",
      training.vocabulary, training.length, training.width, training.layers, training.width / 64);
}

Schedule schedule_of(const Training& training, const Device& device, ShardingStrategy sharding,
                     const Communicator& world) {
  const JsonValue config = JsonValue::parse(config_of(training), "bench");
  const Model model = model_of_config(config, {.dtype = Dtype::float32});
  const Strategy strategy = resolved({.sharding = sharding}, world.size(), "bench");
  const Workload workload{
      .batch = training.batch, .length = training.length, .micro_batches = 1, .optimizer = {}};
  return native_schedule(model, strategy, workload, world.rank(), device.target());
}

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double quantile(std::vector<double> values, double at) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(std::lround(at * static_cast<double>(values.size() - 1)))];
}

struct StepCost {
  double wall = 0, processor = 0;  ///< seconds; of all threads of this process
};

/// Steps in pairs, of which one is measured: off, on, on, off, ...
class Pairs {
 public:
  Pairs(Executor& executor, std::vector<std::unique_ptr<Instrument>> instruments)
      : executor_(executor), instruments_(std::move(instruments)) {
    for (const auto& instrument : instruments_) {
      if (Probe* probe = instrument->probe()) probes_.push_back(probe);
    }
  }

  void open() {
    for (const auto& instrument : instruments_) instrument->start();
  }
  Trace close() {
    for (const auto& instrument : instruments_) instrument->stop();
    Trace trace = profiled_trace(executor_, "bench", 0);
    for (const auto& instrument : instruments_) instrument->add_to(trace, {});
    return trace;
  }

  void run(int pairs) {
    step(false);
    step(true);
    for (int pair = 0; pair < pairs; ++pair) {
      const bool on_first = pair % 2 != 0;
      const StepCost first = step(on_first);
      const StepCost second = step(!on_first);
      on_.push_back(on_first ? first : second);
      off_.push_back(on_first ? second : first);
    }
  }

  /// Ratio of medians less one, and its standard error by the quartiles of the pairs' ratios.
  void report(benchmark::State& state, const std::string& name, double StepCost::*part) const {
    std::vector<double> on, off, ratios;
    for (std::size_t i = 0; i < on_.size(); ++i) {
      on.push_back(on_[i].*part);
      off.push_back(off_[i].*part);
      ratios.push_back(on.back() / off.back());
    }
    state.counters[name + "_%"] = (quantile(on, 0.5) / quantile(off, 0.5) - 1) * 100;
    // A normal distribution's quartiles lie 1.35 sigma apart, its median scatters by 1.25 sigma /
    // sqrt(n).
    state.counters[name + "_error_%"] = (quantile(ratios, 0.75) - quantile(ratios, 0.25)) / 1.35 *
                                        1.25 / std::sqrt(static_cast<double>(ratios.size())) * 100;
    state.counters[name + "_ms"] = quantile(off, 0.5) * 1e3;
  }

  StepCost step(bool measured) {
    executor_.set_probes(measured ? probes_ : std::vector<Probe*>());
    const StepCost begin{seconds_of(CLOCK_MONOTONIC), seconds_of(CLOCK_PROCESS_CPUTIME_ID)};
    executor_.run_step({.learning_rate = 0, .step = ++number_});
    return {seconds_of(CLOCK_MONOTONIC) - begin.wall,
            seconds_of(CLOCK_PROCESS_CPUTIME_ID) - begin.processor};
  }

 private:
  Executor& executor_;
  std::vector<std::unique_ptr<Instrument>> instruments_;
  std::vector<Probe*> probes_;
  std::int64_t number_ = 0;
  std::vector<StepCost> on_, off_;
};

std::vector<std::unique_ptr<Instrument>> all_instruments(Executor& executor, Communicator& world) {
  std::vector<std::unique_ptr<Instrument>> instruments;
  instruments.push_back(
      std::make_unique<OperationCounters>(executor.schedule(), threads_of(executor, 1)));
  instruments.push_back(
      std::make_unique<PeerWaits>(executor, world, [] { return std::int64_t{0}; }));
  instruments.push_back(std::make_unique<MemoryInstrument>(executor, std::vector<MemoryMark>()));
  return instruments;
}

void profiled_step(benchmark::State& state, const Training& training) {
  const std::unique_ptr<Device> device = make_cpu_device({.threads = 1});
  const std::unique_ptr<Communicator> world = make_single_communicator();
  const Schedule schedule = schedule_of(training, *device, ShardingStrategy::no_shard, *world);
  Executor executor(schedule, *device, *world, {.recorded_steps = 4});
  executor.run_init();
  Pairs pairs(executor, all_instruments(executor, *world));
  for (auto _ : state) {
    const double opening = seconds_of(CLOCK_MONOTONIC);
    pairs.open();
    state.counters["open_ms"] = (seconds_of(CLOCK_MONOTONIC) - opening) * 1e3;
    pairs.run(static_cast<int>(state.range(0)));
    const double closing = seconds_of(CLOCK_MONOTONIC);
    const Trace trace = pairs.close();
    state.counters["close_ms"] = (seconds_of(CLOCK_MONOTONIC) - closing) * 1e3;
    state.SetLabel(trace.recording.notes.front());
  }
  pairs.report(state, "wall", &StepCost::wall);
  pairs.report(state, "processor", &StepCost::processor);
  state.counters["operations"] = static_cast<double>(schedule.operations.size());
}

/// Between steps, in which nothing is trained.
struct WindowCost {
  double open = 0, close = 0;  ///< seconds, medians over windows
};

WindowCost window_cost(const Training& training, const Environment& place, int windows) {
  const std::unique_ptr<Device> device = make_cpu_device({.threads = 1});
  const std::unique_ptr<Communicator> world =
      make_communicator(CommunicatorChoice::shared_memory, place, std::chrono::seconds(60));
  const Schedule schedule = schedule_of(training, *device, ShardingStrategy::full_shard, *world);
  Executor executor(schedule, *device, *world, {.recorded_steps = 2});
  executor.run_init();
  Pairs steps(executor, all_instruments(executor, *world));
  std::vector<double> opening, closing;
  for (int window = 0; window < windows; ++window) {
    const double before = seconds_of(CLOCK_MONOTONIC);
    steps.open();
    opening.push_back(seconds_of(CLOCK_MONOTONIC) - before);
    for (int i = 0; i < 2; ++i) steps.step(true);
    const double after = seconds_of(CLOCK_MONOTONIC);
    benchmark::DoNotOptimize(steps.close());
    closing.push_back(seconds_of(CLOCK_MONOTONIC) - after);
  }
  // Nobody leaves while a peer may still read its memory.
  executor.between_steps([&] { world->barrier(); });
  return {.open = quantile(opening, 0.5), .close = quantile(closing, 0.5)};
}

/// Two ranks over shared memory: with what they exchange of when each came to its collectives.
void window(benchmark::State& state, const Training& training) {
  auto* cost = static_cast<WindowCost*>(::mmap(nullptr, sizeof(WindowCost), PROT_READ | PROT_WRITE,
                                               MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  for (auto _ : state) {
    testing::run_ranks(2, [&](const Environment& place) {
      const WindowCost own = window_cost(training, place, static_cast<int>(state.range(0)));
      if (place.rank == 0) *cost = own;
    });
  }
  state.counters["open_ms"] = cost->open * 1e3;
  state.counters["close_ms"] = cost->close * 1e3;
  ::munmap(cost, sizeof(WindowCost));
}

constexpr Training tiny{.width = 64, .layers = 4, .vocabulary = 256, .batch = 2, .length = 64};
constexpr Training small{.width = 256, .layers = 4, .vocabulary = 8192, .batch = 2, .length = 128};
constexpr Training gpt2{.width = 768, .layers = 12, .vocabulary = 50304, .batch = 1, .length = 128};
// First: what others leave running is not to be forked.
BENCHMARK_CAPTURE(window, gpt2_5m, small)->Arg(30)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(profiled_step, tiny, tiny)
    ->Arg(1000)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(profiled_step, gpt2_5m, small)
    ->Arg(200)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(profiled_step, gpt2_124m, gpt2)
    ->Arg(12)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shardscope
