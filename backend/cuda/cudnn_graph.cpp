#include "backend/cuda/cudnn_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/cudnn_library.h"
#include "core/base/error.h"

namespace shardscope::cuda {
namespace {

/// Descriptors that cuDNN fills, and how many it did.
std::vector<CudnnDescriptor> results_of(const CudnnDescriptor& heuristics, std::int64_t most) {
  std::vector<CudnnDescriptor> results;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < most; ++i) {
    results.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    handles.push_back(results.back().get());
  }
  std::int64_t count = 0;
  cudnn_check(cudnn().descriptor_get(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count, handles.data()),
              "cudnnBackendGetAttribute");
  results.erase(results.begin() + std::min(count, most), results.end());
  return results;
}

bool is_deterministic(const CudnnDescriptor& configuration) {
  const CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t handle = engine.get();
  std::int64_t count = 0;
  cudnn_check(cudnn().descriptor_get(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &handle),
              "cudnnBackendGetAttribute");
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  cudnn_check(cudnn().descriptor_get(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                     CUDNN_TYPE_NUMERICAL_NOTE,
                                     static_cast<std::int64_t>(notes.size()), &count, notes.data()),
              "cudnnBackendGetAttribute");
  return std::find(notes.begin(), notes.begin() + count, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) ==
         notes.begin() + count;
}

Bytes workspace_of(const CudnnDescriptor& plan) {
  std::int64_t bytes = 0, count = 0;
  cudnn_check(cudnn().descriptor_get(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, &count, &bytes),
              "cudnnBackendGetAttribute");
  return {bytes};
}

CudnnShape row_by_row(const CudnnShape& d) { return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}; }

}  // namespace

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  cudnn_check(cudnn().descriptor_create(type, &descriptor), "cudnnBackendCreateDescriptor");
  handle_.reset(descriptor);
}

void CudnnDescriptor::Destroy::operator()(cudnnBackendDescriptor_t descriptor) const {
  cudnn().descriptor_destroy(descriptor);
}

void CudnnDescriptor::set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                              std::int64_t count, const void* values) {
  cudnn_check(cudnn().descriptor_set(get(), name, type, count, values), "cudnnBackendSetAttribute");
}

CudnnDescriptor& CudnnDescriptor::set(cudnnBackendAttributeName_t name,
                                      const CudnnDescriptor& other) {
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.get());
}

std::string CudnnDescriptor::try_finalize() {
  const cudnnStatus_t result = cudnn().descriptor_finalize(get());
  return result == CUDNN_STATUS_SUCCESS ? "" : cudnn().error_string(result);
}

CudnnDescriptor& CudnnDescriptor::finalize() {
  cudnn_check(cudnn().descriptor_finalize(get()), "cudnnBackendFinalize");
  return *this;
}

CudnnDescriptor cudnn_device(int index) {
  CudnnDescriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, std::int32_t{index}).finalize();
  return device;
}

CudnnDescriptor cudnn_device(const std::string& json) {
  CudnnDescriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device
      .set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, std::span<const char>(json))
      .finalize();
  return device;
}

CudnnTensor CudnnGraph::add_tensor(std::int64_t id, const TensorShape& shape, bool is_virtual,
                                   bool by_value) {
  constexpr std::int64_t alignment = 16;
  CudnnDescriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, shape.type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
           std::span<const std::int64_t>(shape.dimensions))
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64,
           std::span<const std::int64_t>(shape.strides))
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual)
      .set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value)
      .finalize();
  tensors_.push_back({shape, std::move(descriptor)});
  return {tensors_.size() - 1};
}

CudnnTensor CudnnGraph::tensor(std::int64_t id, const TensorShape& shape) {
  return add_tensor(id, shape, false, false);
}

CudnnTensor CudnnGraph::scalar(std::int64_t id) {
  return add_tensor(id,
                    {.dimensions = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}, .type = CUDNN_DATA_FLOAT},
                    false, true);
}

CudnnTensor CudnnGraph::between(const CudnnShape& dimensions, cudnnDataType_t type) {
  return add_tensor(next_virtual_id_++,
                    {.dimensions = dimensions, .strides = row_by_row(dimensions), .type = type},
                    true, false);
}

CudnnTensor CudnnGraph::like(CudnnTensor a, cudnnDataType_t type) {
  return between(tensors_[a.index].shape.dimensions, type);
}

void CudnnGraph::add_operation(CudnnDescriptor operation) {
  operation.finalize();
  operations_.push_back(std::move(operation));
}

