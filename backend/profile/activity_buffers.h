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

/// A fixed number of buffers, taken when this is made. The library asks for an empty one, fills it
/// and gives it back; full ones are read one after the other on a thread of their own, then zeroed
/// and given out again. No call of ours is made under its mutex, so that the library may ask under
/// whatever locks it has.
class ActivityBuffers {
 public:
  using Read = std::function<void(std::span<std::uint8_t> filled)>;

  /// `read` is called on the reading thread only.
  ActivityBuffers(std::size_t count, std::size_t bytes_each, Read read);
  ~ActivityBuffers();
  ActivityBuffers(const ActivityBuffers&) = delete;
  ActivityBuffers& operator=(const ActivityBuffers&) = delete;

  /// An empty buffer, all 0, aligned to 8 bytes; without data where all are in use, which is
  /// counted.
  std::span<std::uint8_t> request();
  /// The buffer that begins at `data` holds so many bytes of records.
  void completed(std::uint8_t* data, std::size_t filled_bytes);

  /// Waits until all that was completed has been read.
  void wait_until_read();
  /// How often a buffer was asked for in vain since the last call.
  std::int64_t take_refusals();
  /// Buffers that the library has and has not given back.
  std::size_t lent() const;

 private:
  struct Filled {
    std::uint8_t* data;
    std::size_t bytes;
  };

  void read_on();

  const std::size_t bytes_each_;
  const Read read_;
  std::vector<std::vector<std::uint64_t>> memory_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint8_t*> empty_;
  std::vector<Filled> filled_;  ///< the oldest first
  std::size_t lent_ = 0;
  std::int64_t refusals_ = 0;
  bool reading_ = false;
  bool ending_ = false;
  std::thread thread_;  ///< last: uses what stands above
};

}  // namespace shardscope
