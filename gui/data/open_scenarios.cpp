#include "gui/data/open_scenarios.h"

#include "core/error.h"
#include "gui/data/open_run.h"

namespace shardscope::gui {

std::vector<ScenarioPointer> open_scenarios(const std::filesystem::path& path,
                                            const OpenOptions& options) {
  if (is_run_folder(path)) return {open_run(path, options)};
  throw Error(
      {.where = path.string(),
       .what = "is no run folder: neither summary.json nor predicted/summary.json is in it",
       .way_out = "give a folder that `shardscope train` or `shardscope simulate -o` left"});
}

}  // namespace shardscope::gui
