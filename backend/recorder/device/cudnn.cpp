// cuDNN: its graph interface takes every description that it is given and finds one engine for it.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <vector>

#include "backend/recorder/device/cuda_abi.h"
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

/// What a description answers that nobody set.
void answer_unset(int name, int type, std::int64_t wanted, std::int64_t* count, void* to) {
  constexpr int heuristic_results = 202, engine = 300, shared_memory = 304, plan_as_json = 405,
                engines = 802, int64_type = 3;
  const std::int64_t one = 1;
  const std::int64_t zero = 0;
  *count = 0;
  if (name == heuristic_results || name == engine) {
    *count = 1;  // the descriptor that the caller made
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
    answer_unset(name, type, wanted, count, to);
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
