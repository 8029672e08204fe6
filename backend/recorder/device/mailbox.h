// What ranks that run beside each other send each other: `shardscope record --ranks 0,8`, or all of
// a job's own processes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace shardscope::recorder {

/// A way from one rank to another in a group of ranks. Messages on it arrive in the order in which
/// they were sent.
struct Way {
  std::string group;     ///< the same on both sides
  int from = 0, to = 0;  ///< the same on both sides
  int sender = -1;       ///< its number in the job; -1: not known
};

/// Is this rank recorded too, in another process than this one.
bool is_beside(int rank);
bool is_everybody_beside();

/// What is longer than a mebibyte is announced without its content.
void post(const Way& way, const void* content, std::size_t bytes);

/// The next message goes to `to` once `take_all` is called: a device's host does not wait for what
/// a stream receives.
void take_later(const Way& way, void* to, std::size_t bytes);

/// Before anybody looks at received data. Waits for it; ends the process with a line where the
/// sender has ended or sends nothing for five minutes.
void take_all();

}  // namespace shardscope::recorder
