// cuDNN: its graph interface takes every description that it is given and finds one engine for it.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <vector>

#include "backend/recorder/device/convolution_workspace.h"
#include "backend/recorder/device/cuda_abi.h"
#include "backend/recorder/device/device_properties.h"
#include "backend/recorder/device/device_state.h"
#include "backend/recorder/device/library_handle.h"
#include "backend/recorder/device/virtual_time.h"

namespace shardscope::recorder {
namespace {

constexpr std::size_t dnn_version = 92600;

struct Attribute {
  std::int64_t count = 0;
  std::vector<char> bytes;
};
struct Descriptor {
  int type = 0;
  std::map<int, Attribute> attributes;
  const Descriptor* graph =
      nullptr;  ///< of an engine's configuration: what the heuristic was asked
};

/// Of cudnnBackendAttributeType_t.
std::size_t size_of(int type) {
  switch (type) {
    case 0:   // handle
    case 3:   // int64
    case 5:   // double
    case 6:   // pointer
    case 15:  // descriptor
      return 8;
    case 2:   // boolean
    case 24:  // char
      return 1;
    case 26:  // fraction
      return 16;
    default:
      return 4;
  }
}

/// Of cudnnBackendAttributeName_t and cudnnBackendDescriptorType_t.
constexpr int heuristic_graph = 201, heuristic_results = 202, engine = 300, shared_memory = 304,
              plan_configuration = 401, plan_workspace = 402, plan_as_json = 405,
              graph_operations = 801, engines = 802, tensor_type = 901, tensor_sizes = 902,
              tensor_strides = 903, reduction_input = 1610, reduction_output = 1611;
constexpr int product = 19, reduction = 22, int64_type = 3;

/// Attributes of the operation that are its weight, input and output, or their gradients.
struct ConvolutionNames {
  int operation, weight, input, output;
};
constexpr ConvolutionNames convolutions[] = {
    {10, 703, 704, 705}, {11, 715, 716, 717}, {12, 709, 710, 711}};

template <class Value>
std::vector<Value> values_of(const Descriptor* descriptor, int name) {
  if (descriptor == nullptr) return {};
  const auto found = descriptor->attributes.find(name);
  if (found == descriptor->attributes.end()) return {};
  // NOLINTBEGIN(bugprone-sizeof-expression): a Value may be a pointer
  std::vector<Value> values(found->second.bytes.size() / sizeof(Value));
  if (!values.empty())
    std::memcpy(values.data(), found->second.bytes.data(), values.size() * sizeof(Value));
  // NOLINTEND(bugprone-sizeof-expression)
  return values;
}

const Descriptor* child_of(const Descriptor* descriptor, int name) {
  const auto children = values_of<const Descriptor*>(descriptor, name);
  return children.empty() ? nullptr : children.front();
}

/// Bytes of the half-precision gradients (batch, heads, tokens, width) that are added over heads.
std::int64_t added_over_heads(const Descriptor* operation) {
  constexpr std::int64_t half = 2;
  const auto from = values_of<std::int64_t>(child_of(operation, reduction_input), tensor_sizes);
  const auto to = values_of<std::int64_t>(child_of(operation, reduction_output), tensor_sizes);
  if (from.size() != 4 || to.size() != 4 || from[1] == to[1]) return 0;
  return from[0] * from[1] * from[2] * from[3] * half;
}

std::int64_t element_size(const Descriptor* tensor) {
  constexpr int float32 = 0, float16 = 2, bfloat16 = 9;
  const auto type = values_of<int>(tensor, tensor_type);
  if (type.empty()) return 0;
  if (type.front() == float32) return 4;
  return type.front() == float16 || type.front() == bfloat16 ? 2 : 0;
}

bool has_channels_last(const Descriptor* tensor) {
  const auto strides = values_of<std::int64_t>(tensor, tensor_strides);
  const auto sizes = values_of<std::int64_t>(tensor, tensor_sizes);
  return sizes.size() > 2 && strides.size() == sizes.size() && strides[1] == 1 && sizes[1] > 1;
}

/// Devices without tensor cores for a type have other kernels.
bool has_tensor_cores(std::int64_t element) {
  constexpr int ampere = 8, volta = 7;
  constexpr std::int64_t half = 2;
  return element > 0 && device_properties().major >= (element == half ? volta : ampere);
}

/// 0 of other operations.
std::int64_t workspace_of_convolution(const Descriptor* operation) {
  for (const ConvolutionNames& names : convolutions) {
    if (operation->type != names.operation) continue;
    const Descriptor *input = child_of(operation, names.input),
                     *output = child_of(operation, names.output);
    const std::int64_t element = element_size(input);
    if (!has_tensor_cores(element)) return 0;
    return workspace_of(PlannedConvolution{
        .input = values_of<std::int64_t>(input, tensor_sizes),
        .weight = values_of<std::int64_t>(child_of(operation, names.weight), tensor_sizes),
        .output = values_of<std::int64_t>(output, tensor_sizes),
        .element = element,
        .channels_last = has_channels_last(input) || has_channels_last(output)});
  }
  return 0;
}

/// What cuDNN wants of attention beside its frontend's workspace: 256 B, and dk and dv of each
/// query head where heads share their keys. Measured: cuDNN 9.19 on an H200 (docs/measured). Of
/// plans that are neither attention nor a convolution nothing is known.
std::int64_t workspace_of(const Descriptor* plan) {
  constexpr std::int64_t little = 256;
  const Descriptor* configuration = child_of(plan, plan_configuration);
  if (configuration == nullptr) return 0;
  int products = 0;
  std::int64_t added = 0, of_convolutions = 0;
  for (const auto* one : values_of<const Descriptor*>(configuration->graph, graph_operations)) {
    if (one == nullptr) continue;
    if (one->type == product) ++products;
    if (one->type == reduction) added += added_over_heads(one);
    of_convolutions += workspace_of_convolution(one);
  }
  return products < 2 ? of_convolutions : little + added;
}

/// What a description answers that nobody set.
void answer_unset(Descriptor* descriptor, int name, int type, std::int64_t wanted,
                  std::int64_t* count, void* to) {
  const std::int64_t one = 1;
  const std::int64_t zero = 0;
  *count = 0;
  if (name == heuristic_results || name == engine) {
    *count = 1;  // the descriptor that the caller made
    if (name == heuristic_results && wanted > 0 && to != nullptr)
      (*static_cast<Descriptor**>(to))->graph = child_of(descriptor, heuristic_graph);
  } else if (name == plan_workspace) {
    *count = 1;
    const std::int64_t bytes = workspace_of(descriptor);
    if (to != nullptr) std::memcpy(to, &bytes, sizeof bytes);
  } else if (name == engines) {
    *count = 1;
    if (to != nullptr) std::memcpy(to, &one, sizeof one);
  } else if (name == shared_memory) {
    *count = 1;
    if (to != nullptr) std::memcpy(to, &zero, sizeof(std::int32_t));
  } else if (name != plan_as_json && type == int64_type && wanted > 0) {
    *count = 1;
    if (to != nullptr) std::memcpy(to, &zero, sizeof zero);
  }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

std::size_t cudnnGetVersion() { return dnn_version; }
std::size_t cudnnGetCudartVersion() { return cuda_version; }
Status cudnnGetProperty(int property, int* to) {
  *to = property == 0 ? 9 : property == 1 ? 26 : 0;
  return success;
}
const char* cudnnGetErrorString(int) { return "cuDNN of a simulated device"; }
void cudnnGetLastErrorString(char* to, std::size_t length) { std::snprintf(to, length, "none"); }
Status cudnnCreate(void** to) { return create_handle(to); }
Status cudnnDestroy(void* handle) { return destroy_handle(handle); }
Status cudnnSetStream(void* handle, void* stream) { return set_stream(handle, stream); }
Status cudnnGetStream(void* handle, void** stream) { return get_stream(handle, stream); }
Status cudnnBackendCreateDescriptor(int type, Descriptor** to) {
  *to = new Descriptor{.type = type, .attributes = {}};
  return success;
}
/// Descriptors refer to each other, so that they stay.
Status cudnnBackendDestroyDescriptor(Descriptor*) { return success; }
Status cudnnBackendInitialize(Descriptor*) { return success; }
Status cudnnBackendFinalize(Descriptor*) { return success; }
Status cudnnBackendSetAttribute(Descriptor* descriptor, int name, int type, std::int64_t count,
                                const void* value) {
  Attribute& attribute = descriptor->attributes[name];
  attribute.count = count;
  attribute.bytes.assign(size_of(type) * static_cast<std::size_t>(std::max<std::int64_t>(0, count)),
                         0);
  if (value != nullptr && !attribute.bytes.empty())
    std::memcpy(attribute.bytes.data(), value, attribute.bytes.size());
  return success;
}
Status cudnnBackendGetAttribute(Descriptor* descriptor, int name, int type, std::int64_t wanted,
                                std::int64_t* count, void* to) {
  std::int64_t ignored = 0;
  if (count == nullptr) count = &ignored;
  const auto known = descriptor->attributes.find(name);
  if (known == descriptor->attributes.end()) {
    answer_unset(descriptor, name, type, wanted, count, to);
    return success;
  }
  *count = known->second.count;
  const std::size_t room =
      size_of(type) * static_cast<std::size_t>(std::max<std::int64_t>(0, wanted));
  if (to != nullptr)
    std::memcpy(to, known->second.bytes.data(), std::min(room, known->second.bytes.size()));
  return success;
}
Status cudnnBackendExecute(void* handle, Descriptor*, Descriptor*) {
  issue("dnn", stream_of_handle(handle), "%d", 0);
  spend_on_kernel(stream_of_handle(handle));
  return success;
}
}
#pragma GCC visibility pop

}  // namespace shardscope::recorder
