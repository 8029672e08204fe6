#include "tests/backend/comm/stand_in_nccl_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <system_error>

namespace shardscope::test {
namespace {

constexpr std::size_t areas = most_stand_in_ranks * (most_stand_in_ranks + 1);
constexpr std::size_t page = 4096;
constexpr std::size_t head_bytes = (sizeof(StandInRegion::Shared) + page - 1) / page * page;
constexpr std::size_t all_bytes = head_bytes + areas * stand_in_bytes;

void require(bool good, const char* call) {
  if (!good) throw std::system_error(errno, std::generic_category(), call);
}

}  // namespace

StandInRegion::StandInRegion(const std::string& name) : name_(name) {
  const int file = ::shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  require(file >= 0, "shm_open");
  const bool sized = ::ftruncate(file, all_bytes) == 0;
  void* const memory =
      ::mmap(nullptr, all_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  ::close(file);
  require(sized && memory != MAP_FAILED, "mmap");
  shared_ = static_cast<Shared*>(memory);
  bytes_ = static_cast<std::byte*>(memory) + head_bytes;
}

StandInRegion::~StandInRegion() { ::munmap(shared_, all_bytes); }

void StandInRegion::unlink() const { ::shm_unlink(name_.c_str()); }

}  // namespace shardscope::test
