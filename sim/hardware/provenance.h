// Where a figure comes from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardscope {

enum class Origin : std::uint8_t {
  measured,   ///< by this program, here
  vendor,     ///< stated by who makes it
  published,  ///< measured by somebody else, who says how
  assumed,
};
std::string_view name_of(Origin origin);

struct Provenance {
  Origin origin = Origin::measured;
  std::string source;  ///< "AMD EPYC, 2 cores" or the data sheet's title
  std::string date;    ///< "2026-11-21"
  double spread = 0;   ///< relative standard deviation of what machines of the kind really show
  bool operator==(const Provenance&) const = default;
};

}  // namespace shardscope
