#include "sim/prediction/memory_allowances.h"

#include <cmath>
#include <string>

#include "sim/prediction/band.h"
#include "sim/prediction/outside_memory.h"

namespace shardscope {
namespace {

Bytes scaled(Bytes bytes, double factor) {
  return {std::llround(static_cast<double>(bytes.count) * factor)};
}

/// `counted`: the prediction's bytes have it.
MemoryAllowance outside_allowance(const OutsideFigure& figure, bool counted) {
  const OutsideItem& item = figure.item;
  MemoryAllowance result = allowance(
      {.item = item.item, .below = figure.spread, .above = figure.spread, .source = item.source},
      item.bytes);
  if (counted) return result;
  result.item += ", not counted";
  result.above += item.bytes;
  result.below = {};
  return result;
}

}  // namespace

HeldSpread held_spread(const PredictedRun& run) {
  switch (run.compiled) {
    case CompileScope::none:
      break;
    case CompileScope::model_in_parts:
      return {.item = "a model that is compiled in parts",
              .below = 0.53,
              .above = 0,
              .source = "2 steps of GPT-2 under PyTorch 2.15, predicted as eager code"};
    case CompileScope::blocks:
    case CompileScope::blocks_and_loss:
    case CompileScope::model:
      return {.item = "compiled code",
              .below = 0.024,
              .above = 0.024,
              .source = "28 compiled steps of PyTorch 2.15 and 2 published runs of torchtitan"};
  }
  if (run.runtime == name_of(Runtime::deepspeed))
    return {.item = "DeepSpeed",
            .below = 0.0085,
            .above = 0.0085,
            .source = "16 trainings of DeepSpeed 0.19.8 under shardscope record"};
  return {};
}

MemoryAllowance allowance(const HeldSpread& spread, Bytes bytes) {
  const auto factor = [](double deviation) {
    return std::exp(deviations_of_ninety_percent * deviation);
  };
  return {.item = std::string(spread.item),
          .below = scaled(bytes, 1 - 1 / factor(spread.below)),
          .above = scaled(bytes, factor(spread.above) - 1),
          .source = std::string(spread.source)};
}

std::vector<MemoryAllowance> memory_allowances(const Schedule& schedule, const PredictedRun& run,
                                               const HardwareProfile& profile, Bytes held) {
  std::vector<MemoryAllowance> result;
  const bool counted = schedule.memory != MemorySource::arena;
  if (profile.device == "cuda")
    for (const OutsideFigure& figure : outside_figures(schedule, profile))
      if (figure.item.bytes > Bytes{}) result.push_back(outside_allowance(figure, counted));
  const HeldSpread spread = held_spread(run);
  if (spread.below > 0 || spread.above > 0) result.push_back(allowance(spread, held));
  return result;
}

}  // namespace shardscope
