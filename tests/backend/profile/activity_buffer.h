// Buffers of activity records, as CUPTI lays them out: its own structs, one behind the other.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace shardscope::test {

class ActivityBuffer {
 public:
  template <class Raw>
  void add(const Raw& raw) {
    const std::size_t at = size_;
    size_ += sizeof raw;
    words_.resize((size_ + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
    std::memcpy(reinterpret_cast<std::uint8_t*>(words_.data()) + at, &raw, sizeof raw);
  }
  /// As if CUPTI had been stopped in the middle of a record.
  void cut(std::size_t bytes) { size_ -= bytes; }
  std::span<std::uint8_t> bytes() {
    return {reinterpret_cast<std::uint8_t*>(words_.data()), size_};
  }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t size_ = 0;
};

/// All of it 0 but the kind.
template <class Raw>
Raw empty_record(CUpti_ActivityKind kind) {
  Raw raw;
  std::memset(static_cast<void*>(&raw), 0, sizeof raw);
  raw.kind = kind;
  return raw;
}

/// A kernel on device 0 in context 1.
inline CUpti_ActivityKernel10 kernel_record(const char* name, std::uint32_t correlation,
                                            std::uint32_t stream, std::uint64_t start,
                                            std::uint64_t end) {
  auto raw = empty_record<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  raw.name = name;
  raw.correlationId = correlation;
  raw.contextId = 1;
  raw.streamId = stream;
  raw.start = start;
  raw.end = end;
  return raw;
}

inline CUpti_ActivityExternalCorrelation link_record(
    std::uint32_t correlation, std::uint64_t id,
    CUpti_ExternalCorrelationKind kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0) {
  auto raw =
      empty_record<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  raw.correlationId = correlation;
  raw.externalId = id;
  raw.externalKind = kind;
  return raw;
}

}  // namespace shardscope::test
