// What the stand-in for CUPTI is to refuse, while this lives.
#pragma once

#include <cstdlib>

namespace shardscope::test {

class CuptiFault {
 public:
  /// One of those that stand_in_cupti.cpp knows.
  explicit CuptiFault(const char* what) { setenv("SHARDSCOPE_STAND_IN_CUPTI", what, 1); }
  ~CuptiFault() { unsetenv("SHARDSCOPE_STAND_IN_CUPTI"); }
  CuptiFault(const CuptiFault&) = delete;
  CuptiFault& operator=(const CuptiFault&) = delete;
};

}  // namespace shardscope::test
