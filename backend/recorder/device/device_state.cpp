#include "backend/recorder/device/device_state.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <unordered_map>

#include "backend/recorder/device/log.h"
#include "backend/recorder/device/mailbox.h"
#include "backend/recorder/device/reference_cases.h"
#include "backend/recorder/device/virtual_time.h"

namespace shardscope::recorder {
namespace {

constexpr std::size_t block_alignment = std::size_t{2} << 20;
constexpr std::size_t page = 4096;
constexpr std::size_t longest_copy = std::size_t{1} << 20;
constexpr int most_devices = 64;

struct Block {
  std::size_t bytes = 0;    ///< of address space
  std::size_t counted = 0;  ///< against the device's memory
  int device = 0;
};

struct Pinned {
  std::size_t bytes = 0;
  int number = 0;
};

/// Never destroyed, as the log.
struct State {
  std::shared_mutex memory_mutex;
  std::map<std::uintptr_t, Block> blocks;
  std::map<std::uintptr_t, Pinned> pinned;
  int pinned_so_far = 0;
  std::array<std::size_t, most_devices> used{};
  std::mutex stream_mutex;
  std::vector<Stream*> streams{new Stream};
  int events = 0, graphs = 0;
  std::atomic<Graph*> capture = nullptr;  ///< that is going on
  std::mutex name_mutex;
  std::unordered_map<const void*, std::string> kernels;
  std::set<std::string> unknown;
};

State& state() {
  static State* all = new State;
  return *all;
}

thread_local int device_of_thread = 0;
thread_local std::int64_t answer = 0;
thread_local bool has_answer = false;

template <class Blocks>
auto block_around(Blocks& blocks, const void* address) {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  auto after = blocks.upper_bound(place);
  if (after == blocks.begin()) return blocks.end();
  --after;
  return after;
}

/// With everything that was ordered before it.
void finish(Stream* stream, std::int64_t position) {
  if (device_time() != DeviceTime::sync || position <= stream->finished) return;
  stream->finished = position;
  std::vector<StreamWait> passed;
  std::erase_if(stream->waits, [&](const StreamWait& wait) {
    if (wait.at > position) return false;
    passed.push_back(wait);
    return true;
  });
  for (const StreamWait& wait : passed) finish(wait.other, wait.position);
}

/// At the same addresses in every run, so that the same script leaves the same log; later ones
/// below earlier ones, as the kernel gives them.
void* map_addresses(std::size_t room) {
  static std::atomic<std::uintptr_t> end = std::uintptr_t{1} << 46;
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  const std::uintptr_t place = end.fetch_sub(room) - room;
  void* mapped = mmap(reinterpret_cast<void*>(place), room, PROT_READ | PROT_WRITE,
                      flags | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped != MAP_FAILED) return mapped;
  return mmap(nullptr, room, PROT_READ | PROT_WRITE, flags, -1, 0);
}

/// Of several devices that the script may see by their numbers.
int visible_devices(int all) {
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) return all;
  const int named =
      *text == 0 ? 0 : 1 + static_cast<int>(std::count(text, text + std::strlen(text), ','));
  return std::min(all, named);
}

/// Later streams at higher addresses: torch's allocator orders its blocks by them.
Stream* place_of_stream() {
  constexpr std::size_t at_once = 1024;
  static Stream* next = nullptr;
  static std::size_t left = 0;
  if (left == 0) {
    next = new Stream[at_once];
    left = at_once;
  }
  --left;
  return next++;
}

DeviceTime chosen_time() {
  if (const auto waits = waits_for_sync()) return *waits ? DeviceTime::sync : DeviceTime::zero;
  const char* text = std::getenv("SHARDSCOPE_RECORD_TIME");
  if (text == nullptr) return DeviceTime::zero;
  return std::strcmp(text, "sync") == 0    ? DeviceTime::sync
         : std::strcmp(text, "model") == 0 ? DeviceTime::model
                                           : DeviceTime::zero;
}

struct Choices {
  DeviceTime time;
  std::size_t memory;
};

/// Of this process: a child of fork may be another case.
const Choices& choices() {
  static std::atomic<pid_t> process = 0;
  static std::atomic<const Choices*> chosen = nullptr;
  if (process != getpid()) {
    chosen = new Choices{.time = chosen_time(),
                         .memory = memory_of_case().value_or(static_cast<std::size_t>(
                             setting("SHARDSCOPE_DEVICE_MEMORY", 85520809984)))};
    process = getpid();
  }
  return *chosen;
}

}  // namespace

