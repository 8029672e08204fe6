#include "gui/data/predict_settings.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/format/is_there.h"
#include "gui/data/child_process.h"
#include "gui/data/open_run.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;

/// A new folder, gone at the end with what is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "shardscope-gui-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw Error({.where = name, .what = "cannot be made", .code = ExitCode::outside});
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

std::optional<Side> predict_settings(const fs::path& settings, const fs::path& trace,
                                     std::vector<Finding>& findings, const OpenOptions& options) {
  const auto program = shardscope_program();
  if (!program) {
    findings.push_back({Severity::warning, settings.string(),
                        "no prediction was made of it: the program shardscope is neither beside "
                        "this one nor in PATH; SHARDSCOPE=FILE names it"});
    return std::nullopt;
  }
  if (options.on_progress) options.on_progress(1, "predicting " + settings.string());
  const TemporaryFolder folder;
  const ChildResult result =
      run_child({.program = *program,
                 .arguments = {"compare", "--predicted", settings.string(), "--trace",
                               trace.string(), "-o", folder.path().string(), "--json", "--quiet"}},
                options.stop);
  const RunFolder run{folder.path()};
  if (!is_there(run.predicted_summary())) {
    findings.push_back({Severity::warning, settings.string(),
                        "no prediction was made of it: " + reason_of(result)});
    return std::nullopt;
  }
  Side side = read_predicted(run, findings);
  // The folder is gone when this is shown.
  for (Finding& finding : findings)
    if (finding.where.starts_with(folder.path().string()))
      finding.where = settings.string() + ", predicted";
  side.source = settings;
  return side;
}

}  // namespace shardscope::gui
