#include "sim/cost/cost_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/schedule/host_layout.h"
#include "sim/collectives/nccl_search.h"
#include "sim/cost/distinct_operations.h"
#include "sim/kernels/cudnn_time.h"
#include "sim/kernels/matmul_time.h"
#include "sim/kernels/memory_time.h"
#include "sim/kernels/work_time.h"

namespace shardscope {
namespace {

std::size_t index_of(KernelKind kind) { return static_cast<std::size_t>(kind); }

/// A profile's own peak, where it has one, goes before that of its data sheet.
FlopRate device_peak(const HardwareProfile& profile, Dtype dtype) {
  if (dtype == Dtype::float16) return profile.gpu->float16.value_or(profile.gpu->float32);
  return peak_of(profile, dtype);
}

RooflineFigures roofline_figures(const HardwareProfile& profile, Dtype dtype) {
  RooflineFigures figures{.multiprocessors = profile.gpu->multiprocessors,
                          .peak = device_peak(profile, dtype),
                          .memory_bandwidth = profile.memory_bandwidth,
                          .power_limit = profile.gpu->power_limit};
  if (dtype != Dtype::bfloat16 && dtype != Dtype::float16) return figures;
  for (const CardProducts& card : efficiency_of(profile.compute_capability).matmul.cards)
    if (card.card == profile.gpu->name) {
      figures.reached = card.reached;
      figures.reached_power = card.power;
    }
  return figures;
}

}  // namespace

CostModel::CostModel(const HardwareProfile& profile) : profile_(profile), collectives_(profile) {
  for (const KernelSample& sample : profile.kernels) {
    samples_[index_of(sample.kernel.kind())].push_back({cost_key(sample.kernel), sample.time});
    rates_[index_of(sample.kernel.kind())][sample.kernel.dtype()].add(sample);
  }
}

const KernelSample* CostModel::sample_of(const Kernel& kernel) const {
  const std::vector<KernelSample>& samples = samples_[index_of(kernel.kind())];
  const auto found = std::ranges::find(samples, cost_key(kernel), &KernelSample::kernel);
  return found == samples.end() ? nullptr : &*found;
}

const RateTable& CostModel::rates_of(const Kernel& kernel) const {
  static const RateTable none;
  const std::map<Dtype, RateTable>& by_dtype = rates_[index_of(kernel.kind())];
  const auto own = by_dtype.find(kernel.dtype());
  if (own != by_dtype.end() && !own->second.empty()) return own->second;
  for (const auto& [dtype, rates] : by_dtype)
    if (!rates.empty()) return rates;
  return none;
}

bool CostModel::borrows(const Kernel& kernel) const {
  if (sample_of(kernel) != nullptr) return false;
  const RateTable& rates = rates_of(kernel);
  if (rates.empty()) return kernel.dtype() == Dtype::bfloat16 && !profile_.peak_bfloat16;
  const auto own = rates_[index_of(kernel.kind())].find(kernel.dtype());
  return own == rates_[index_of(kernel.kind())].end() || &own->second != &rates;
}

Duration CostModel::kernel_time(const Kernel& kernel) const {
  if (const KernelSample* sample = sample_of(kernel)) return sample->time;
  const RateTable& rates = rates_of(kernel);
  if (rates.empty()) return work_time(device_work(kernel));
  return Duration::from_seconds(work_of(kernel) / rates.rate_at(rate_point(kernel)));
}

/// cuDNN rounds float32 to TF32 where there is such.
Duration CostModel::layer_time(const DeviceWork& work) const {
  const DeviceEfficiency& efficiency = efficiency_of(profile_.compute_capability);
  const bool rounds = work.dtype == Dtype::float32 && profile_.gpu->tf32;
  const Dtype dtype = rounds ? Dtype::bfloat16 : work.dtype;
  RooflineFigures figures = roofline_figures(profile_, dtype);
  if (rounds) figures.peak = *profile_.gpu->tf32;
  if (work.recurrent.layers > 0) return recurrent_time(work, dtype, figures, efficiency);
  const bool has_tensor_cores = rounds || size_of(work.dtype) == 2_B;
  if (has_tensor_cores) return convolution_time(work, dtype, figures, efficiency);
  return std::max(moving_time(WorkKind::pointwise, work.bytes, figures, efficiency),
                  computing_time(work.matmul, dtype, figures, efficiency));
}

Duration CostModel::work_time(const DeviceWork& work) const {
  const bool is_layer = work.convolution.channels > 0 || work.recurrent.layers > 0;
  if (profile_.gpu && is_layer) return layer_time(work);
  if (profile_.gpu)
    return shardscope::work_time(work, roofline_figures(profile_, work.dtype),
                                 efficiency_of(profile_.compute_capability));
  return std::max(work.flops / peak_of(profile_, work.dtype),
                  work.bytes / profile_.memory_bandwidth);
}

Duration CostModel::copy_time(Bytes read_and_written) const {
  if (profile_.gpu)
    return moving_time(WorkKind::copy, read_and_written, roofline_figures(profile_, Dtype::float32),
                       efficiency_of(profile_.compute_capability));
  return read_and_written / profile_.memory_bandwidth;
}

bool CostModel::is_host() const { return profile_.device == "cpu"; }

bool CostModel::knows_host_copies() const {
  return is_host() || profile_.host_to_device ||
         (profile_.node && profile_.node->pcie_generation > 0);
}

Duration CostModel::host_copy_time(Bytes bytes) const {
  const Duration within = copy_time(bytes * 2);
  if (is_host() || !knows_host_copies()) return within;
  if (const auto& link = profile_.host_to_device) return link->latency + bytes / link->bandwidth;
  const Bandwidth slot{pcie_rate(profile_.node->pcie_generation) * 1e9};
  return std::max(within, bytes / slot);
}

Duration CostModel::pageable_copy_time(Bytes bytes, CopyWay way) const {
  const auto& link =
      way == CopyWay::to_host ? profile_.pageable_to_host : profile_.pageable_to_device;
  const Duration locked = host_copy_time(bytes);
  return link ? std::max(locked, link->latency + bytes / link->bandwidth) : locked;
}

bool CostModel::knows_host_time() const {
  return is_host() || (profile_.node && profile_.node->host_memory_bandwidth);
}

Duration CostModel::host_time(Bytes moved, int ranks) const {
  if (is_host()) return moved / profile_.memory_bandwidth;
  if (!knows_host_time()) return {};
  const int sharing = std::clamp(ranks, 1, profile_.node->gpus);
  return moved * sharing / *profile_.node->host_memory_bandwidth;
}

Bytes payload_of(const Collective& collective) {
  return bytes_of(std::max(collective.elements_in, collective.elements_out), collective.dtype);
}

std::string offload_timing(const HardwareProfile& profile) {
  const CostModel costs(profile);
  if (costs.is_host()) return "";
  std::string text = "offload: ";
  text += costs.knows_host_time()
              ? "the host's update is timed by the bandwidth of the node's memory"
              : "the host's update takes no time (the profile has no node.host_memory_bandwidth)";
  text += costs.knows_host_copies()
              ? ", copies by the bandwidth of PCIe"
              : ", copies are timed as within the device (the profile has neither host_to_device "
                "nor node.pcie_generation)";
  return text + "; the device is idle during the update; a real step takes longer";
}

std::vector<std::string> assumptions(const Schedule& schedule, const HardwareProfile& profile) {
  const CostModel model(profile);
  std::vector<std::string> result;
  if (schedule.strategy.offload != Offload::none && !model.is_host())
    result.push_back(offload_timing(profile));
  for (const Dtype dtype : {Dtype::bfloat16, Dtype::float32}) {
    const auto borrowed = std::ranges::count_if(schedule.kernels, [&](const Kernel& kernel) {
      return kernel.dtype() == dtype && model.borrows(kernel);
    });
    if (borrowed == 0) continue;
    result.push_back(
        fmt::format("rates of {} kernels as measured or stated in another dtype (calibrate with "
                    "--precision {} measures them)",
                    name_of(dtype), name_of(schedule.strategy.precision)));
    break;
  }
  return result;
}

Duration operation_time(const Schedule& schedule, const Operation& op, const CostModel& model) {
  if (is_collective(op.kind)) {
    const Collective& collective = schedule.collectives[op.detail];
    return model.collective_time(op.kind, payload_of(collective),
                                 schedule.groups[collective.group.value]);
  }
  if (op.kind == OperationKind::copy) {
    const auto moved = moved_over_link(schedule, op);
    if (!moved) return model.copy_time(op.bytes);
    return is_pageable(schedule, op) ? model.pageable_copy_time(*moved, copy_way(schedule, op))
                                     : model.host_copy_time(*moved);
  }
  if (op.kind == OperationKind::host && op.work != Operation::no_work)
    return model.host_time(schedule.works[op.work].bytes, schedule.world);
  if (op.kind != OperationKind::compute && op.kind != OperationKind::optimizer) return {};
  if (op.stream == Stream::host && op.detail != Operation::no_kernel && !model.is_host())
    return model.host_time(op.bytes, schedule.world);
  if (op.detail != Operation::no_kernel) return model.kernel_time(schedule.kernels[op.detail]);
  if (op.work != Operation::no_work) return model.work_time(schedule.works[op.work]);
  return model.work_time({.dtype = op.dtype, .bytes = op.bytes, .flops = op.flops});
}

LinkUse link_use(const Schedule& schedule, const Operation& op, const CostModel& model) {
  if (!is_collective(op.kind)) return {};
  const Collective& collective = schedule.collectives[op.detail];
  return model.collectives()
      .cost(op.kind, payload_of(collective), schedule.groups[collective.group.value].ranks)
      .use;
}

std::vector<LinkUse> link_uses(const Schedule& schedule, const CostModel& model) {
  std::vector<LinkUse> uses;
  uses.reserve(schedule.operations.size());
  for (const Operation& op : schedule.operations) uses.push_back(link_use(schedule, op, model));
  return uses;
}

std::vector<Duration> operation_times(const Schedule& schedule, const CostModel& model) {
  const DistinctOperations distinct =
      distinct_operations(schedule, {0, static_cast<std::uint32_t>(schedule.operations.size())});
  std::vector<Duration> by_class;
  by_class.reserve(distinct.examples.size());
  for (const OperationId example : distinct.examples)
    by_class.push_back(operation_time(schedule, schedule.at(example), model));
  std::vector<Duration> times;
  times.reserve(distinct.class_of.size());
  for (const std::uint32_t of : distinct.class_of) times.push_back(by_class[of]);
  return times;
}

}  // namespace shardscope
