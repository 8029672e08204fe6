// DeepSpeed's own estimates of the memory for model states, as its functions return them.
// Source: deepspeed 0.19.8, runtime/zero/stage_1_and_2.py and stage3.py,
// estimate_zero2_model_states_mem_needs and estimate_zero3_model_states_mem_needs.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/quantities.h"
#include "core/pytorch/plans/module_tree.h"

namespace shardscope {

/// What the estimates know of a model.
struct EstimatorModel {
  std::int64_t elements = 0;                ///< a shared parameter counted once
  std::int64_t largest_layer_elements = 0;  ///< held by one module itself; stage 3 only
  bool operator==(const EstimatorModel&) const = default;
};

/// model_to_params of stage 3; that of stages 1 and 2 is `elements` alone.
EstimatorModel estimator_model(const ModuleTree& tree);

struct EstimatorCluster {
  int gpus_per_node = 1;
  int nodes = 1;
  double additional_buffer_factor = 1.5;  ///< by which memory of the CPU is multiplied
};

/// What is kept in the memory of the CPU.
struct EstimatorOffload {
  bool optimizer = true;   ///< cpu_offload
  bool parameters = true;  ///< cpu_offload_params; stage 3 only, and only with `optimizer`
  bool zero_init = true;   ///< the model is built under zero.Init; stage 3 only
  bool operator==(const EstimatorOffload&) const = default;
};

struct MemoryEstimate {
  Bytes per_node_cpu;
  Bytes per_gpu;
  Bytes largest_layer;  ///< stage 3 only, and part of per_gpu
  bool operator==(const MemoryEstimate&) const = default;
};

/// Numbers are floored as Python's int() floors them. Throws Error for models beyond 5e14 elements,
/// from where Python's own integers and doubles part, and for what does not fit 2^63 bytes.
/// Example: 2,851,000,000 elements on one node of 8 GPUs, offloaded: 136,848,000,000 bytes of the
/// CPU and 5,702,000,000 of each GPU.
MemoryEstimate estimate_zero2(const EstimatorModel& model, const EstimatorCluster& cluster,
                              const EstimatorOffload& offload);
MemoryEstimate estimate_zero3(const EstimatorModel& model, const EstimatorCluster& cluster,
                              const EstimatorOffload& offload);

struct EstimateRow {
  int stage = 2;
  EstimatorOffload offload;
  MemoryEstimate memory;
  bool operator==(const EstimateRow&) const = default;
};

/// The rows that ..._mem_needs_all_cold prints, stage 2 before stage 3; ..._all_live counts the
/// model first (estimator_model).
std::vector<EstimateRow> estimate_all(const EstimatorModel& model, const EstimatorCluster& cluster);

}  // namespace shardscope
