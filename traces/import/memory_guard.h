// Keeps a file that is read from taking all of the machine's memory.
#pragma once

#include <functional>
#include <string>

#include "core/base/error.h"
#include "core/base/quantities.h"

namespace shardscope {

/// Memory that can be had without swapping, and within the limit of this process (ulimit -v); a
/// very large amount where the system does not say. Source: Linux, MemAvailable of /proc/meminfo,
/// VmSize of /proc/self/status.
Bytes free_memory();

/// Ends a load once nine tenths of what was free when it began are gone, as packed events say
/// little about how much they hold.
class MemoryGuard {
 public:
  using Measure = std::function<Bytes()>;
  /// For reading `file`; `free` says how much there is at the time.
  explicit MemoryGuard(std::string file, Measure free = free_memory);

  /// To be called every few MiB; throws Error (ExitCode::outside) that says what was taken and what
  /// is free.
  void check();
  /// The same for an allocation that failed.
  Error out_of_memory() const;

 private:
  std::string file_;
  Measure free_;
  Bytes at_first_;
  Bytes at_last_;  ///< when it was last checked: what failed has been given back
};

}  // namespace shardscope
