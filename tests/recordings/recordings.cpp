#include "tests/recordings/recordings.h"

#include <algorithm>

namespace shardscope::recordings {

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{parameters_kind()};
  return all;
}

bool Options::leaves_out(const std::string& field) const {
  return std::find(except.begin(), except.end(), field) != except.end();
}

bool matches(const std::string& pattern, const std::string& text) {
  std::size_t p = 0, t = 0, star = std::string::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string::npos;
}

}  // namespace shardscope::recordings
