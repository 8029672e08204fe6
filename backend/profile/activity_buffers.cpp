#include "backend/profile/activity_buffers.h"

#include <algorithm>
#include <utility>

namespace shardscope {
namespace {

constexpr std::size_t word = sizeof(std::uint64_t);

}  // namespace

ActivityBuffers::ActivityBuffers(std::size_t count, std::size_t bytes_each, Read read)
    : bytes_each_(bytes_each / word * word), read_(std::move(read)) {
  for (std::size_t i = 0; i < count; ++i) {
    memory_.emplace_back(bytes_each_ / word);
    empty_.push_back(reinterpret_cast<std::uint8_t*>(memory_.back().data()));
  }
  // So that a traced thread never allocates here.
  filled_.reserve(count);
  lent_.reserve(count);
  thread_ = std::thread([this] { read_on(); });
}

ActivityBuffers::~ActivityBuffers() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ActivityBuffers::open_window() {
  const std::lock_guard lock(mutex_);
  if (!is_open()) ++window_;
}

void ActivityBuffers::close_window() {
  const std::lock_guard lock(mutex_);
  if (is_open()) ++window_;
}

std::span<std::uint8_t> ActivityBuffers::request() {
  const std::lock_guard lock(mutex_);
  if (!is_open()) return {};
  if (empty_.empty()) {
    ++refusals_;
    return {};
  }
  std::uint8_t* data = empty_.back();
  empty_.pop_back();
  lent_.push_back({data, window_});
  return {data, bytes_each_};
}

void ActivityBuffers::completed(std::uint8_t* data, std::size_t filled_bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(lent_, data, &Lent::data);
  if (found == lent_.end()) return;
  filled_.push_back(
      {.bytes = {data, std::min(filled_bytes, bytes_each_)}, .is_late = found->window != window_});
  lent_.erase(found);
  // Under the mutex: who sees that nothing is lent may end this.
  changed_.notify_all();
}

void ActivityBuffers::read_on() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !filled_.empty(); });
    if (filled_.empty()) return;
    const Filled next = filled_.front();
    filled_.erase(filled_.begin());
    reading_ = true;
    lock.unlock();
    read_(next);
    std::fill_n(next.bytes.data(), bytes_each_, std::uint8_t{0});
    lock.lock();
    reading_ = false;
    empty_.push_back(next.bytes.data());
    changed_.notify_all();
  }
}

void ActivityBuffers::wait_until_read() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return filled_.empty() && !reading_; });
}

std::int64_t ActivityBuffers::take_refusals() {
  const std::lock_guard lock(mutex_);
  return std::exchange(refusals_, 0);
}

std::size_t ActivityBuffers::lent() const {
  const std::lock_guard lock(mutex_);
  return lent_.size();
}

}  // namespace shardscope
