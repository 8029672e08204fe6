#include "tests/recordings/recorded_file.h"

#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "traces/gzip.h"

namespace shardscope::recordings {
namespace {

namespace fs = std::filesystem;

Error unreadable(const fs::path& path, std::string what) {
  return Error({.where = path.string(), .what = std::move(what), .way_out = {}});
}

/// The text of a file, gzipped or not.
std::string text_of(const fs::path& path) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 30;
  std::string content = read_whole(path, most_bytes);
  return is_gzip(content) ? gunzip(content, most_bytes, path.string()) : content;
}

}  // namespace

std::vector<std::string> recorded_names(const fs::path& folder,
                                        const std::vector<std::string>& except) {
  std::error_code error;
  std::set<std::string> names;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    fs::path name = i->path().filename();
    if (name.extension() == ".gz") name = name.stem();
    if (name.extension() == ".json") names.insert(name.stem().string());
  }
  if (error) throw unreadable(folder, error.message());
  for (const std::string& name : except) names.erase(name);
  return {names.begin(), names.end()};
}

nlohmann::ordered_json recorded_json(const fs::path& folder, const std::string& name) {
  const fs::path plain = folder / (name + ".json");
  const fs::path path = fs::exists(plain) ? plain : folder / (name + ".json.gz");
  auto json = nlohmann::ordered_json::parse(text_of(path), nullptr, false);
  if (json.is_discarded()) throw unreadable(path, "is no JSON");
  return json;
}

}  // namespace shardscope::recordings
