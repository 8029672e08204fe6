// What a device did while a profile was open, and whose time it took.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/executor/probe.h"
#include "backend/profile/device_record.h"
#include "core/base/quantities.h"

namespace shardscope {

struct DeviceRecording {
  std::vector<std::string> names;     ///< as in the source: "add<float>(float*)"
  std::vector<DeviceRecord> records;  ///< by start
  std::int64_t dropped = 0;           ///< records known to be lost
  Duration clock_residual;            ///< times may be off the host's clock by so much
  std::vector<std::string> notes;     ///< what could not be recorded, in words

  std::string_view name(const DeviceRecord& record) const { return names[record.name]; }
};

/// Records without times, where the device had no room to note them.
bool is_untimed(const DeviceRecord& record);

/// The time in which a stream works, split by operation. What lies under an earlier record of the
/// same stream counts once, as the earlier one's: the parts sum to `busy` to the nanosecond.
struct StreamBusy {
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  Duration busy;
  std::map<OperationId, Duration> by_operation;  ///< under no operation: what is not ours
  std::int64_t overlaps = 0;  ///< records that begin before an earlier one has ended
  Duration overlapped;        ///< under an earlier record
};
/// Of all streams that worked, by context and stream.
std::vector<StreamBusy> busy_by_stream(const DeviceRecording& recording);

/// Device memory that one library took and gave back while the profile was open.
struct LibraryMemory {
  std::string library;
  std::int64_t allocations = 0;
  std::int64_t releases = 0;
  Bytes allocated;
  Bytes released;
  bool operator==(const LibraryMemory&) const = default;
};
/// By name. Memory of the host is left out.
std::vector<LibraryMemory> memory_by_library(const DeviceRecording& recording);

/// Records what a device does, once or many times, one after the other.
class DeviceRecorder {
 public:
  virtual ~DeviceRecorder() = default;

  /// Hears what the records belong to. The same as long as this lives.
  virtual Probe& probe() = 0;
  /// Empty: it records from now on. Else why not, in one line, and what there is instead; stop() is
  /// then not called.
  virtual std::string start() = 0;
  /// Ends what was started, with the device idle, and gives it all.
  virtual DeviceRecording stop() = 0;
};

}  // namespace shardscope
