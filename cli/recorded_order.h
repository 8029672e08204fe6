// A second recording of a command beside the first one: does it do the same in the same order.
#pragma once

#include <string>
#include <vector>

#include "cli/recorded_prediction.h"

namespace shardscope {

/// A line for each rank of `second`. Throws Error where `first` lacks that rank.
std::string order_text(const std::vector<RecordedRun>& first,
                       const std::vector<RecordedRun>& second, const std::string& first_folder);
/// `json`, the answer of `record --json`, with "beside" (docs/cli.md).
std::string with_order(const std::string& json, const std::vector<RecordedRun>& first,
                       const std::vector<RecordedRun>& second, const std::string& first_folder);

}  // namespace shardscope
