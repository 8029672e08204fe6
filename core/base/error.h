// The one error type of the program, and the exit codes that it becomes.
#pragma once

#include <stdexcept>
#include <string>

namespace shardscope {

/// Exit codes of every program here (docs/cli.md).
enum class ExitCode {
  done = 0,
  no = 1,          ///< the answer is no: does not fit, out of tolerance, verify failed
  bad_input = 2,   ///< bad usage or bad input
  outside = 3,     ///< disk, device, missing library
  rank_lost = 4,   ///< a rank died or hung
  not_finite = 5,  ///< the numbers went bad
  interrupted = 130,
};

/// An expected failure: one line that says where, what (with numbers and units), and the way out.
/// Thrown where it is found, caught in `main`, in a rank's main and in the GUI's task runner; never
/// for control flow.
class Error : public std::runtime_error {
 public:
  struct Parts {
    std::string where;    ///< "job.json:12: training.steps", "--mesh"; may be empty
    std::string what;     ///< "expected an integer, got \"ten\""
    std::string way_out;  ///< "give a number of steps, for example 50"; may be empty
    ExitCode code = ExitCode::bad_input;
  };

  /// `what()` is "where: what; way_out", the empty parts left out.
  explicit Error(Parts parts);

  const Parts& parts() const { return parts_; }
  ExitCode code() const { return parts_.code; }

 private:
  Parts parts_;
};

}  // namespace shardscope
