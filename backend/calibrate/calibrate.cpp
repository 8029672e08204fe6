#include "backend/calibrate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "backend/calibrate/collective_timer.h"
#include "backend/calibrate/core_sharing.h"
#include "backend/calibrate/kernel_grid.h"
#include "backend/calibrate/kernel_timer.h"
#include "backend/calibrate/rank_group.h"
#include "backend/calibrate/step_timer.h"
#include "backend/calibrate/straggling_samples.h"
#include "backend/comm/nccl/tuning_log.h"

namespace shardscope {
namespace {

constexpr Duration kernel_budget = 30_ms;
constexpr Duration collective_budget = 40_ms;
constexpr Duration step_budget = 4_s;
constexpr Duration core_sharing_budget = 4_s;
constexpr Bytes contended_bytes = 8_MiB;
/// Of all ranks' payloads, so that each finds the caches cold.
constexpr Bytes more_than_caches = 64_MiB;
constexpr std::int64_t streamed_elements = 1 << 24;
constexpr std::int64_t streamed_elements_gpu = 1 << 27;

/// Of float32, for a plan that has none.
constexpr Kernel some_product = LinearForwardKernel{.rows = 2048, .in = 1024, .out = 1024};

class Calibrator {
 public:
  Calibrator(Communicator& world, Device& device, const CalibrationPlan& plan,
             const std::function<void(std::string_view)>& progress)
      : world_(world),
        device_(device),
        timer_(world, device, plan.cores),
        plan_(plan),
        progress_(progress) {}

  Calibration run() {
    measure_overhead();
    for (const Schedule& step : plan_.steps) measure_step(step);
    result_.straggling = pooled(std::move(result_.straggling));
    measure_core_sharing();
    measure_kernels();
    measure_memory();
    if (!device_.memory().is_host()) result_.host_copies = time_host_copies(device_.memory());
    result_.context_memory = memory_in_use();
    if (world_.size() > 1) measure_collectives();
    return std::move(result_);
  }

 private:
  bool known(const Kernel& kernel) const {
    return std::any_of(result_.kernels.begin(), result_.kernels.end(),
                       [key = cost_key(kernel)](const KernelSample& sample) {
                         return cost_key(sample.kernel) == key;
                       });
  }

  void measure_overhead() {
    result_.operation_overhead = timer_.launch_overhead();
    result_.graph_operation_overhead = timer_.graph_overhead();
  }

  void measure_step(const Schedule& schedule) {
    if (&schedule == &plan_.steps.front()) progress_("training steps, kernel by kernel");
    const MeasuredStep first = time_step(world_, device_, schedule, plan_.cores, 1);
    // Later ones find libraries and kernels loaded.
    if (&schedule == &plan_.steps.front()) result_.first_step_overhead = first.first_step_overhead;
    Duration step;
    for (const Operation& op : schedule.operations)
      for (const KernelSample& sample : first.kernels)
        if (sample.kernel == schedule.kernels[op.detail]) step += sample.time;
    const std::int64_t fits =
        step_budget.ns / std::ssize(plan_.steps) / std::max<std::int64_t>(step.ns, 1);
    const MeasuredStep times = time_step(world_, device_, schedule, plan_.cores,
                                         static_cast<int>(std::clamp<std::int64_t>(fits, 2, 10)));
    if (result_.kernels.empty() && device_.memory().is_host())
      result_.operation_overhead = times.operation_overhead;
    std::ranges::copy(times.straggling, std::back_inserter(result_.straggling));
    std::ranges::copy_if(times.kernels, std::back_inserter(result_.kernels),
                         [&](const KernelSample& sample) { return !known(sample.kernel); });
  }

  /// By the shortest step, whose micro-batch is as small as a pipeline's.
  void measure_core_sharing() {
    const bool on_one_host = plan_.cores.ranks == world_.size();
    if (plan_.steps.empty() || world_.size() == 1 || !device_.memory().is_host() || !on_one_host)
      return;
    progress_("pieces of the training step, passed from rank to rank");
    result_.core_sharing =
        time_core_sharing(world_, device_, plan_.steps.back(), core_sharing_budget);
  }

