// What a step, an operation or a capture is told to all probes with: an end for every begin, also
// when an error passes through.
#pragma once

#include <cstdint>
#include <span>

#include "backend/executor/probe.h"
#include "core/schedule/schedule.h"

namespace shardscope {

class StepScope {
 public:
  StepScope(std::span<Probe* const> probes, std::int64_t step) : probes_(probes) {
    for (Probe* probe : probes_) probe->begin_step(step);
  }
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;
  ~StepScope() {
    for (Probe* probe : probes_) probe->end_step();
  }

 private:
  std::span<Probe* const> probes_;
};

class OperationScope {
 public:
  OperationScope(std::span<Probe* const> probes, OperationId operation)
      : probes_(probes), operation_(operation) {
    for (Probe* probe : probes_) probe->begin(operation_);
  }
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;
  ~OperationScope() {
    for (Probe* probe : probes_) probe->end(operation_);
  }

 private:
  std::span<Probe* const> probes_;
  OperationId operation_;
};

}  // namespace shardscope
