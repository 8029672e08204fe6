// A vector whose first elements lie in the object itself: most lists of a graph's nodes have one or
// two.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace shardscope::eager {

/// As std::vector; up to `in_place` elements need no memory of their own.
template <class T, std::uint32_t in_place>
class Few {
 public:
  static_assert(in_place > 0 && std::is_nothrow_move_constructible_v<T>);

  Few() = default;
  Few(const Few& other) {
    reserve(other.size_);
    for (const T& value : other) emplace_back(value);
  }
  Few(Few&& other) noexcept { take(other); }
  Few& operator=(const Few& other) { return *this = Few(other); }
  Few& operator=(Few&& other) noexcept {
    if (this == &other) return *this;
    clear();
    let_go();
    take(other);
    return *this;
  }
  ~Few() {
    clear();
    let_go();
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  const T& front() const { return data_[0]; }
  T& back() { return data_[size_ - 1]; }

  template <class... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    if (size_ == capacity_) return grow_with(T(std::forward<Arguments>(arguments)...));
    T* made = std::construct_at(data_ + size_, std::forward<Arguments>(arguments)...);
    ++size_;  // not where that threw
    return *made;
  }
  void push_back(T value) { emplace_back(std::move(value)); }

  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    T* larger = std::allocator<T>().allocate(count);
    std::uninitialized_move(begin(), end(), larger);
    std::destroy(begin(), end());
    let_go();
    data_ = larger;
    capacity_ = static_cast<std::uint32_t>(count);
  }

  void clear() {
    std::destroy(begin(), end());
    size_ = 0;
  }

 private:
  T* place() { return reinterpret_cast<T*>(place_); }

  /// The value may have been made of an element that moves here.
  T& grow_with(T value) {
    reserve(2 * std::size_t{size_});
    T* made = std::construct_at(data_ + size_, std::move(value));
    ++size_;
    return *made;
  }

  /// Goes back to the place in the object. There are no elements.
  void let_go() {
    if (capacity_ > in_place) std::allocator<T>().deallocate(data_, capacity_);
    data_ = place();
    capacity_ = in_place;
  }

  /// Into an object without elements and memory of its own.
  void take(Few& other) noexcept {
    if (other.capacity_ > in_place) {
      data_ = std::exchange(other.data_, other.place());
      capacity_ = std::exchange(other.capacity_, in_place);
    } else {
      std::uninitialized_move(other.begin(), other.end(), data_);
      std::destroy(other.begin(), other.end());
    }
    size_ = std::exchange(other.size_, 0U);
  }

  alignas(T) std::byte place_[in_place * sizeof(T)];
  T* data_ = place();
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = in_place;
};

}  // namespace shardscope::eager
