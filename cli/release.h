// Releases of a library, of which the rules of some are known.
#pragma once

#include <string>
#include <string_view>

namespace shardscope {

/// MAJOR.oldest to MAJOR.newest.
struct KnownReleases {
  std::string_view library;  ///< "PEFT"
  std::string_view option;   ///< that names a release
  std::string_view major;    ///< "0."
  int oldest = 0, newest = 0;
};

/// N of "MAJOR.N" or "MAJOR.N.P". Throws Error naming the option where that is none of `known`.
int minor_release(const KnownReleases& known, const std::string& version);

}  // namespace shardscope
