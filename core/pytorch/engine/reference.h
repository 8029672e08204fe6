// Counted references, as Python's and c10's: an object goes when the last one is let go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardscope::eager {

/// Base of what is counted. Not for several threads: a session and all it holds belong to one.
/// A recording makes and lets go of hundreds of thousands of a few sizes. The thread keeps their
/// memory for the next ones until it ends: as much as lived at once, at the most.
class Counted {
 public:
  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory, std::size_t bytes) noexcept;

  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  std::int32_t references() const { return references_; }

 protected:
  ~Counted() = default;

 private:
  template <class T>
  friend class Ref;
  std::int32_t references_ = 0;
};

/// One counted reference to a T, which gives `void release_last()` to be called with the last one.
template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) { retain(); }
  Ref(const Ref& other) : object_(other.object_) { retain(); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  // NOLINTNEXTLINE(bugprone-unhandled-self-assignment): the copy keeps the object
  Ref& operator=(const Ref& other) { return Ref(other).swap(*this), *this; }
  Ref& operator=(Ref&& other) noexcept { return Ref(std::move(other)).swap(*this), *this; }
  ~Ref() { reset(); }

  void reset() {
    T* object = std::exchange(object_, nullptr);
    if (object && --object->references_ == 0) object->release_last();
  }
  void swap(Ref& other) noexcept { std::swap(object_, other.object_); }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const Ref& other) const { return object_ == other.object_; }

 private:
  void retain() {
    if (object_) ++object_->references_;
  }

  T* object_ = nullptr;
};

}  // namespace shardscope::eager
