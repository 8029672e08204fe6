// Takes the place of the C library's allocator entry points in the program, counts, and hands on to
// glibc.
#include "backend/executor/allocation_counter.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <new>
#include <string_view>
#include <utility>

extern "C" {
// glibc's own names of its allocator, and the linker's of the program's code.
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
extern const char __executable_start;
extern const char etext;
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
}

namespace shardscope {
namespace {

thread_local AllocationCounts* current = nullptr;
thread_local int library_depth = 0;

bool is_program_code(const void* address) {
  return address >= &__executable_start && address < &etext;
}

/// A template of the standard library that the program holds a copy of and shares with the
/// libraries (a weak symbol): std::string's members, for instance.
bool is_shared_template(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_sname == nullptr) return false;
  const std::string_view name = info.dli_sname;
  return name.starts_with("_ZNSt") || name.starts_with("_ZNKSt") || name.starts_with("_ZSt");
}

/// Whether the allocation that returns to `caller` was asked for by the program itself.
bool asked_by_program(const void* caller) {
  if (!is_program_code(caller)) return false;
  if (!is_shared_template(caller)) return true;
  std::array<void*, 32> frames{};
  const auto end = frames.begin() + backtrace(frames.data(), static_cast<int>(frames.size()));
  const auto asker =
      std::find_if_not(std::find(frames.begin(), end, caller), end, is_shared_template);
  return asker == end || is_program_code(*asker);
}

void count(std::size_t bytes, const void* caller) {
  if (current == nullptr) return;
  AllocationCounts& counts = *std::exchange(current, nullptr);  // what is called here may allocate
  if (library_depth > 0 && !asked_by_program(caller)) {
    ++counts.library;
    counts.library_bytes += static_cast<std::int64_t>(bytes);
  } else {
    if (counts.ours++ == 0) counts.first_caller = caller;
    counts.ours_bytes += static_cast<std::int64_t>(bytes);
  }
  current = &counts;
}

/// What operator new must do: try again through the new-handler, or throw.
void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  while (true) {
    void* memory = alignment == 0 ? __libc_malloc(bytes) : __libc_memalign(alignment, bytes);
    if (memory != nullptr) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

}  // namespace

bool can_count_allocations() { return true; }

CountAllocations::CountAllocations(AllocationCounts& counts) {
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);  // loads its library now
  current = &counts;
}
CountAllocations::~CountAllocations() { current = nullptr; }
LibraryCall::LibraryCall() { ++library_depth; }
LibraryCall::~LibraryCall() { --library_depth; }

}  // namespace shardscope

using shardscope::count;

extern "C" {

void* malloc(std::size_t bytes) {
  count(bytes, __builtin_return_address(0));
  return __libc_malloc(bytes);
}

void* calloc(std::size_t elements, std::size_t bytes) {
  count(elements * bytes, __builtin_return_address(0));
  return __libc_calloc(elements, bytes);
}

void* realloc(void* old, std::size_t bytes) {
  count(bytes, __builtin_return_address(0));
  return __libc_realloc(old, bytes);
}

void* memalign(std::size_t alignment, std::size_t bytes) {
  count(bytes, __builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count(bytes, __builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  count(bytes, __builtin_return_address(0));
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0)
    return EINVAL;
  void* const result = __libc_memalign(alignment, bytes);
  if (result == nullptr) return ENOMEM;
  *memory = result;
  return 0;
}

}  // extern "C"

// operator new has to be ours as well: its caller tells who allocates, and that of malloc would be
// the C++ library.
void* operator new(std::size_t bytes) {
  count(bytes, __builtin_return_address(0));
  return shardscope::allocate_or_throw(bytes, 0);
}

void* operator new[](std::size_t bytes) {
  count(bytes, __builtin_return_address(0));
  return shardscope::allocate_or_throw(bytes, 0);
}

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  count(bytes, __builtin_return_address(0));
  return shardscope::allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}

void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  count(bytes, __builtin_return_address(0));
  return shardscope::allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