  void measure_kernels() {
    progress_("kernels over sizes");
    std::vector<Kernel> kernels;
    for (const Schedule& schedule : plan_.schedules)
      kernels.insert(kernels.end(), schedule.kernels.begin(), schedule.kernels.end());
    for (const Precision precision : {plan_.precision, Precision::fp32}) {
      if (!plan_.grid) break;
      const std::vector<Kernel> grid =
          kernel_grid(precision, device_.memory().is_host() ? GridFor::cpu : GridFor::gpu);
      kernels.insert(kernels.end(), grid.begin(), grid.end());
    }
    for (const Kernel& kernel : kernels)
      if (!known(kernel)) result_.kernels.push_back(timer_.time(kernel, kernel_budget));
    for (const KernelSample& sample : result_.kernels)
      if (sample.kernel.kind() == KernelKind::linear_forward) note_peak(sample);
    if (result_.peak == FlopRate{}) note_peak(timer_.time(some_product, kernel_budget));
  }

  void note_peak(const KernelSample& sample) {
    const FlopRate rate = rate_of(sample);
    if (sample.kernel.dtype() == Dtype::bfloat16)
      result_.peak_bfloat16 = std::max(result_.peak_bfloat16.value_or(rate), rate);
    else
      result_.peak = std::max(result_.peak, rate);
  }

  static FlopRate rate_of(const KernelSample& sample) {
    return {static_cast<double>(flops_of(sample.kernel).count) / sample.time.seconds()};
  }

  void measure_memory() {
    progress_("memory bandwidth");
    const AddKernel add{.elements =
                            device_.memory().is_host() ? streamed_elements : streamed_elements_gpu};
    const Duration time = timer_.time(add, 200_ms).time;
    result_.memory_bandwidth = {static_cast<double>(bytes_of(add).count) / time.seconds()};
  }

  /// Of one rank, once all of them hold what they will.
  std::optional<Bytes> memory_in_use() {
    world_.barrier();
    const std::optional<Bytes> all = device_.memory().in_use();
    world_.barrier();
    if (!all) return std::nullopt;
    return *all / plan_.ranks_on_device;
  }

  std::set<CollectiveCase> collective_cases() const {
    const std::vector<CollectiveCase> grid = collective_grid(world_.size());
    std::set<CollectiveCase> cases(grid.begin(), grid.end());
    for (const Schedule& schedule : plan_.schedules)
      for (const Operation& op : schedule.operations) {
        const bool timed = op.kind == OperationKind::all_gather ||
                           op.kind == OperationKind::reduce_scatter ||
                           op.kind == OperationKind::all_reduce;
        if (!timed) continue;
        const Group& group = schedule.groups[schedule.collectives[op.detail].group.value];
        const int ranks = static_cast<int>(group.ranks.size());
        if (ranks > 1) cases.insert({op.kind, ranks, op.bytes});
      }
    return cases;
  }

  void measure_collectives() {
    progress_("collectives");
    const std::set<CollectiveCase> cases = collective_cases();
    Bytes largest = contended_bytes;
    if (device_.memory().is_host()) largest = std::max(largest, more_than_caches / world_.size());
    for (const CollectiveCase& c : cases) largest = std::max(largest, c.bytes);
    CollectiveTimer timer(world_, device_, largest, plan_.cores);
    time_collectives(timer, cases);
    progress_("collectives while compute runs");
    const LinearForwardKernel product{.rows = 512, .in = 384, .out = 1536};
    const Slowdowns slowdowns = timer.slowdowns(product, contended_bytes);
    result_.compute_slowdown = slowdowns.compute;
    result_.collective_slowdown = slowdowns.collective;
    result_.compute_waits = device_.memory().is_host() && plan_.cores.all_compute();
  }

  /// Cases of one kind and group stand together.
  void time_collectives(CollectiveTimer& timer, const std::set<CollectiveCase>& cases) {
    NcclTuningLog log(plan_.nccl_log);
    std::optional<Bytes> before = memory_in_use();
    for (auto c = cases.begin(); c != cases.end(); ++c) {
      CollectiveSample sample = timer.time(*c, collective_budget);
      sample.choice = log.last_of(sample.kind, sample.ranks, sample.bytes);
      result_.collectives.push_back(sample);
      const auto next = std::next(c);
      if (next != cases.end() && next->kind == c->kind && next->ranks == c->ranks) continue;
      const std::optional<Bytes> after = memory_in_use();
      if (after)
        result_.collective_memory.push_back({c->kind, c->ranks, std::max(*after - *before, 0_B)});
      before = after;
    }
  }

  Communicator& world_;
  Device& device_;
  KernelTimer timer_;
  const CalibrationPlan& plan_;
  const std::function<void(std::string_view)>& progress_;
  Calibration result_;
};

}  // namespace

Calibration calibrate(Communicator& world, Device& device, const CalibrationPlan& plan,
                      const std::function<void(std::string_view)>& progress) {
  return Calibrator(world, device, plan, progress).run();
}

}  // namespace shardscope
