// An operator as the observer wrote it down, and what it asks of a device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/schedule/device_work.h"
#include "core/schedule/schedule.h"

namespace shardscope {

struct RecordedTensor {
  Dtype dtype = Dtype::float32;
  int parts = 1;  ///< numbers of this dtype in an element: 2 of complex128
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  ///< empty: contiguous
  bool on_device = true;

  std::int64_t elements() const;
  /// No more of an expanded tensor than there is.
  Bytes bytes() const;
};

/// The tensors of "bf16[4,8];3;{f32[2] f32[2]};cpu:i64[1]", lists one after the other. What is not
/// known of a type counts as one byte an element.
std::vector<RecordedTensor> tensors_of(std::string_view description);

/// As `Schedule::shapes` has them: "4x8 2" of "bf16[4,8];3;f32[2];f32[]".
std::string shapes_text(std::string_view description);

/// "aten.mm.default" of "aten::mm", "aten.add_.Tensor" of "aten::add_.Tensor".
std::string operator_name(std::string_view recorded);

/// A product that cuBLAS was asked for. `type` as cudaDataType has it.
struct RecordedProduct {
  MatmulShape shape;
  int type = 0;
};

struct RecordedCall {
  std::string name;  ///< `operator_name`
  std::vector<RecordedTensor> inputs, outputs;
  std::vector<bool> flags;            ///< its arguments that are true or false
  std::vector<std::int64_t> numbers;  ///< its arguments that are integers
  /// cuBLAS was asked for its product, which is an operation of its own.
  bool has_product = false;
};

/// Of the descriptions of its arguments and results. `name` as `RecordedCall` has it.
RecordedCall recorded_call(std::string name, std::string_view inputs, std::string_view outputs);

/// Of sizes that a damaged log may have: one below 0 counts as 0, and a product that is too large
/// is the largest number that a log has.
std::int64_t clamped_product(const std::vector<std::int64_t>& factors);
/// Of those on the device.
Bytes bytes_of(std::span<const RecordedTensor> tensors);

/// Zero where a damaged log has sizes that no memory holds.
MatmulShape possible(const MatmulShape& shape);
Flops flops_of(const MatmulShape& shape);

/// Of `launches` kernels of the call.
DeviceWork work_of(RecordedCall call, int launches);
/// Of an operator on tensors of the host: what it reads and writes of them.
DeviceWork host_work_of(RecordedCall call);
/// It reads its factors and writes its result once.
DeviceWork work_of(const RecordedProduct& product);

OperationKind kind_of_collective(std::string_view name);
/// A call of NCCL with `count` elements, of a group of `ranks`. `type` as ncclDataType has it.
Collective collective_of(OperationKind kind, std::int64_t count, std::int64_t type,
                         std::int64_t ranks);

}  // namespace shardscope
