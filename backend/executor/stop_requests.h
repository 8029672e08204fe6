// What ranks ask of each other between steps, in one number that is summed over them.
#pragma once

namespace shardscope {

/// Asked of a job by some of its ranks; all ranks hear of it after the same step.
struct StopRequests {
  bool stop = false;     ///< end after this step
  bool profile = false;  ///< a window of the job's usual length, from the next step on
  /// A window of so many steps, up to `most_profiled_steps`; only rank 0 asks for it; 0: none.
  int profile_steps = 0;

  bool operator==(const StopRequests&) const = default;
};

/// The requests as a number of which a sum over at most 2^20 ranks is exact in a double: how many
/// ranks ask to stop, 2^21 times how many ask for a window, 2^42 times the steps that rank 0 asks
/// for, less than 2^53 in all.
double to_sum(const StopRequests& requests);

/// What at least one of the ranks asked for. Example: 2 + 2^21 is a stop and a window.
StopRequests requests_of_sum(double sum);

}  // namespace shardscope
