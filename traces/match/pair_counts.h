// How sure a match is, and how many pairs are how sure.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardscope {

/// How sure a pair is.
enum class Confidence : std::uint8_t {
  all_fields,      ///< everything that tells two of its kind apart is in the trace, and equal
  known_fields,    ///< all that the trace says is equal; some it does not say
  order_and_kind,  ///< kind and place between pairs that are surer; something else differs
};
std::string_view name_of(Confidence confidence);

/// Pairs of one kind of thing, by confidence.
struct PairCounts {
  std::int64_t predicted = 0, profiled = 0;
  std::int64_t all_fields = 0, known_fields = 0, order_and_kind = 0;

  std::int64_t matched() const { return all_fields + known_fields + order_and_kind; }
  std::int64_t sure() const { return all_fields + known_fields; }
  /// Nothing is left over on either side, and no pair differs in what the trace says.
  bool complete() const { return predicted == profiled && sure() == predicted; }
  void count(Confidence confidence);
  PairCounts& operator+=(const PairCounts& other);
};

}  // namespace shardscope
