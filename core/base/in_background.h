// A call beside the caller's own work.
#pragma once

#include <future>
#include <utility>

namespace shardscope {

enum class WorthAThread : bool { no, yes };

/// Runs `call` in a thread of its own where that is worth it and one can be made, else when the
/// result is asked for.
template <class Call>
auto in_background(WorthAThread worth, Call&& call) {
  const std::launch when = worth == WorthAThread::yes ? std::launch::async | std::launch::deferred
                                                      : std::launch::deferred;
  return std::async(when, std::forward<Call>(call));
}

}  // namespace shardscope
