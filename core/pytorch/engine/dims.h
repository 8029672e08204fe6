// Sizes or strides of a tensor, held in place.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace shardscope::eager {

/// Up to `capacity` numbers, one a dimension. More dimensions throw Error.
class Dims {
 public:
  static constexpr int capacity = 7;

  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values)
      : Dims(std::span(values.begin(), values.size())) {}
  explicit Dims(std::span<const std::int64_t> values);
  /// `count` times the same number.
  static Dims filled(int count, std::int64_t value);

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Negative indices count from the end, as in Python.
  std::int64_t operator[](int i) const { return values_[index(i)]; }
  std::int64_t& operator[](int i) { return values_[index(i)]; }
  const std::int64_t* begin() const { return values_.data(); }
  const std::int64_t* end() const { return values_.data() + size_; }
  std::int64_t back() const { return (*this)[-1]; }
  void push_back(std::int64_t value) { insert(size_, value); }
  void insert(int at, std::int64_t value);
  void erase(int at);
  /// Product of the dimensions; 1 of none.
  std::int64_t product() const;
  std::span<const std::int64_t> span() const { return {begin(), end()}; }

  /// Without a call of memcmp, which takes longer than the few numbers.
  bool operator==(const Dims& other) const {
    if (size_ != other.size_) return false;
    std::int64_t different = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(size_); ++i)
      different |= values_[i] ^ other.values_[i];
    return different == 0;
  }

 private:
  std::size_t index(int i) const { return static_cast<std::size_t>(i < 0 ? i + size_ : i); }

  std::array<std::int64_t, capacity> values_{};
  std::int8_t size_ = 0;
};

/// Strides of a row-major tensor; a dimension of no elements counts as one.
Dims contiguous_strides(const Dims& sizes);
/// Dimensions of one element may have any stride, and so may all of a tensor without elements.
bool is_contiguous(const Dims& sizes, const Dims& strides);

}  // namespace shardscope::eager
