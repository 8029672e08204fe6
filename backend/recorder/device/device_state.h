// What the simulated device holds: memory, streams, events, and the names of kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shardscope::recorder {

/// A line of the log, without its thread: work on the device, or a call's begin or end around some.
struct GraphLine {
  std::string text;
  bool is_node = true;
};

/// What is launched while a stream is captured.
struct Graph {
  int id = 0;
  std::vector<GraphLine> lines;  ///< in the order in which a launch writes them
  std::size_t nodes = 0;         ///< among them
  std::int64_t cost_ns = 0;      ///< of all of them
};

struct Stream;

/// What a stream waited for at a place in it: another stream's work up to a place there.
struct StreamWait {
  std::int64_t at = 0;
  Stream* other = nullptr;
  std::int64_t position = 0;
};

struct Stream {
  int id = 0;  ///< 0: the default stream
  int priority = 0;
  unsigned flags = 0;
  std::int64_t issued = 0;          ///< operations and waits so far
  std::int64_t finished = 0;        ///< of these, as far as the host knows
  std::vector<StreamWait> waits;    ///< of what is not finished
  std::int64_t busy_until_ns = 0;   ///< in virtual time
  std::int64_t last_operation = 0;  ///< a number of its own for each
  Graph* capture = nullptr;
};

struct Event {
  int id = 0;
  int recorded = 0;  ///< times
  Stream* stream = nullptr;
  std::int64_t position = 0;    ///< in its stream
  std::int64_t happens_ns = 0;  ///< in virtual time
  Graph* capture = nullptr;
};

/// When work on the device ends, as far as the host can tell.
enum class DeviceTime {
  zero,  ///< at once
  sync,  ///< when the host waits for it, and not before
  model  ///< in virtual time (virtual_time.h)
};
DeviceTime device_time();

int device_count();
int current_device();
void set_current_device(int device);

/// Bytes of a device: all of it, and what is taken.
std::size_t total_memory();
std::size_t used_memory(int device);
/// Before the first memory: the observer sees torch's blocks from the first one on, once torch's
/// allocator is there to tell.
void begin_to_observe();
/// Address space of `bytes`, counted as the current device's; null: the device has less.
void* allocate(std::size_t bytes);
void free_memory(void* address);
/// The same in two steps, as the virtual memory calls have it.
void* reserve_addresses(std::size_t bytes);
bool take_memory(std::size_t bytes);
void give_memory(std::size_t bytes);
/// Does the device own it. `base` and `bytes` of the block where they are wanted.
bool is_on_device(const void* address, void** base = nullptr, std::size_t* bytes = nullptr);
/// Writes "pinned NUMBER BYTES": where the host has it differs from run to run.
void add_pinned(void* address, std::size_t bytes);
void remove_pinned(void* address);
bool is_pinned(const void* address);

/// Up to a mebibyte is copied. What is longer is neither read nor written, but where the host
/// receives it: zeros.
void copy(void* to, const void* from, std::size_t bytes);
/// The next copy to the host of 4 or 8 bytes on this thread gives `value`: a count that no kernel
/// made.
void answer_next_copy(std::int64_t value);
bool take_answer(void* to, std::size_t bytes);

Stream* stream_of(void* handle);
Stream* make_stream(unsigned flags, int priority);
Event* make_event();
Graph* begin_capture(Stream* stream);
Graph* end_capture(Stream* stream);
void record(Event* event, Stream* stream);
void wait(Stream* stream, Event* event);
bool is_finished(const Event* event);
bool is_finished(const Stream* stream);
void synchronize(Stream* stream);
void synchronize(Event* event);
void synchronize_all();

/// Milliseconds from one to the other; 0 where time is not modelled.
float elapsed_ms(const Event* from, const Event* to);

/// Something that is put on a stream: a line of the log "KIND s<stream> ...". What it takes is told
/// apart (virtual_time.h).
[[gnu::format(printf, 3, 4)]] void issue(const char* kind, Stream* stream, const char* format, ...);

void name_kernel(const void* handle, const char* name);
const char* kernel_name(const void* handle);

/// A function that nobody wrote was called. Told once.
long unknown_call(const char* name);

}  // namespace shardscope::recorder
