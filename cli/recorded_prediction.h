// What a recording of a script comes to on a machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/output_options.h"
#include "cli/terminal.h"
#include "core/recording/recorded_schedule.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/prediction/prediction.h"

namespace shardscope {

/// What summaries of recordings name as their runtime: whichever the script uses.
inline constexpr std::string_view recorded_runtime = "pytorch";

/// recording.json of a run folder that `record` left.
struct RecordingSettings {
  std::vector<std::string> command;
  RecordedPlace place;        ///< the rank that is played
  std::vector<int> ranks;     ///< that were recorded, the first one in events.txt
  std::string time = "zero";  ///< "zero", "sync", "model"
  std::string cluster;        ///< the profile that it was recorded for
  int exit_code = 0;          ///< of the command
  std::int64_t tokens = 0;    ///< of a step of the whole job; 0: not told
};

struct RecordedRun {
  RecordingSettings settings;
  Recording recording;    ///< its schedule is what was played
  Prediction prediction;  ///< without the schedule
};

/// Throws Error where nothing was recorded.
void require_recording(const std::filesystem::path& folder);

/// Of one of the recorded ranks.
std::filesystem::path events_file(const std::filesystem::path& folder,
                                  const RecordingSettings& settings);
void write_settings(const RecordingSettings& facts, const Recording& recording,
                    const std::filesystem::path& folder);
/// Reads the folder and plays its ranks on the machine, the one that is asked for (or the first
/// one) in front. Ranks wait for each other where they meet. Throws Error naming the file, or the
/// ranks that there are.
std::vector<RecordedRun> predict_recordings(const std::filesystem::path& folder,
                                            const HardwareProfile& profile,
                                            const OutputOptions& output,
                                            std::optional<std::int64_t> rank = std::nullopt);
/// The same of logs that were just written.
std::vector<RecordedRun> predict_recordings(const RecordingSettings& facts,
                                            const std::filesystem::path& folder,
                                            const HardwareProfile& profile,
                                            const OutputOptions& output);

/// Command, ranks, what was not known; then the summary of the first rank, and a line for each
/// other.
std::string recorded_text(const std::vector<RecordedRun>& runs, const HardwareProfile& profile,
                          const Painter& painter);
/// The first rank; `ranks` has all of them where there are several.
std::string recorded_json(const std::vector<RecordedRun>& runs, std::string_view verb);

}  // namespace shardscope
