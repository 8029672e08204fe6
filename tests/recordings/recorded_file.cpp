#include "tests/recordings/recorded_file.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"

namespace shardscope::recordings {
namespace {

namespace fs = std::filesystem;

Error unreadable(const fs::path& path, std::string what) {
  return Error({.where = path.string(), .what = std::move(what), .way_out = {}});
}

/// The text of a file; zlib passes on what is not gzipped.
std::string text_of(const fs::path& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw unreadable(path, "cannot be opened");
  std::string text;
  char part[1 << 16];
  int got = 0;
  while ((got = gzread(file.get(), part, sizeof part)) > 0)
    text.append(part, static_cast<std::size_t>(got));
  if (got < 0) throw unreadable(path, "cannot be unpacked");
  return text;
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
