// Values that are made when they are first asked for.
#pragma once

#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <string>

namespace shardscope::planner {

/// Each value is made once, however many threads ask for it at a time. What making it throws is
/// thrown to all who wait for it, and it is made anew for who asks next.
template <class Value>
class MadeOnce {
 public:
  template <class Make>
  Value of(const std::string& key, const Make& make) {
    std::promise<Value> promise;
    {
      std::unique_lock lock(mutex_);
      const auto [known, is_ours] = values_.try_emplace(key, promise.get_future().share());
      if (!is_ours) {
        const std::shared_future<Value> value = known->second;
        lock.unlock();
        return value.get();
      }
    }
    try {
      Value value = make();
      promise.set_value(value);
      return value;
    } catch (...) {
      {
        const std::scoped_lock lock(mutex_);
        values_.erase(key);
      }
      promise.set_exception(std::current_exception());
      throw;
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_future<Value>> values_;
};

}  // namespace shardscope::planner
