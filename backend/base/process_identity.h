// Which process a rank is, so that a peer on its host can end it when it cannot end itself.
#pragma once

#include <string>

namespace shardscope {

/// Of this host since its last start, and of all containers on it; its name where /proc does not
/// say.
std::string host_boot();

/// Of this process: the host's boot, the process name space, number and start time, in one line.
/// Empty where /proc does not say.
std::string own_identity();

/// What became of a signal to a process.
enum class SignalOutcome { sent, other_host, gone, refused };

/// Sends `number` (0: nothing, it is only looked for) to the process that `identity` names, if it
/// is on this host and still the same one.
SignalOutcome signal_process(const std::string& identity, int number);

/// Kills the process that `identity` names (SIGKILL, which a stopped process hears too), if it is
/// on this host and still the same one.
void end_process(const std::string& identity);

}  // namespace shardscope
