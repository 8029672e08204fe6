#include "traces/match/collective_match.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardscope {
namespace {

/// What a trace may say of a collective, beside its kind.
struct Agreement {
  int said = 0, equal = 0;
  static constexpr int fields = 4;  // elements in and out, element type, size of the group

  template <class Value>
  void add(const std::optional<Value>& seen, const Value& expected) {
    if (!seen) return;
    ++said;
    equal += *seen == expected;
  }
};

using UnitNames = std::vector<std::optional<std::string>>;

bool same_unit(const OperationFacts& facts, const ProfiledCollective& seen,
               const UnitNames& unit_names) {
  if (!seen.unit || *seen.unit >= unit_names.size() || !unit_names[*seen.unit]) return true;
  return has_unit(facts) && facts.unit == *unit_names[*seen.unit];
}

Agreement agreement(const OperationFacts& facts, const ProfiledCollective& profiled) {
  const ImportedCollective& seen = profiled.seen;
  Agreement result;
  result.add(seen.elements_in, facts.elements_in);
  result.add(seen.elements_out, facts.elements_out);
  result.add(seen.dtype, facts.dtype);
  // Of a gather and its opposite the sizes tell the group's.
  const bool sizes_tell =
      facts.elements_in != facts.elements_out && seen.elements_in && seen.elements_out;
  const auto ranks = static_cast<std::int64_t>(facts.ranks.size());
  result.add(sizes_tell && !seen.group_size ? std::optional(ranks) : seen.group_size, ranks);
  return result;
}

bool same_kind(const OperationFacts& facts, const ProfiledCollective& seen) {
  return !seen.seen.kind || *seen.seen.kind == facts.kind;
}

bool agrees(const OperationFacts& facts, const ProfiledCollective& seen, const UnitNames& names) {
  const Agreement fields = agreement(facts, seen);
  return same_kind(facts, seen) && fields.equal == fields.said && same_unit(facts, seen, names);
}

std::string elements_text(std::optional<std::int64_t> elements) {
  return elements ? fmt::format("{}", *elements) : "?";
}

}  // namespace

SequenceMatch match_collectives(const std::vector<PredictedOperation>& predicted,
                                const std::vector<ProfiledCollective>& profiled,
                                const UnitNames& unit_names) {
  const auto agrees_at = [&](std::size_t i, std::size_t j) {
    return agrees(*predicted[i].facts, profiled[j], unit_names);
  };
  const auto alike = [&](std::size_t i, std::size_t j) {
    return same_kind(*predicted[i].facts, profiled[j]);
  };
  const auto says_all = [&](std::size_t i, std::size_t j) {
    return profiled[j].seen.kind &&
           agreement(*predicted[i].facts, profiled[j]).said == Agreement::fields;
  };
  return match_sequences({.predicted = predicted.size(),
                          .profiled = profiled.size(),
                          .agrees = agrees_at,
                          .alike = alike,
                          .says_all = says_all});
}

std::string text_of(const OperationFacts& facts) {
  std::string text =
      fmt::format("{} of {} elements in, {} out, {}, {} ranks", name_of(facts.kind),
                  facts.elements_in, facts.elements_out, name_of(facts.dtype), facts.ranks.size());
  if (has_unit(facts) && !facts.unit.empty()) text += ", " + facts.unit;
  return text;
}

std::string text_of(const ProfiledCollective& collective) {
  const ImportedCollective& seen = collective.seen;
  std::string text =
      fmt::format("{} of {} elements in, {} out", seen.kind ? name_of(*seen.kind) : seen.name,
                  elements_text(seen.elements_in), elements_text(seen.elements_out));
  if (seen.dtype) text += fmt::format(", {}", name_of(*seen.dtype));
  if (seen.group_size) text += fmt::format(", {} ranks", *seen.group_size);
  return text;
}

}  // namespace shardscope
