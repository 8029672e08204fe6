// What turns out other than is usually said.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/planner/answer/candidate.h"

namespace shardscope::planner {

/// "Only 53 MiB spare in place 1: likely to run out of memory. Place 4 is 3.1% slower and leaves
/// 9 GiB." "" where the first place leaves the usual margin. `candidates`: by place.
std::string small_margin_remark(const std::vector<Candidate>& candidates);

/// What compiling its blocks would make of the first place: its step time and memory beside those
/// of eager code. "" of the native runtime, and after a `stop`.
std::string compilation_remark(const Candidate& best, const Basis& basis,
                               const std::stop_token& stop);

/// On the first place: ZeRO-3 beside ZeRO-2, a hybrid beside full sharding across nodes, DDP beside
/// sharding. Each has the first place's other settings, and is predicted where it is no place. None
/// of what a `stop` comes before.
std::vector<std::string> remarks_on(std::span<const Candidate> places, const Basis& basis,
                                    const std::stop_token& stop);

}  // namespace shardscope::planner
