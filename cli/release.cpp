#include "cli/release.h"

#include <fmt/format.h>

#include <charconv>

#include "core/base/error.h"

namespace shardscope {

int minor_release(const KnownReleases& known, const std::string& version) {
  int minor = -1;
  const char* end = version.data() + version.size();
  if (version.starts_with(known.major)) {
    const auto read = std::from_chars(version.data() + known.major.size(), end, minor);
    if (read.ec != std::errc() || (read.ptr != end && *read.ptr != '.')) minor = -1;
  }
  if (minor >= known.oldest && minor <= known.newest) return minor;
  throw Error(
      {.where = std::string(known.option),
       .what = fmt::format("the rules of {} {} are not known", known.library, version),
       .way_out = fmt::format("{0}{1} to {0}{2} are", known.major, known.oldest, known.newest)});
}

}  // namespace shardscope