DeviceTime device_time() { return choices().time; }

int device_count() {
  return visible_devices(
      static_cast<int>(std::clamp<long>(setting("SHARDSCOPE_DEVICES", 1), 0, most_devices)));
}
int current_device() { return device_of_thread; }
void set_current_device(int device) { device_of_thread = device; }

std::size_t total_memory() { return choices().memory; }

std::size_t used_memory(int device) {
  const std::shared_lock lock(state().memory_mutex);
  return state().used[static_cast<std::size_t>(device)];
}

bool take_memory(std::size_t bytes) {
  const std::unique_lock lock(state().memory_mutex);
  std::size_t& used = state().used[static_cast<std::size_t>(device_of_thread)];
  if (bytes > total_memory() - std::min(used, total_memory())) return false;
  used += bytes;
  return true;
}

void give_memory(std::size_t bytes) {
  const std::unique_lock lock(state().memory_mutex);
  std::size_t& used = state().used[static_cast<std::size_t>(device_of_thread)];
  used -= std::min(used, bytes);
}

void* reserve_addresses(std::size_t bytes) {
  const std::size_t room =
      (bytes + block_alignment - 1) / block_alignment * block_alignment + block_alignment;
  void* mapped = map_addresses(room);
  if (mapped == MAP_FAILED) return nullptr;
  // A huge page would make 2 MiB resident for each byte that is written.
  madvise(mapped, room, MADV_NOHUGEPAGE);
  const auto first = reinterpret_cast<std::uintptr_t>(mapped);
  const std::uintptr_t begin = (first + block_alignment - 1) / block_alignment * block_alignment;
  const std::unique_lock lock(state().memory_mutex);
  state().blocks[begin] = {.bytes = bytes, .counted = 0, .device = device_of_thread};
  return reinterpret_cast<void*>(begin);
}

void begin_to_observe() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (void* function = dlsym(RTLD_DEFAULT, "shardscope_observe_blocks"))
      reinterpret_cast<void (*)()>(function)();
  });
}

void* allocate(std::size_t bytes) {
  if (!take_memory(bytes)) return nullptr;
  void* address = reserve_addresses(bytes);
  if (address == nullptr) {
    give_memory(bytes);
    return nullptr;
  }
  const std::unique_lock lock(state().memory_mutex);
  state().blocks[reinterpret_cast<std::uintptr_t>(address)].counted = bytes;
  return address;
}

void free_memory(void* address) {
  const std::unique_lock lock(state().memory_mutex);
  const auto found = state().blocks.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == state().blocks.end()) return;
  std::size_t& used = state().used[static_cast<std::size_t>(found->second.device)];
  used -= std::min(used, found->second.counted);
  munmap(address, (found->second.bytes + page - 1) / page * page);
  state().blocks.erase(found);
}

bool is_on_device(const void* address, void** base, std::size_t* bytes) {
  const std::shared_lock lock(state().memory_mutex);
  const auto found = block_around(state().blocks, address);
  if (found == state().blocks.end()) return false;
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(address) - found->first;
  if (offset >= std::max<std::size_t>(1, found->second.bytes)) return false;
  if (base != nullptr) *base = reinterpret_cast<void*>(found->first);
  if (bytes != nullptr) *bytes = found->second.bytes;
  return true;
}

void add_pinned(void* address, std::size_t bytes) {
  const std::unique_lock lock(state().memory_mutex);
  const int number = ++state().pinned_so_far;
  state().pinned[reinterpret_cast<std::uintptr_t>(address)] = {std::max<std::size_t>(1, bytes),
                                                               number};
  log_line("pinned\t%d\t%zu", number, bytes);
}

void remove_pinned(void* address) {
  const std::unique_lock lock(state().memory_mutex);
  const auto found = state().pinned.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == state().pinned.end()) return;
  log_line("unpinned\t%d", found->second.number);
  state().pinned.erase(found);
}

