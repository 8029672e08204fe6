#include "cli/import_target.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string_view>
#include <system_error>

#include "core/base/error.h"
#include "core/format/atomic_file.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view report_start = R"({"schema":"shardscope.report/)";

/// Without links, and without the empty name that a '/' at the end leaves.
fs::path real_path(const fs::path& path) {
  fs::path real = fs::weakly_canonical(fs::absolute(path));
  return real.has_filename() ? real : real.parent_path();
}

fs::path real_source(const std::string& source) {
  try {
    return real_path(source);
  } catch (const fs::filesystem_error& error) {
    throw Error({.where = source,
                 .what = "cannot be read: " + error.code().message(),
                 .code = ExitCode::outside});
  }
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

/// A name that import gives to a file.
bool is_imported_name(std::string_view name) {
  constexpr std::string_view before = "trace.", behind = ".json.gz";
  if (name == "summary.json" || name == "report.json") return true;
  if (name.size() <= before.size() + behind.size() || !name.starts_with(before) ||
      !name.ends_with(behind))
    return false;
  name.remove_prefix(before.size());
  name.remove_suffix(behind.size());
  return name.find_first_not_of("0123456789") == name.npos;
}

bool is_report(const fs::path& path) {
  std::string start(report_start.size(), '\0');
  std::ifstream(path).read(start.data(), static_cast<std::streamsize>(start.size()));
  return start == report_start;
}

/// Empty, or what an earlier import left and no more.
bool may_be_replaced(const fs::path& folder) {
  bool is_empty = true;
  for (const auto& entry : fs::directory_iterator(folder)) {
    is_empty = false;
    if (!entry.is_regular_file() || !is_imported_name(entry.path().filename().string()))
      return false;
  }
  return is_empty || is_report(folder / "report.json");
}

void check(const fs::path& into, const std::vector<std::string>& sources) {
  for (const std::string& source : sources) {
    if (!lies_in(real_source(source), into)) continue;
    throw Error({.where = "-o " + into.string(),
                 .what = source + ", which is to be imported, lies in it",
                 .way_out = "give another folder"});
  }
  if (!fs::exists(into)) return;
  if (fs::is_directory(into) && may_be_replaced(into)) return;
  throw Error({.where = "-o " + into.string(),
               .what = "holds something else than what an earlier import left",
               .way_out = "give a folder that is not there yet"});
}

[[noreturn]] void fail(const fs::path& path, const std::error_code& error) {
  throw Error({.where = path.string(),
               .what = "cannot be written: " + error.message(),
               .way_out = {},
               .code = ExitCode::outside});
}

fs::path new_folder_beside(const fs::path& path) {
  create_folder(path.parent_path());
  std::string name = (path.parent_path() / ("." + path.filename().string() + ".XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr) fail(name, {errno, std::generic_category()});
  return name;
}

}  // namespace

ImportTarget::ImportTarget(const fs::path& into, const std::vector<std::string>& sources) {
  try {
    into_ = real_path(into);
    check(into_, sources);
  } catch (const fs::filesystem_error& error) {
    fail(into, error.code());
  }
}

ImportTarget::~ImportTarget() {
  std::error_code ignored;
  if (!staging_.empty()) fs::remove_all(staging_, ignored);
}

const RunFolder& ImportTarget::files() {
  if (!staging_.empty()) return staged_;
  staging_ = new_folder_beside(into_);
  staged_.root = staging_ / "new";  // the outer one is for this user's eyes only
  create_folder(staged_.root);
  return staged_;
}

void ImportTarget::publish() {
  std::error_code error;
  const fs::path old = staging_ / "old";
  const bool is_there = fs::exists(into_, error);
  if (is_there) fs::rename(into_, old, error);
  if (!error) fs::rename(staged_.root, into_, error);
  if (!error) return;
  std::error_code ignored;
  if (is_there && fs::exists(old, ignored)) fs::rename(old, into_, ignored);
  fail(into_, error);
}

}  // namespace shardscope
