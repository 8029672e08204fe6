#include "backend/comm/memory_mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"

namespace shardscope {
namespace {

[[noreturn]] void fail(const char* call, Bytes size) {
  throw Error({.where = fmt::format("memory of {} B", size.count),
               .what = errno_text(call),
               .way_out = "shard more, or give the job more memory",
               .code = ExitCode::outside});
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
  void* pages = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (pages == MAP_FAILED) fail("mmap", size);
  data_ = static_cast<std::byte*>(pages);
}

FileDescriptor memory_file(const char* label, Bytes size) {
  FileDescriptor file(::memfd_create(label, MFD_CLOEXEC));
  if (!file.valid()) fail("memfd_create", size);
  if (::ftruncate(file.get(), std::max(size.count, std::int64_t{1})) != 0) fail("ftruncate", size);
  return file;
}

}  // namespace shardscope
