#include "traces/match/pair_counts.h"

namespace shardscope {

std::string_view name_of(Confidence confidence) {
  switch (confidence) {
    case Confidence::all_fields:
      return "all_fields";
    case Confidence::known_fields:
      return "known_fields";
    case Confidence::order_and_kind:
      break;
  }
  return "order_and_kind";
}

void PairCounts::count(Confidence confidence) {
  all_fields += confidence == Confidence::all_fields;
  known_fields += confidence == Confidence::known_fields;
  order_and_kind += confidence == Confidence::order_and_kind;
}

PairCounts& PairCounts::operator+=(const PairCounts& other) {
  predicted += other.predicted;
  profiled += other.profiled;
  all_fields += other.all_fields;
  known_fields += other.known_fields;
  order_and_kind += other.order_and_kind;
  return *this;
}

}  // namespace shardscope
