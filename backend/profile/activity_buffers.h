// Memory that a profiling library fills on the threads that it traces, and a thread of ours that
// reads it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace shardscope {

/// A fixed number of buffers, taken when this is made. While a window is open, the library asks for
/// an empty one and fills it; it gives it back at any time. Full ones are read one after the other
/// on a thread of their own, then zeroed and given out again. No call of ours is made under its
/// mutex, so that the library may ask under whatever locks it has.
class ActivityBuffers {
 public:
  struct Filled {
    std::span<std::uint8_t> bytes;
    bool is_late = false;  ///< given out in a window that was over when it came back
  };
  using Read = std::function<void(Filled)>;

  /// `read` is called on the reading thread only.
  ActivityBuffers(std::size_t count, std::size_t bytes_each, Read read);
  ~ActivityBuffers();
  ActivityBuffers(const ActivityBuffers&) = delete;
  ActivityBuffers& operator=(const ActivityBuffers&) = delete;

  /// What is given out belongs to the window that is open then.
  void open_window();
  void close_window();

  /// An empty buffer, all 0, aligned to 8 bytes; without data where no window is open, or where all
  /// are in use, which is counted.
  std::span<std::uint8_t> request();
  /// The buffer that begins at `data` holds so many bytes of records. One that was not given out
  /// here is left alone: it is of somebody who is gone.
  void completed(std::uint8_t* data, std::size_t filled_bytes);

  /// Waits until all that was completed has been read.
  void wait_until_read();
  /// How often a buffer was asked for in vain since the last call.
  std::int64_t take_refusals();
  /// Buffers that the library has and has not given back.
  std::size_t lent() const;

 private:
  struct Lent {
    std::uint8_t* data;
    std::int64_t window;
  };

  bool is_open() const { return window_ % 2 == 1; }
  void read_on();

  const std::size_t bytes_each_;
  const Read read_;
  std::vector<std::vector<std::uint64_t>> memory_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint8_t*> empty_;
  std::vector<Filled> filled_;  ///< the oldest first
  std::vector<Lent> lent_;
  std::int64_t window_ = 0;  ///< odd: open
  std::int64_t refusals_ = 0;
  bool reading_ = false;
  bool ending_ = false;
  std::thread thread_;  ///< last: uses what stands above
};

}  // namespace shardscope
