// The MPI library in this process. Included only where MPI was found.
#pragma once

#include <mpi.h>

namespace shardscope {

/// Initialises MPI the first time, for calls from one thread at a time. When the process exits, MPI
/// is finalised if all went well; after `mark_failed`, or with an exit code that says that this
/// rank failed, the whole job is aborted with that code, so that no peer waits for this rank.
class MpiSession {
 public:
  static void start();
  static void mark_failed();
  static bool failed();
};

/// Throws Error with MPI's own words when `result` is not MPI_SUCCESS.
void check_mpi(int result, const char* call);

}  // namespace shardscope
