#include "cli/expert_load.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>

#include "core/base/error.h"

namespace shardscope {
namespace {

Error wrong(std::string_view text, std::string_view what) {
  return Error({.where = "--expert-load",
                .what = fmt::format("\"{}\" {}", text, what),
                .way_out = "give a factor of 1 or more, as 1.3, or with its range: 1.3:1.1-1.8"});
}

double factor_of(std::string_view part, std::string_view text) {
  double factor = 0;
  const auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), factor);
  if (code != std::errc() || end != part.data() + part.size() || !std::isfinite(factor))
    throw wrong(text, "is not a number of 1 or more");
  if (factor < 1)
    throw wrong(text, "is below 1, and the busiest rank has no fewer tokens than the average");
  return factor;
}

}  // namespace

ExpertLoad parse_expert_load(const std::optional<std::string>& given) {
  if (!given) return {};
  const std::string_view text = *given;
  const std::size_t colon = text.find(':');
  ExpertLoad load{.factor = factor_of(text.substr(0, colon), text)};
  if (colon == text.npos) return load;
  const std::string_view range = text.substr(colon + 1);
  const std::size_t dash = range.find('-');
  if (dash == range.npos) throw wrong(text, "has no range after its colon");
  load.range.emplace(factor_of(range.substr(0, dash), text),
                     factor_of(range.substr(dash + 1), text));
  if (load.range->first > load.factor || load.range->second < load.factor)
    throw wrong(text, "has its factor outside of its range");
  return load;
}

void check_expert_load(const ExpertLoad& load, int expert_ranks) {
  const double most = load.range ? load.range->second : load.factor;
  if (expert_ranks <= 1 || most <= expert_ranks) return;
  throw Error({.where = "--expert-load",
               .what = fmt::format("{} times the average is more than {} ranks of experts have "
                                   "tokens for",
                                   most, expert_ranks),
               .way_out = fmt::format("give at most {}", expert_ranks)});
}

}  // namespace shardscope
