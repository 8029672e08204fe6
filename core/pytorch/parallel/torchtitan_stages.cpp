#include "core/pytorch/parallel/torchtitan_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace shardscope::eager::parallel {
namespace {

constexpr std::string_view name = "torchtitan";

Error error_at(std::string_view where, std::string what) {
  return Error({.where = std::string(where),
                .what = std::move(what),
                .way_out = "change the stages, or give a number of layers for each"});
}

}  // namespace

std::optional<TorchtitanSplit> parse_torchtitan_split(std::string_view text,
                                                      std::string_view where) {
  if (!text.starts_with(name)) return std::nullopt;
  TorchtitanSplit split;
  std::string_view rest = text.substr(name.size());
  if (rest.empty()) return split;
  std::vector<int> numbers;
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view number = rest.substr(0, rest.find(','));
    int value = 0;
    const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool whole = code == std::errc() && end == number.data() + number.size();
    if (!whole || value < 0 || value > 1 << 20 || text[name.size()] != ':')
      throw Error({.where = std::string(where),
                   .what = fmt::format("\"{}\" is not torchtitan:IN,OUT", text),
                   .way_out = "give for example torchtitan:1,1"});
    numbers.push_back(value);
    rest.remove_prefix(number.size());
  }
  if (numbers.size() != 2 && (numbers.size() != 3 || numbers[2] == 0))
    throw Error({.where = std::string(where),
                 .what = fmt::format("\"{}\" has not two or three numbers", text),
                 .way_out = "give for example torchtitan:1,1"});
  split.input_weight = numbers[0];
  split.output_weight = numbers[1];
  if (numbers.size() == 3) split.layers_per_stage = numbers[2];
  return split;
}

std::vector<int> torchtitan_layers(int layers, int stages, const TorchtitanSplit& split,
                                   std::string_view where) {
  if (stages == 1) return {layers};
  const int all = layers + split.input_weight + split.output_weight;
  const int each = all / stages;
  if (each == 0)
    throw error_at(
        where,
        fmt::format("{} stages are more than the {} layers that torchtitan counts", stages, all));
  for (const auto& [part, weight] :
       {std::pair("embedding", split.input_weight), std::pair("output layer", split.output_weight)})
    if (weight > each)
      throw error_at(where, fmt::format("the {} counts as {} layers, more than the {} of a stage",
                                        part, weight, each));
  std::vector<int> counts;
  int left = layers;
  for (int stage = 0; stage < stages; ++stage) {
    int count = each + (stage < all % stages ? 1 : 0);
    if (stage == 0) count -= split.input_weight;
    if (stage + 1 == stages) count -= split.output_weight;
    count = std::min(count, left);
    counts.push_back(count);
    left -= count;
  }
  return counts;
}

int torchtitan_stages_per_rank(int layers, int ranks, bool single_stage_schedule,
                               const TorchtitanSplit& split, std::string_view where) {
  const int all = layers + split.input_weight + split.output_weight;
  const int stages = (all + split.layers_per_stage - 1) / split.layers_per_stage;
  if (stages % ranks != 0)
    throw error_at(where, fmt::format("{} layers a stage make {} stages, which do not divide over "
                                      "{} ranks of the pipeline",
                                      split.layers_per_stage, stages, ranks));
  const int each = stages / ranks;
  if (single_stage_schedule && each != 1)
    throw error_at(where, fmt::format("the schedule has one stage a rank, and {} layers a stage "
                                      "make {}",
                                      split.layers_per_stage, each));
  if (!single_stage_schedule && each < 2)
    throw error_at(where, fmt::format("the schedule has two stages a rank or more, and {} layers a "
                                      "stage make {}",
                                      split.layers_per_stage, each));
  return each;
}

}  // namespace shardscope::eager::parallel
