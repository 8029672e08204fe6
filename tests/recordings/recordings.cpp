#include "tests/recordings/recordings.h"

#include <fnmatch.h>

#include <algorithm>

namespace shardscope::recordings {

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{allocator_kind(), collectives_kind(),     configs_kind(),
                                     finetune_kind(),  flat_parameters_kind(), kineto_kind(),
                                     memory_kind(),    operators_kind(),       ops_kind(),
                                     parallel_kind(),  parameters_kind(),      parameters_v4_kind(),
                                     pipeline_kind(),  snapshots_kind(),       traces_kind(),
                                     training_kind()};
  return all;
}

bool Options::leaves_out(const std::string& field) const {
  return std::find(except.begin(), except.end(), field) != except.end();
}

bool matches(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

}  // namespace shardscope::recordings