bool is_pinned(const void* address) {
  const std::shared_lock lock(state().memory_mutex);
  const auto found = block_around(state().pinned, address);
  return found != state().pinned.end() &&
         reinterpret_cast<std::uintptr_t>(address) - found->first < found->second.bytes;
}

void copy(void* to, const void* from, std::size_t bytes) {
  if (!is_on_device(to)) take_all();
  if (bytes <= longest_copy)
    std::memmove(to, from, bytes);
  else if (!is_on_device(to) && is_on_device(from))
    std::memset(to, 0, bytes);
}

void answer_next_copy(std::int64_t value) {
  answer = value;
  has_answer = true;
}

bool take_answer(void* to, std::size_t bytes) {
  if (!has_answer || (bytes != 4 && bytes != 8)) return false;
  has_answer = false;
  const auto small = static_cast<std::int32_t>(answer);
  if (bytes == 4)
    std::memcpy(to, &small, 4);
  else
    std::memcpy(to, &answer, 8);
  return true;
}

Stream* stream_of(void* handle) {
  // 0, 1 and 2 are the default stream, the legacy one and that of the thread.
  constexpr std::uintptr_t named = 16;
  if (reinterpret_cast<std::uintptr_t>(handle) < named) return state().streams.front();
  return static_cast<Stream*>(handle);
}

Stream* make_stream(unsigned flags, int priority) {
  const std::lock_guard lock(state().stream_mutex);
  Stream* stream = place_of_stream();
  *stream = {.id = static_cast<int>(state().streams.size()),
             .priority = priority,
             .flags = flags,
             .waits = {}};
  state().streams.push_back(stream);
  log_line("stream\t%d\t%d", stream->id, priority);
  return stream;
}

Event* make_event() {
  const std::lock_guard lock(state().stream_mutex);
  return new Event{.id = ++state().events};
}

namespace {

/// Without calls that put nothing on the device, and those that began or ended outside.
std::vector<GraphLine> with_calls_of_nodes(std::vector<GraphLine> all) {
  struct Begun {
    std::size_t place, nodes_before;
  };
  std::vector<GraphLine> kept;
  std::vector<Begun> begun;
  std::size_t nodes = 0;
  for (GraphLine& line : all) {
    const bool is_end = !line.is_node && line.text.starts_with("end\t");
    if (is_end && begun.empty()) continue;
    if (is_end) {
      const Begun call = begun.back();
      begun.pop_back();
      if (call.nodes_before == nodes) {
        kept.resize(call.place);
        continue;
      }
    } else if (!line.is_node) {
      begun.push_back({kept.size(), nodes});
    }
    nodes += line.is_node ? 1 : 0;
    kept.push_back(std::move(line));
  }
  for (; !begun.empty(); begun.pop_back())
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(begun.back().place));
  return kept;
}

/// A launch of the graph writes calls again around what they put into it.
void capture_call(std::string_view line) {
  if (state().capture == nullptr || !is_call(line)) return;
  const std::lock_guard lock(state().stream_mutex);
  if (Graph* const graph = state().capture)
    graph->lines.push_back({.text = std::string(line), .is_node = false});
}

}  // namespace

Graph* begin_capture(Stream* stream) {
  const std::lock_guard lock(state().stream_mutex);
  return state().capture = stream->capture = new Graph{.id = ++state().graphs, .lines = {}};
}

Graph* end_capture(Stream* stream) {
  const std::lock_guard lock(state().stream_mutex);
  Graph* graph = stream->capture;
  for (Stream* one : state().streams)
    if (one->capture == graph) one->capture = nullptr;
  Graph* mine = graph;
  state().capture.compare_exchange_strong(mine, nullptr);  // another capture may have begun since
  graph->lines = with_calls_of_nodes(std::move(graph->lines));
  return graph;
}

void record(Event* event, Stream* stream) {
  const std::lock_guard lock(state().stream_mutex);
  event->stream = stream;
  event->capture = stream->capture;
  event->position = stream->issued;
  event->happens_ns = std::max(stream->busy_until_ns, host_ns());
  ++event->recorded;
  if (stream->capture == nullptr)
    log_line("record\t%d\t%d.%d", stream->id, event->id, event->recorded);
}

