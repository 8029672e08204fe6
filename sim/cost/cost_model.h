// CostModel: how long an operation of a schedule takes on a machine, when it runs alone.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/quantities.h"
#include "core/schedule/kernel.h"
#include "core/schedule/schedule.h"
#include "sim/collectives/collective_model.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/hardware/rate_table.h"

namespace shardscope {

/// Costs from a profile's samples where it has some, from its data sheet otherwise. Refers to the
/// profile, which must outlive it.
class CostModel {
 public:
  explicit CostModel(const HardwareProfile& profile);

  /// A kernel that was measured: its time. Else by the rate measured at the nearest ones of its
  /// kind and dtype, or where there are none of that dtype of the other's
  /// (sim/hardware/rate_table.h). Else its work's, where the profile holds a GPU's data sheet; else
  /// a roofline: the larger of flops / peak and bytes / memory bandwidth (Williams, Waterman,
  /// Patterson: Roofline, CACM 52, 2009).
  Duration kernel_time(const Kernel& kernel) const;

  /// The profile knows nothing of this kernel's dtype: its time is taken from figures of another.
  bool borrows(const Kernel& kernel) const;

  const CollectiveModel& collectives() const { return collectives_; }
  Duration collective_time(OperationKind kind, Bytes payload, const Group& group) const {
    return collectives_.cost(kind, payload, group.ranks).time;
  }

  /// On a GPU whose data sheet the profile holds by the model of its architecture
  /// (sim/kernels/work_time.h), else by the roofline.
  Duration work_time(const DeviceWork& work) const;

  /// Read once and written once at memory bandwidth.
  Duration copy_time(Bytes read_and_written) const;
  /// Of `bytes` between the host's memory and the device, either way: over the profile's
  /// host_to_device, or the PCIe slot of its node. Where it has neither (`knows_host_copies`), as a
  /// copy within the device.
  Duration host_copy_time(Bytes bytes) const;
  bool knows_host_copies() const;
  /// The same where the host's memory is not locked: the driver copies it through a buffer of its
  /// own. By the profile's pageable_to_device and pageable_to_host; without them as the others.
  Duration pageable_copy_time(Bytes bytes, CopyWay way) const;
  /// Of what the host's processor reads and writes of its own memory while `ranks` do the same, at
  /// the rate of the node's memory. Where the profile does not say that, 0.
  Duration host_time(Bytes moved, int ranks) const;
  bool knows_host_time() const;
  /// The device works on the host's memory.
  bool is_host() const;

 private:
  Duration layer_time(const DeviceWork& work) const;
  const KernelSample* sample_of(const Kernel& kernel) const;
  const RateTable& rates_of(const Kernel& kernel) const;

  const HardwareProfile& profile_;
  std::array<std::vector<KernelSample>, kernel_kind_count> samples_;  ///< with cost keys as kernels
  std::array<std::map<Dtype, RateTable>, kernel_kind_count> rates_;
  CollectiveModel collectives_;
};

/// How the host's part of a step with offload is timed, for people. Empty where the device is the
/// host.
std::string offload_timing(const HardwareProfile& profile);

/// What costs of this schedule on this profile take for granted, for people.
std::vector<std::string> assumptions(const Schedule& schedule, const HardwareProfile& profile);

/// Payload of a collective: what comes out of a gather, what goes into a reduction.
Bytes payload_of(const Collective& collective);

/// Time of one operation when it runs alone.
Duration operation_time(const Schedule& schedule, const Operation& op, const CostModel& model);

/// Of every operation, which links it keeps busy: of collectives by a cluster's model.
LinkUse link_use(const Schedule& schedule, const Operation& op, const CostModel& model);
std::vector<LinkUse> link_uses(const Schedule& schedule, const CostModel& model);

/// Time of every operation when it runs alone; each distinct one is costed once. What is looked at
/// of an operation is named in distinct_operations.cpp.
std::vector<Duration> operation_times(const Schedule& schedule, const CostModel& model);

}  // namespace shardscope
