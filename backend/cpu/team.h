// A team of threads that runs one function on each of its members.
#pragma once

#include <cstdint>

namespace shardscope::cpu {

/// One member of a team: `index` of `size`.
struct Member {
  int index = 0;
  int size = 1;
};

/// A half-open range of work items.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The member's contiguous part of `items`, in whole multiples of `grain` (the last part may be
/// cut).
inline Range share(std::int64_t items, Member member, std::int64_t grain = 1) {
  const std::int64_t grains = (items + grain - 1) / grain;
  const std::int64_t begin = grains * member.index / member.size * grain;
  const std::int64_t end = grains * (member.index + 1) / member.size * grain;
  return {begin < items ? begin : items, end < items ? end : items};
}

using TeamFunction = void (*)(const void* state, Member member);

/// Runs `function(state, member)` once on each of `threads` members and returns when all are done.
/// Without OpenMP the members run one after the other.
void run_team(int threads, TeamFunction function, const void* state);

/// Makes libraries that share our thread runtime (oneDNN) use this many threads when called from
/// the calling thread.
void set_library_threads(int threads);

/// Cores that this process may use.
int available_cores();

/// Runs `body(member)` on a team; a team of one is a plain call.
template <class Body>
void parallel(int threads, const Body& body) {
  if (threads <= 1) return body(Member{});
  run_team(
      threads, [](const void* state, Member member) { (*static_cast<const Body*>(state))(member); },
      &body);
}

}  // namespace shardscope::cpu