void wait(Stream* stream, Event* event) {
  const std::lock_guard lock(state().stream_mutex);
  if (event->capture != nullptr) {
    stream->capture = event->capture;
  } else if (event->stream != nullptr) {
    ++stream->issued;
    if (device_time() == DeviceTime::sync && event->position > event->stream->finished)
      stream->waits.push_back({stream->issued, event->stream, event->position});
    stream->busy_until_ns = std::max(stream->busy_until_ns, event->happens_ns);
    log_line("wait\t%d\t%d.%d", stream->id, event->id, event->recorded);
  }
}

bool is_finished(const Event* event) {
  if (event->stream == nullptr) return true;
  switch (device_time()) {
    case DeviceTime::zero:
      return true;
    case DeviceTime::sync:
      return event->position <= event->stream->finished;
    case DeviceTime::model:
      host_looks();
      return event->happens_ns <= host_ns();
  }
  return true;
}

bool is_finished(const Stream* stream) {
  switch (device_time()) {
    case DeviceTime::zero:
      return true;
    case DeviceTime::sync:
      return stream->issued <= stream->finished;
    case DeviceTime::model:
      host_looks();
      return stream->busy_until_ns <= host_ns();
  }
  return true;
}

float elapsed_ms(const Event* from, const Event* to) {
  constexpr double ns_per_ms = 1e6;
  // Events are told apart by half a microsecond (CUDA's manual). Callers divide by it.
  constexpr std::int64_t resolution_ns = 500;
  std::int64_t elapsed_ns = to->happens_ns - from->happens_ns;
  if (to != from && elapsed_ns >= 0) elapsed_ns = std::max(elapsed_ns, resolution_ns);
  return static_cast<float>(static_cast<double>(elapsed_ns) / ns_per_ms);
}

void synchronize(Stream* stream) {
  take_all();
  log_line("sync\t%d", stream->id);
  const std::lock_guard lock(state().stream_mutex);
  finish(stream, stream->issued);
  host_waits_until(stream->busy_until_ns);
}

void synchronize(Event* event) {
  if (event->stream == nullptr) return;
  take_all();
  log_line("host_wait\t%d.%d", event->id, event->recorded);
  const std::lock_guard lock(state().stream_mutex);
  finish(event->stream, event->position);
  host_waits_until(event->happens_ns);
}

void synchronize_all() {
  take_all();
  log_line("sync\t-1");
  const std::lock_guard lock(state().stream_mutex);
  for (Stream* stream : state().streams) {
    finish(stream, stream->issued);
    host_waits_until(stream->busy_until_ns);
  }
}

void issue(const char* kind, Stream* stream, const char* format, ...) {
  char text[4096];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const std::lock_guard lock(state().stream_mutex);
  if (stream->capture != nullptr) {
    stream->capture->lines.push_back({.text = std::string(kind) + "\t" + text});
    ++stream->capture->nodes;
    return;
  }
  ++stream->issued;
  log_line("%s\t%d\t%s", kind, stream->id, text);
}

void name_kernel(const void* handle, const char* name) {
  const std::lock_guard lock(state().name_mutex);
  state().kernels.emplace(handle, name == nullptr ? "" : name);
}

const char* kernel_name(const void* handle) {
  const std::lock_guard lock(state().name_mutex);
  const auto found = state().kernels.find(handle);
  return found == state().kernels.end() ? "?" : found->second.c_str();
}

long unknown_call(const char* name) {
  const std::lock_guard lock(state().name_mutex);
  if (state().unknown.insert(name).second) log_line("unknown\t%s", name);
  return 0;
}

}  // namespace shardscope::recorder

extern "C" {
/// Called by the observer, which is built against the script's own torch.
[[gnu::visibility("default")]] void shardscope_log(const char* line) {
  shardscope::recorder::log_line("%s", line);
  shardscope::recorder::capture_call(line);
  shardscope::recorder::see_call(line);
}
[[gnu::visibility("default")]] unsigned shardscope_text(const char* text) {
  return shardscope::recorder::text_id(text);
}
[[gnu::visibility("default")]] void shardscope_answer_next_copy(long value) {
  shardscope::recorder::answer_next_copy(value);
}
[[gnu::visibility("default")]] int shardscope_stream_id(void* stream) {
  return shardscope::recorder::stream_of(stream)->id;
}
}
