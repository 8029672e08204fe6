// Graphs of operations that cuDNN makes one kernel of.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/quantities.h"

namespace shardscope::cuda {

/// A finalized or open descriptor of the backend API. Moves; what it names lives as long.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);

  template <class T>
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       std::span<const T> values) {
    set_raw(name, type, static_cast<std::int64_t>(values.size()), values.data());
    return *this;
  }
  template <class T>
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       const T& value) {
    return set<T>(name, type, std::span<const T>(&value, 1));
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, const CudnnDescriptor& other);
  /// Throws Error with cuDNN's reason.
  CudnnDescriptor& finalize();
  /// Empty: finalized. Else cuDNN's reason.
  std::string try_finalize();

  cudnnBackendDescriptor_t get() const { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(cudnnBackendDescriptor_t descriptor) const;
  };
  void set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
               std::int64_t count, const void* values);

  std::unique_ptr<std::remove_pointer_t<cudnnBackendDescriptor_t>, Destroy> handle_;
};

/// The device for which plans are made: one that is there, or one that is described.
CudnnDescriptor cudnn_device(int index);
/// `json`: as cuDNN writes it down for a device.
CudnnDescriptor cudnn_device(const std::string& json);

using CudnnShape = std::array<std::int64_t, 4>;

/// A tensor of a graph, by its place in it.
struct CudnnTensor {
  std::size_t index = 0;
};

/// An engine that was chosen for a graph, with what it wants.
struct CudnnPlan {
  CudnnDescriptor plan;
  Bytes workspace;
};

/// Builds a graph, operation by operation. All arithmetic is in float32.
class CudnnGraph {
 public:
  struct TensorShape {
    CudnnShape dimensions{};
    CudnnShape strides{};  ///< in elements
    cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
  };

  /// A tensor in memory; `id` names it when the plan runs.
  CudnnTensor tensor(std::int64_t id, const TensorShape& shape);
  /// A number that comes with the call.
  CudnnTensor scalar(std::int64_t id);
  /// One that is never written down, row by row.
  CudnnTensor between(const CudnnShape& dimensions, cudnnDataType_t type = CUDNN_DATA_FLOAT);

  /// Each gives its result, a new one or `out`.
  CudnnTensor pointwise(cudnnPointwiseMode_t mode, CudnnTensor a, CudnnTensor b,
                        std::optional<CudnnTensor> out = {});
  CudnnTensor pointwise(cudnnPointwiseMode_t mode, CudnnTensor a);
  /// `yes` where the mask is true, else `no`.
  CudnnTensor select(CudnnTensor mask, CudnnTensor yes, CudnnTensor no);
  /// Each element's index along an axis.
  CudnnTensor index_along(CudnnTensor like, std::int64_t axis);
  CudnnTensor greater_or_equal(CudnnTensor a, CudnnTensor b);
  CudnnTensor matmul(CudnnTensor a, CudnnTensor b, CudnnTensor out);
  CudnnTensor reduce(cudnnReduceTensorOp_t operation, CudnnTensor a, CudnnTensor out);
  /// The same elements with the last two dimensions swapped.
  CudnnTensor transpose(CudnnTensor a, cudnnDataType_t type);

  /// The first engine of cuDNN's choice that repeats bit for bit and wants no more workspace than
  /// that. None where there is none.
  std::optional<CudnnPlan> plan(const CudnnDescriptor& device, Bytes most_workspace) const;

 private:
  struct Tensor {
    TensorShape shape;
    CudnnDescriptor descriptor;
  };
  CudnnTensor add_tensor(std::int64_t id, const TensorShape& shape, bool is_virtual, bool by_value);
  CudnnTensor like(CudnnTensor a, cudnnDataType_t type);
  void add_operation(CudnnDescriptor operation);
  CudnnDescriptor& add_mode(cudnnPointwiseMode_t mode, cudnnDataType_t precision,
                            std::optional<std::int64_t> axis = {});
  const CudnnDescriptor& at(CudnnTensor tensor) const { return tensors_[tensor.index].descriptor; }

  std::vector<Tensor> tensors_;
  std::vector<CudnnDescriptor> settings_;  ///< of operations
  std::vector<CudnnDescriptor> operations_;
  std::int64_t next_virtual_id_ = 1000;
};

/// Pointers by the ids of a graph's tensors and scalars.
struct CudnnArgument {
  std::int64_t id = 0;
  void* pointer = nullptr;
};

/// Queues a plan on the handle's stream.
void run_plan(const CudnnPlan& plan, cudnnHandle_t handle, std::span<const CudnnArgument> arguments,
              void* workspace);

}  // namespace shardscope::cuda
