#include "backend/train/required_run_folder.h"

#include "core/base/error.h"
#include "core/format/is_there.h"
#include "traces/run_folder.h"

namespace shardscope {

void require_run_folder(const std::filesystem::path& run) {
  const std::filesystem::path job = RunFolder{run}.job();
  if (is_there(job)) return;
  throw Error({.where = job.string(),
               .what = "is not there, so this is not the folder that the run began in",
               .way_out = "see whether its file system is mounted, on all hosts alike; then go on "
                          "with --resume",
               .code = ExitCode::outside});
}

}  // namespace shardscope
