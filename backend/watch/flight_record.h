// What a rank's flight looks like in files and between ranks.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backend/watch/diagnosis.h"
#include "backend/watch/flight_recorder.h"

namespace shardscope {

struct FlightRecord {
  int rank = 0;
  int world = 1;
  Duration deadline;
  Verdict verdict;
  FlightSnapshot snapshot;
};
/// The file flight.<rank>.json of a run folder; its keys stand in docs/cli.md.
std::string to_json(const FlightRecord& record);

/// What the rank that judges tells all others: one line.
std::string to_json(const Verdict& verdict);
/// Nothing where `text` is no verdict.
std::optional<Verdict> parse_verdict(std::string_view text);

/// What a rank tells the others through the store: one line, below the store's limit.
std::string to_json(const RankStatement& report);
/// Nothing where `text` is no report.
std::optional<RankStatement> parse_report(std::string_view text);

}  // namespace shardscope
