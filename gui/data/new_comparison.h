// A comparison that no file holds yet: one model under several strategies, or under the
// configuration of another tool, predicted by the program `shardscope`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/config_file.h"
#include "gui/data/open_scenarios.h"
#include "gui/data/scenario.h"

namespace shardscope::gui {

struct OfferedStrategy {
  std::string_view runtime, strategy;  ///< as --runtime and --strategy take them
  bool is_usual = false;               ///< chosen unless somebody chooses
};
/// DDP, ZeRO-1 to 3, FSDP1 and FSDP2.
const std::vector<OfferedStrategy>& offered_strategies();

struct NewComparison {
  std::filesystem::path model;  ///< folder or config.json
  /// Of another tool; none: `strategies` say how the model is trained.
  std::optional<ConfigFile> config = {};
  std::vector<OfferedStrategy> strategies = {};
  std::string cluster = "h100_sxm";  ///< name or file of a hardware profile
  std::string precision = "bf16_mixed";
  int world = 8;           ///< ranks; a file of accelerate says its own
  std::int64_t batch = 1;  ///< sequences of a rank's micro-batch
  std::int64_t seq = 1024;
  std::filesystem::path folder;  ///< receives a run folder for each prediction
};

/// What a file opens as: a configuration of another tool, or a model's config.json; none where it
/// is something else, and for files of more than 256 KiB.
std::optional<NewComparison> comparison_of(const std::filesystem::path& file);

/// What is missing, in one sentence; "" where nothing is.
std::string what_is_missing(const NewComparison& comparison);

/// Makes a folder that was not there: `wanted`, or with "_2", "_3" and so on behind it. Throws
/// Error where it cannot.
std::filesystem::path make_new_folder(const std::filesystem::path& wanted);

/// What `shardscope` is told for each prediction, in order.
std::vector<std::vector<std::string>> simulations_of(const NewComparison& comparison);

/// Runs them one after the other and opens what they leave. What one refuses is a finding of the
/// others. Throws Error with the reason where all are refused.
std::vector<ScenarioPointer> predict_comparison(const NewComparison& comparison,
                                                const OpenOptions& options = {});

}  // namespace shardscope::gui
