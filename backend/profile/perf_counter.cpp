#include "backend/profile/perf_counter.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "backend/profile/counter_register.h"

namespace shardscope {
namespace {

constexpr int user_side_allowed = 2;  ///< highest perf_event_paranoid

perf_event_attr attributes_of(std::uint64_t what) {
  perf_event_attr event{};
  event.size = sizeof event;
  event.type = PERF_TYPE_HARDWARE;
  event.config = what;
  event.exclude_kernel = 1;
  event.exclude_hv = 1;
  event.read_format =
      PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  return event;
}

std::optional<int> paranoid_level() {
  std::ifstream file("/proc/sys/kernel/perf_event_paranoid");
  int level = 0;
  if (file >> level) return level;
  return std::nullopt;
}

std::string text_of_refusal() {
  const std::optional<int> level = paranoid_level();
  if (level && *level > user_side_allowed)
    return fmt::format(
        "kernel.perf_event_paranoid is {}: \"sysctl kernel.perf_event_paranoid={}\" or CAP_PERFMON "
        "allows them",
        *level, user_side_allowed);
  return "a container's seccomp filter refuses perf_event_open: a profile that lets it through, or "
         "CAP_PERFMON, allows them";
}

std::string text_of_failure(int error) {
  switch (error) {
    case EPERM:
    case EACCES:
      return text_of_refusal();
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
      return "the processor's counters are not in reach, as in most virtual machines";
    case ENOSYS:
      return "this kernel has no perf events";
    case EMFILE:
    case ENFILE:
      return "too many files are open: raise \"ulimit -n\"";
    default:
      return fmt::format("perf_event_open: {}", std::strerror(error));
  }
}

/// What read(2) gives of a group of two.
struct GroupValues {
  std::uint64_t events = 0;
  std::uint64_t enabled_ns = 0;
  std::uint64_t running_ns = 0;
  CycleCounts counts;
};

std::optional<GroupValues> values_of(const FileDescriptor& group) {
  GroupValues values;
  if (::read(group.get(), &values, sizeof values) != sizeof values) return std::nullopt;
  return values;
}

/// The kernel changes `lock` whenever it changes the rest.
std::optional<std::uint64_t> value_of(const perf_event_mmap_page* shown) {
  if (!has_counter_registers || shown == nullptr) return std::nullopt;
  const volatile perf_event_mmap_page& page = *shown;
  std::uint64_t value = 0;
  std::uint32_t lock = 0;
  do {
    lock = page.lock;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const std::uint32_t index = page.index;
    if (!page.cap_user_rdpmc || index == 0) return std::nullopt;
    const unsigned unused_bits = 64U - page.pmc_width;
    const std::uint64_t register_bits = read_counter_register(index - 1) << unused_bits;
    value = static_cast<std::uint64_t>(page.offset +
                                       (static_cast<std::int64_t>(register_bits) >> unused_bits));
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } while (page.lock != lock);
  return value;
}

}  // namespace

OpenPerfEvent perf_event_call() {
  return [](perf_event_attr& event, int thread, int group) {
    constexpr int any_core = -1;
    const long descriptor =
        ::syscall(SYS_perf_event_open, &event, thread, any_core, group, PERF_FLAG_FD_CLOEXEC);
    return descriptor < 0 ? -errno : static_cast<int>(descriptor);
  };
}

void PerfCounter::Unmap::operator()(perf_event_mmap_page* page) const {
  ::munmap(page, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
}

PerfCounter::Event PerfCounter::event_of(int descriptor) {
  Event event{.file = FileDescriptor(descriptor), .page = nullptr};
  void* const page = ::mmap(nullptr, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)), PROT_READ,
                            MAP_SHARED, descriptor, 0);
  if (page != MAP_FAILED) event.page.reset(static_cast<perf_event_mmap_page*>(page));
  return event;
}

OpenedCounter PerfCounter::open(int thread, const OpenPerfEvent& call) {
  perf_event_attr cycles = attributes_of(PERF_COUNT_HW_CPU_CYCLES);
  perf_event_attr instructions = attributes_of(PERF_COUNT_HW_INSTRUCTIONS);
  // The group is switched on when it is complete: who joins later may count later.
  cycles.disabled = 1;
  const int leader = call(cycles, thread, -1);
  if (leader < 0) return {.counter = {}, .why_not = text_of_failure(-leader)};
  PerfCounter counter;
  counter.cycles_ = event_of(leader);
  const int follower = call(instructions, thread, leader);
  if (follower < 0) return {.counter = {}, .why_not = text_of_failure(-follower)};
  counter.instructions_ = event_of(follower);
  if (::ioctl(leader, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP) != 0)
    return {.counter = {}, .why_not = text_of_failure(errno)};
  return {.counter = std::move(counter), .why_not = {}};
}

std::optional<CycleCounts> PerfCounter::read() const {
  const std::optional<GroupValues> values = values_of(cycles_.file);
  if (!values) return std::nullopt;
  return values->counts;
}

std::optional<CycleCounts> PerfCounter::read_own() const {
  const std::optional<std::uint64_t> cycles = value_of(cycles_.page.get());
  const std::optional<std::uint64_t> instructions = value_of(instructions_.page.get());
  if (cycles && instructions) return CycleCounts{*cycles, *instructions};
  return read();
}

double PerfCounter::share_not_counted() const {
  const std::optional<GroupValues> values = values_of(cycles_.file);
  if (!values || values->enabled_ns == 0) return 0;
  return 1 - static_cast<double>(values->running_ns) / static_cast<double>(values->enabled_ns);
}

}  // namespace shardscope
