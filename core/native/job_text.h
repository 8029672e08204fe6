// A job as the text of its file.
#pragma once

#include <string>
#include <string_view>

#include "core/native/job.h"

namespace shardscope {

/// As `read_job` reads a file of that text; `name` stands for the file in errors. Relative paths
/// stay as they are. Throws Error.
Job read_job_text(std::string_view text, const std::string& name);

}  // namespace shardscope
