// CUPTI's activity records as plain values. Included only where its headers were found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/profile/cupti_library.h"
#include "backend/profile/device_record.h"
#include "backend/profile/launch_links.h"
#include "traces/import/name_table.h"

namespace shardscope {

/// What buffers held so far.
struct ParsedRecords {
  std::vector<DeviceRecord> records;
  std::vector<ExternalLink> links;
  std::vector<CallMoment> calls;  ///< of the host, also those that are not kept
  NameTable names;                ///< as the compiler mangles them
  std::int64_t unknown = 0;       ///< records of kinds that are not read here
  std::int64_t unordered = 0;     ///< records that end before they start: left out
  std::int64_t not_kept = 0;      ///< records beyond ParseLimits
  std::int64_t broken = 0;        ///< buffers with a rest that cannot be read
};

/// Of our pushed ids; other libraries of the process may push others.
inline constexpr CUpti_ExternalCorrelationKind external_kind =
    CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

struct ParseLimits {
  std::size_t most_records = std::size_t{1}
                             << 20;  ///< so many are kept, and as many links and calls
  bool keep_calls = true;            ///< records of the host's calls
};

/// Adds the records of one buffer, aligned to 8 bytes. `library` says where each record begins, so
/// that one which is newer than our headers is not misread: of a longer record the known beginning
/// is taken, what a shorter one lacks is 0. A record that is cut off ends the buffer.
void parse_records(std::span<std::uint8_t> buffer, const Cupti& library, const ParseLimits& limits,
                   ParsedRecords& into);

/// How many records one buffer has, of whatever kind.
std::int64_t count_records(std::span<std::uint8_t> buffer, const Cupti& library);

}  // namespace shardscope
