// Makes a rank fail at a chosen place, so that what a job does then can be tested.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backend/executor/executor.h"
#include "backend/executor/probe.h"
#include "backend/rendezvous/environment.h"

namespace shardscope {

/// Set, with the number of the restart, where a launcher of ours starts a job again.
inline constexpr const char* restart_variable = "SHARDSCOPE_RESTART";
inline constexpr const char* fault_variable = "SHARDSCOPE_FAULT";

/// "KIND,rank=R,step=S[,operation=NAME][,seconds=T]". A fault comes once, in the step's first
/// operation or the named one; `flip` and `nan` need a name. `write` comes when the rank saves that
/// step.
struct Fault {
  enum class Kind : std::uint8_t {
    kill,  ///< SIGKILL
    hang,  ///< never comes back
    slow,  ///< comes back after `seconds`
    flip,  ///< the highest exponent bit of the first number that the operation wrote
    nan,   ///< that number is none any more
    write  ///< the rank's part of the step's checkpoint cannot be written
  };
  Kind kind = Kind::kill;
  int rank = 0;
  std::int64_t step = 1;
  std::string operation;
  double seconds = 1;
  bool operator==(const Fault&) const = default;
};
/// Throws Error naming the variable.
Fault parse_fault(const std::string& text);

/// The fault in a step that the variables ask of this rank; null: none. A restarted job has none.
std::unique_ptr<Probe> fault_injector_of(const Variables& variables, int rank,
                                         const Executor& executor);
/// The step whose checkpoint this rank is to fail to write; none: as above.
std::optional<std::int64_t> failing_save_of(const Variables& variables, int rank);

}  // namespace shardscope
