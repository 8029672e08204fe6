// Which of the places is written, and what decided.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/planner/answer/candidate.h"
#include "sim/planner/written_choice.h"

namespace shardscope::planner {

/// What decides among places that cannot be told apart, in this order.
enum class Rule : std::uint8_t {
  margin,   ///< usual margins that stay free, two at most
  memory,   ///< its file alone takes no more memory
  current,  ///< not FSDP1: PyTorch recommends FSDP2 (its page of
            ///< torch.distributed.fsdp.fully_shard)
  file,     ///< less that its file leaves to the script
  plain,    ///< fewer settings that are not the runtime's usual ones
  fragile,  ///< fewer features that are known to break
  network,  ///< shorter collectives
  place     ///< the better place by the objective
};
std::string_view name_of(Rule rule);

/// A place that cannot be told apart from the chosen one, and what decided against it.
struct PassedOver {
  std::size_t candidate = 0;
  Rule rule = Rule::place;
  std::string why;  ///< as Chosen::why; "" where the place itself decided
};

struct Chosen {
  std::size_t candidate = 0;
  std::vector<std::size_t> tied;  ///< candidates that cannot be told apart, it included
  Rule rule = Rule::place;
  std::string why;                      ///< it is chosen: "leaves 9.2 GiB, place 1 leaves 3.1 GiB"
  std::string why_not_first;            ///< the same, where it is not the first place
  std::vector<PassedOver> passed_over;  ///< all others of `tied`, by place
};

/// Of the first place and those that cannot be told apart from it the best by the rules.
Chosen chosen_of(std::span<const Candidate> places, const WrittenFrom& from);

/// Features of a choice that are known to break, with the reason.
std::vector<std::string_view> fragile_features(const Choice& choice);

}  // namespace shardscope::planner
