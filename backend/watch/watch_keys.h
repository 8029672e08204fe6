// Where ranks in trouble leave word for each other, and for the launcher, in the store.
#pragma once

#include <string>

namespace shardscope {

inline constexpr const char* trouble_key = "watch/trouble";  ///< to_text(Trouble); the first stands
inline constexpr const char* judge_key = "watch/judge";      ///< the rank that asks all others
inline constexpr const char* verdict_key = "watch/verdict";  ///< to_json(Verdict)
/// Counts ranks whose flight record is written.
inline constexpr const char* concluded_key = "watch/concluded";
inline constexpr const char* ended_key = "watch/ended";  ///< counts ranks that are done with it

/// own_identity() of a rank that has come.
inline std::string here_key(int rank) { return "here/" + std::to_string(rank); }
/// to_json(RankStatement)
inline std::string report_key(int rank) { return "watch/report/" + std::to_string(rank); }
inline constexpr const char* anyone_left_key = "watch/left";  ///< set when somebody has
/// Set by a rank that left in order.
inline std::string left_key(int rank) { return "watch/left/" + std::to_string(rank); }
/// The error that ended a rank, as a line.
inline std::string failure_key(int rank) { return "watch/failure/" + std::to_string(rank); }

}  // namespace shardscope
