#include "backend/base/memory_mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"

namespace shardscope {
namespace {

[[noreturn]] void fail(const char* call, Bytes size) {
  throw Error({.where = fmt::format("memory of {} B", size.count),
               .what = errno_text(call),
               .way_out = "shard more, or give the job more memory",
               .code = ExitCode::outside});
}

constexpr std::size_t huge_page = std::size_t{2} << 20;

// Linux 6.1; older C libraries have no name for it, and older kernels refuse it.
constexpr int collapse_now = 25;  // MADV_COLLAPSE

/// A place for `size` bytes that begins on a huge page: reserved, and to be mapped over.
std::byte* huge_page_place(std::size_t size) {
  void* reserved = ::mmap(nullptr, size + huge_page, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  std::byte* const begin = static_cast<std::byte*>(reserved);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(reserved) % huge_page;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t used = (size + page - 1) / page * page;
  if (before > 0) ::munmap(begin, before);
  if (huge_page + size > before + used)
    ::munmap(begin + before + used, huge_page + size - before - used);
  return begin + before;
}

}  // namespace

MemoryMapping::MemoryMapping(const FileDescriptor& file, Bytes size) { map(file.get(), size); }

MemoryMapping MemoryMapping::anonymous(Bytes size) {
  MemoryMapping mapping;
  mapping.map(-1, size);
  return mapping;
}

MemoryMapping::MemoryMapping(MemoryMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MemoryMapping& MemoryMapping::operator=(MemoryMapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MemoryMapping::~MemoryMapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void MemoryMapping::map(int descriptor, Bytes size) {
  // Nothing cannot be mapped; an empty arena is one page that nobody touches.
  size_ = static_cast<std::size_t>(std::max(size.count, std::int64_t{1}));
  const int flags = (descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | MAP_NORESERVE;
  std::byte* const place = size_ < huge_page ? nullptr : huge_page_place(size_);
  void* pages = ::mmap(place, size_, PROT_READ | PROT_WRITE, place ? flags | MAP_FIXED : flags,
                       descriptor, 0);
  if (pages == MAP_FAILED) fail("mmap", size);
  data_ = static_cast<std::byte*>(pages);
}

void MemoryMapping::prefer_huge_pages() {
  ::madvise(data_, size_, MADV_HUGEPAGE);
  // Files of memory take no heed of the advice where the system says "never" for them, but are
  // collapsed on request once a page of them is there.
  for (std::size_t at = 0; at + huge_page <= size_; at += huge_page) {
    std::byte* const begin = data_ + at;
    *static_cast<volatile std::byte*>(begin) = std::byte{};
    if (::madvise(begin, huge_page, collapse_now) != 0) return;
  }
}

FileDescriptor memory_file(const char* label, Bytes size) {
  FileDescriptor file(::memfd_create(label, MFD_CLOEXEC));
  if (!file.valid()) fail("memfd_create", size);
  if (::ftruncate(file.get(), std::max(size.count, std::int64_t{1})) != 0) fail("ftruncate", size);
  return file;
}

}  // namespace shardscope
