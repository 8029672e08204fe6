// cuDNN's older interface: tensors, batch normalization, recurrent networks. Sizes that callers
// allocate by must be written. The reserve space of recurrent networks is known; the others, and
// all work space, are not, and count as nothing.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "backend/recorder/device/cuda_abi.h"
#include "backend/recorder/device/device_state.h"
#include "backend/recorder/device/library_calls.h"
#include "backend/recorder/device/virtual_time.h"

namespace shardscope::recorder {
namespace {

struct Tensor {
  int type = 0;
  std::vector<int> sizes, strides;
};

/// A pseudo-layer is a layer's direction. Weights of all pseudo-layers come first, those that see
/// the input before those that see the state, then all biases in the same order.
struct Recurrent {
  int cell = 0, gates = 1, directions = 1, layers = 1, input = 0, hidden = 0, projection = 0,
      type = 0;
  bool has_bias = true;

  std::int64_t input_of(int pseudo_layer) const {
    return pseudo_layer < directions ? input : std::int64_t{projection} * directions;
  }
  std::int64_t matrix(int pseudo_layer, int linear) const {
    return std::int64_t{hidden} * (linear < gates ? input_of(pseudo_layer) : projection);
  }
  std::int64_t matrices(int pseudo_layer, int linear) const {
    std::int64_t elements = 0;
    for (int one = 0; one < linear; ++one) elements += matrix(pseudo_layer, one);
    return elements;
  }
  std::int64_t all_matrices() const {
    std::int64_t elements = 0;
    for (int layer = 0; layer < layers * directions; ++layer)
      elements += matrices(layer, 2 * gates);
    return elements;
  }
  std::int64_t elements() const {
    return all_matrices() + (has_bias ? std::int64_t{2} * gates * hidden * layers * directions : 0);
  }
};

/// What a recurrent network is given: padded sequences.
struct Sequences {
  int type = 0, longest = 0, batch = 0;
};

std::size_t element_size(int type) {
  constexpr int float64 = 1, float16 = 2, bfloat16 = 9;
  if (type == float64) return 8;
  return type == float16 || type == bfloat16 ? 2 : 4;
}

constexpr int lstm = 2, gru = 3;

int gates_of(int cell) { return cell == lstm ? 4 : cell == gru ? 3 : 1; }

/// What a layer keeps of each token for backward, in hidden states.
int kept_of(int cell) { return cell == lstm ? 5 : cell == gru ? 6 : 1; }

/// What forward keeps for backward: each layer's, and the outputs between layers. Read off 72
/// networks of cuDNN 9.19 on an H100 (tests/data/cudnn/reserve_space.csv), none with projections.
std::size_t reserve_bytes(const Recurrent& network, const Sequences& sequences) {
  constexpr std::size_t alignment = 32, header = 256;
  const std::int64_t of_a_token =
      std::int64_t{network.directions} *
      (std::int64_t{kept_of(network.cell)} * network.layers * network.hidden +
       std::int64_t{network.layers - 1} * network.projection);
  const std::int64_t tokens = std::int64_t{sequences.longest} * sequences.batch;
  const std::size_t bytes =
      static_cast<std::size_t>(of_a_token * tokens) * element_size(sequences.type);
  return (bytes + alignment - 1) / alignment * alignment + header;
}

void describe(Tensor* tensor, int type, std::vector<int> sizes) {
  if (tensor == nullptr) return;
  tensor->type = type;
  tensor->sizes = std::move(sizes);
  tensor->strides.assign(tensor->sizes.size(), 1);
}

/// One kernel of cuDNN's.
Status dnn_kernel(void* handle) {
  issue("dnn", stream_of_handle(handle), "%d", 0);
  spend_on_kernel(stream_of_handle(handle));
  return success;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Status cudnnCreateTensorDescriptor(void** to) {
  *to = new Tensor;
  return success;
}
Status cudnnDestroyTensorDescriptor(void* tensor) {
  delete static_cast<Tensor*>(tensor);
  return success;
}
Status cudnnSetTensorNdDescriptor(void* tensor, int type, int dimensions, const int* sizes,
                                  const int* strides) {
  auto* to = static_cast<Tensor*>(tensor);
  to->type = type;
  to->sizes.assign(sizes, sizes + dimensions);
  to->strides.assign(strides, strides + dimensions);
  return success;
}
Status cudnnGetTensorNdDescriptor(void* tensor, int wanted, int* type, int* dimensions, int* sizes,
                                  int* strides) {
  const auto* from = static_cast<Tensor*>(tensor);
  *type = from->type;
  *dimensions = static_cast<int>(from->sizes.size());
  for (int i = 0; i < std::min(wanted, *dimensions); ++i) {
    sizes[i] = from->sizes[static_cast<std::size_t>(i)];
    strides[i] = from->strides[static_cast<std::size_t>(i)];
  }
  return success;
}

Status cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void*, int, int, void*, void*,
                                                                void*, void*, void*,
                                                                std::size_t* bytes) {
  return nothing_needed(bytes);
}
Status cudnnGetBatchNormalizationBackwardExWorkspaceSize(void*, int, int, void*, void*, void*,
                                                         void*, void*, void*, void*,
                                                         std::size_t* bytes) {
  return nothing_needed(bytes);
}
Status cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void*, int, int, void*, void*,
                                                            std::size_t* bytes) {
  return nothing_needed(bytes);
}
Status cudnnBatchNormalizationForwardTrainingEx(void* handle, ...) { return dnn_kernel(handle); }
Status cudnnBatchNormalizationForwardInference(void* handle, ...) { return dnn_kernel(handle); }
Status cudnnBatchNormalizationBackwardEx(void* handle, ...) { return dnn_kernel(handle); }

Status cudnnDropoutGetStatesSize(void*, std::size_t* bytes) { return nothing_needed(bytes); }
Status cudnnCreateDropoutDescriptor(void** to) {
  *to = new Tensor;
  return success;
}
Status cudnnDestroyDropoutDescriptor(void* dropout) {
  delete static_cast<Tensor*>(dropout);
  return success;
}
Status cudnnSetDropoutDescriptor(void*, void*, float, void*, std::size_t, unsigned long long) {
  return success;
}
Status cudnnRestoreDropoutDescriptor(void*, void*, float, void*, std::size_t, unsigned long long) {
  return success;
}

Status cudnnCreateCTCLossDescriptor(void** to) {
  *to = new Tensor;
  return success;
}
Status cudnnDestroyCTCLossDescriptor(void* loss) {
  delete static_cast<Tensor*>(loss);
  return success;
}
Status cudnnSetCTCLossDescriptorEx(void*, int, int, int) { return success; }
Status cudnnSetCTCLossDescriptor_v9(void*, int, int, int, int) { return success; }
Status cudnnGetCTCLossWorkspaceSize(void*, void*, void*, const int*, const int*, const int*, int,
                                    void*, std::size_t* bytes) {
  return nothing_needed(bytes);
}
Status cudnnGetCTCLossWorkspaceSize_v8(void*, int, void*, void*, void*, std::size_t* bytes) {
  return nothing_needed(bytes);
}
Status cudnnCTCLoss(void* handle, ...) { return dnn_kernel(handle); }
Status cudnnCTCLoss_v8(void* handle, ...) { return dnn_kernel(handle); }

Status cudnnCreateRNNDescriptor(void** to) {
  *to = new Recurrent;
  return success;
}
Status cudnnDestroyRNNDescriptor(void* network) {
  delete static_cast<Recurrent*>(network);
  return success;
}
Status cudnnSetRNNDescriptor_v8(void* network, int, int cell, int bias, int direction, int,
                                int type, int, int, std::int32_t input, std::int32_t hidden,
                                std::int32_t projection, std::int32_t layers, void*, unsigned) {
  *static_cast<Recurrent*>(network) = {.cell = cell,
                                       .gates = gates_of(cell),
                                       .directions = direction == 0 ? 1 : 2,
                                       .layers = layers,
                                       .input = input,
                                       .hidden = hidden,
                                       .projection = projection,
                                       .type = type,
                                       .has_bias = bias != 0};
  return success;
}
Status cudnnGetRNNWeightSpaceSize(void*, void* network, std::size_t* bytes) {
  const auto* is = static_cast<Recurrent*>(network);
  *bytes = static_cast<std::size_t>(is->elements()) * element_size(is->type);
  return success;
}
Status cudnnGetRNNWeightParams(void*, void* network, std::int32_t layer, std::size_t, void* space,
                               std::int32_t linear, void* matrix, void** matrix_at, void* bias,
                               void** bias_at) {
  const auto* is = static_cast<Recurrent*>(network);
  const std::size_t size = element_size(is->type);
  std::int64_t place = is->matrices(layer, linear);
  for (int before = 0; before < layer; ++before) place += is->matrices(before, 2 * is->gates);
  const std::int64_t columns = linear < is->gates ? is->input_of(layer) : is->projection;
  const auto at = [&](std::int64_t elements) {
    return static_cast<char*>(space) + static_cast<std::size_t>(elements) * size;
  };
  if (matrix_at != nullptr) *matrix_at = at(place);
  describe(static_cast<Tensor*>(matrix), is->type, {1, is->hidden, static_cast<int>(columns)});
  const std::int64_t bias_place =
      is->all_matrices() +
      (std::int64_t{layer} * 2 * is->gates + linear) * std::int64_t{is->hidden};
  if (bias_at != nullptr) *bias_at = is->has_bias ? at(bias_place) : nullptr;
  describe(static_cast<Tensor*>(bias), is->type, {1, is->hidden, 1});
  return success;
}
Status cudnnCreateRNNDataDescriptor(void** to) {
  *to = new Sequences;
  return success;
}
Status cudnnDestroyRNNDataDescriptor(void* sequences) {
  delete static_cast<Sequences*>(sequences);
  return success;
}
Status cudnnSetRNNDataDescriptor(void* sequences, int type, int, int longest, int batch, int,
                                 const int*, void*) {
  *static_cast<Sequences*>(sequences) = {.type = type, .longest = longest, .batch = batch};
  return success;
}
Status cudnnGetRNNTempSpaceSizes(void*, void* network, int mode, void* sequences, std::size_t* work,
                                 std::size_t* reserve) {
  constexpr int training = 1;
  if (work != nullptr) *work = 0;
  if (reserve != nullptr)
    *reserve = mode == training ? reserve_bytes(*static_cast<Recurrent*>(network),
                                                *static_cast<Sequences*>(sequences))
                                : 0;
  return success;
}
Status cudnnRNNForward(void* handle, ...) { return dnn_kernel(handle); }
Status cudnnRNNBackwardData_v8(void* handle, ...) { return dnn_kernel(handle); }
Status cudnnRNNBackwardWeights_v8(void* handle, ...) { return dnn_kernel(handle); }
}
#pragma GCC visibility pop

}  // namespace shardscope::recorder
