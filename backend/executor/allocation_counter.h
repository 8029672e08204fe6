// Counts what a thread takes from the heap, so that the checking mode can show that a step takes
// nothing.
#pragma once

#include <cstdint>
#include <string>

namespace shardscope {

struct AllocationCounts {
  std::int64_t ours = 0;  ///< calls of malloc and its kin from our code
  std::int64_t ours_bytes = 0;
  std::int64_t library = 0;  ///< calls from a shared library while it worked for us (oneDNN, MPI)
  std::int64_t library_bytes = 0;
  const void* first_caller = nullptr;  ///< return address of our first call

  AllocationCounts& operator+=(const AllocationCounts& other);
};

/// False where the C library or a sanitizer does not let us see allocations; then the counts stay
/// 0.
bool can_count_allocations();

/// This thread's allocations count into `counts` while this lives. Does not nest.
class CountAllocations {
 public:
  explicit CountAllocations(AllocationCounts& counts);
  CountAllocations(const CountAllocations&) = delete;
  CountAllocations& operator=(const CountAllocations&) = delete;
  ~CountAllocations();
};

/// While this lives, calls from a shared library count as that library's bookkeeping.
class LibraryCall {
 public:
  LibraryCall();
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;
  ~LibraryCall();
};

/// "function+0x12 in program" of a code address, as far as the symbols tell.
std::string describe_code_address(const void* address);

}  // namespace shardscope
