#include "sim/hardware/provenance.h"

namespace shardscope {

std::string_view name_of(Origin origin) {
  switch (origin) {
    case Origin::measured:
      return "measured";
    case Origin::vendor:
      return "vendor";
    case Origin::published:
      return "published";
    case Origin::assumed:
      return "assumed";
  }
  return "?";
}

}  // namespace shardscope