CudnnDescriptor& CudnnGraph::add_mode(cudnnPointwiseMode_t mode, cudnnDataType_t precision,
                                      std::optional<std::int64_t> axis) {
  CudnnDescriptor setting(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  setting.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, precision);
  if (axis) setting.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, *axis);
  settings_.push_back(std::move(setting.finalize()));
  return settings_.back();
}

CudnnTensor CudnnGraph::pointwise(cudnnPointwiseMode_t mode, CudnnTensor a, CudnnTensor b,
                                  std::optional<CudnnTensor> out) {
  const CudnnTensor result = out ? *out : like(a, CUDNN_DATA_FLOAT);
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, add_mode(mode, CUDNN_DATA_FLOAT))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(a))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(b))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(result));
  add_operation(std::move(operation));
  return result;
}

CudnnTensor CudnnGraph::pointwise(cudnnPointwiseMode_t mode, CudnnTensor a) {
  const CudnnTensor result = like(a, CUDNN_DATA_FLOAT);
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, add_mode(mode, CUDNN_DATA_FLOAT))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(a))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(result));
  add_operation(std::move(operation));
  return result;
}

CudnnTensor CudnnGraph::select(CudnnTensor mask, CudnnTensor yes, CudnnTensor no) {
  const CudnnTensor result = like(yes, CUDNN_DATA_FLOAT);
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation
      .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
           add_mode(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(yes))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(no))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, at(mask))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(result));
  add_operation(std::move(operation));
  return result;
}

CudnnTensor CudnnGraph::index_along(CudnnTensor a, std::int64_t axis) {
  const CudnnTensor result = like(a, CUDNN_DATA_INT32);
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation
      .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
           add_mode(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, axis))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(a))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(result));
  add_operation(std::move(operation));
  return result;
}

CudnnTensor CudnnGraph::greater_or_equal(CudnnTensor a, CudnnTensor b) {
  const CudnnTensor result = like(a, CUDNN_DATA_BOOLEAN);
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation
      .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
           add_mode(CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(a))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(b))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(result));
  add_operation(std::move(operation));
  return result;
}

CudnnTensor CudnnGraph::matmul(CudnnTensor a, CudnnTensor b, CudnnTensor out) {
  CudnnDescriptor setting(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  setting.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT).finalize();
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, setting)
      .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, at(a))
      .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, at(b))
      .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, at(out));
  settings_.push_back(std::move(setting));
  add_operation(std::move(operation));
  return out;
}

CudnnTensor CudnnGraph::reduce(cudnnReduceTensorOp_t kind, CudnnTensor a, CudnnTensor out) {
  CudnnDescriptor setting(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  setting.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, kind)
      .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .finalize();
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, setting)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, at(a))
      .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, at(out));
  settings_.push_back(std::move(setting));
  add_operation(std::move(operation));
  return out;
}

CudnnTensor CudnnGraph::transpose(CudnnTensor a, cudnnDataType_t type) {
  TensorShape shape = tensors_[a.index].shape;
  std::swap(shape.dimensions[2], shape.dimensions[3]);
  std::swap(shape.strides[2], shape.strides[3]);
  shape.type = type;
  const CudnnTensor result = add_tensor(next_virtual_id_++, shape, true, false);
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, at(a))
      .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, at(result));
  add_operation(std::move(operation));
  return result;
}

std::optional<CudnnPlan> CudnnGraph::plan(const CudnnDescriptor& device,
                                          Bytes most_workspace) const {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnDescriptor& operation : operations_) operations.push_back(operation.get());
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph
      .set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
           std::span<const cudnnBackendDescriptor_t>(operations))
      .finalize();
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A)
      .set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
  if (!heuristics.try_finalize().empty()) return std::nullopt;
  constexpr std::int64_t most_engines = 16;
  for (const CudnnDescriptor& configuration : results_of(heuristics, most_engines)) {
    if (!is_deterministic(configuration)) continue;
    CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration)
        .set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
    if (!plan.try_finalize().empty()) continue;
    const Bytes workspace = workspace_of(plan);
    if (workspace <= most_workspace) return CudnnPlan{std::move(plan), workspace};
  }
  return std::nullopt;
}

void run_plan(const CudnnPlan& plan, cudnnHandle_t handle, std::span<const CudnnArgument> arguments,
              void* workspace) {
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;
  for (const CudnnArgument& argument : arguments) {
    ids.push_back(argument.id);
    pointers.push_back(argument.pointer);
  }
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(ids))
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           std::span<void* const>(pointers))
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace)
      .finalize();
  cudnn_check(cudnn().execute(handle, plan.plan.get(), pack.get()), "cudnnBackendExecute");
}

}  // namespace shardscope::cuda
