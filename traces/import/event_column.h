// One field of many events: grows without copying, and holds what it has and little more.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace shardscope {

/// Values of one kind in chunks of 16,384, so that growing moves nothing and wastes at most one
/// chunk.
template <class T>
class EventColumn {
 public:
  void push_back(T value) {
    if ((size_ & mask) == 0) chunks_.push_back(std::make_unique_for_overwrite<T[]>(chunk_size));
    chunks_.back()[size_++ & mask] = value;
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](std::size_t i) const { return chunks_[i >> shift][i & mask]; }
  T& operator[](std::size_t i) { return chunks_[i >> shift][i & mask]; }
  /// Of the whole chunks.
  std::size_t allocated_bytes() const { return chunks_.size() * chunk_size * sizeof(T); }

 private:
  static constexpr std::size_t shift = 14;
  static constexpr std::size_t chunk_size = std::size_t{1} << shift;
  static constexpr std::size_t mask = chunk_size - 1;

  std::vector<std::unique_ptr<T[]>> chunks_;
  std::size_t size_ = 0;
};

}  // namespace shardscope
