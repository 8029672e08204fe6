#include "sim/planner/answer/chosen.h"

#include <fmt/format.h>

#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

/// What speaks against a place, the least first.
enum class Objection : std::uint8_t { none, beyond_the_file, small_margin };

Objection objection_to(const Candidate& candidate, const WrittenFrom& from) {
  if (has_small_margin(candidate.summary)) return Objection::small_margin;
  return memory_beyond_the_file(candidate.choice, from).empty() ? Objection::none
                                                                : Objection::beyond_the_file;
}

std::string text_of_objection(const Candidate& candidate, const WrittenFrom& from) {
  if (has_small_margin(candidate.summary))
    return fmt::format("it has {} to spare", rounded_text(*free_memory(candidate.summary)));
  return fmt::format("no file says \"{}\"", memory_beyond_the_file(candidate.choice, from));
}

}  // namespace

Chosen chosen_of(std::span<const Candidate> places, const WrittenFrom& from) {
  Chosen chosen;
  for (std::size_t i = 1; i < places.size(); ++i)
    if (places[i].ties &&
        objection_to(places[i], from) < objection_to(places[chosen.candidate], from))
      chosen.candidate = i;
  if (chosen.candidate > 0) chosen.why_not_first = text_of_objection(places.front(), from);
  return chosen;
}

}  // namespace shardscope::planner
