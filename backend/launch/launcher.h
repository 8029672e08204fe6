// Starts the ranks of a job on this host and answers for them.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace shardscope {

struct LaunchPlan {
  int ranks = 1;
  std::vector<std::string> arguments;  ///< of each rank, the program's name included
  /// What runs; by default the program that is running.
  std::filesystem::path program = "/proc/self/exe";
  /// Receives what each rank writes to standard error (and, but for rank 0, to standard output) as
  /// log.<rank>.txt; must exist. Empty: not kept. Rank 0's output also goes where this process's
  /// goes.
  std::filesystem::path log_folder = {};
  /// After a failure the other ranks get SIGTERM, and SIGKILL so much later.
  std::chrono::milliseconds grace{3000};
};

/// SIGUSR1 is nothing to die of: from here on it does nothing, in the ranks that are started, too,
/// until they listen to it.
void ignore_profile_signal();

/// Starts the ranks with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and
/// MASTER_PORT set, hosts their store, and waits for all of them. SIGINT and SIGTERM are passed on
/// once; the second one takes the job down. SIGUSR1 goes to rank 0.
///
/// Returns `done`, or `interrupted` when it was. When a rank fails, the others are taken down, and
/// an Error names the first rank that failed, its cause and its last line; the code is the rank's
/// own where it is 1, 2, 3 or 5, otherwise `rank_lost`. The ranks die with this process, however it
/// ends.
ExitCode launch(const LaunchPlan& plan);

}  // namespace shardscope
