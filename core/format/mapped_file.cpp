#include "core/format/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/format/descriptor.h"

namespace shardscope {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, std::string what) {
  throw Error({.where = path.string(), .what = std::move(what), .way_out = "give a readable file"});
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const Descriptor file(path, O_RDONLY | O_NONBLOCK);
  if (file.value() < 0) refuse(path, std::strerror(errno));
  struct stat status {};
  if (::fstat(file.value(), &status) != 0) refuse(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) refuse(path, "not a regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value(), 0);
  if (data == MAP_FAILED) refuse(path, std::strerror(errno));
  bytes_ = {static_cast<const std::byte*>(data), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace shardscope
