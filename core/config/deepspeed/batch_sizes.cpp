#include "core/config/deepspeed/batch_sizes.h"

#include <fmt/format.h>

#include "core/base/refusal.h"
#include "core/config/values/python_arithmetic.h"

namespace shardscope {
namespace {

Refusal failed(std::string where, std::string what, std::string way_out) {
  return Refusal(
      "AssertionError",
      {.where = std::move(where), .what = std::move(what), .way_out = std::move(way_out)});
}

DeepSpeedBatch filled(DeepSpeedBatch batch, const ConfigValue& world) {
  const bool train = !batch.train.is_null();
  const bool micro = !batch.micro.is_null();
  const bool accumulation = !batch.accumulation.is_null();
  if (train && micro && accumulation) return batch;
  if (!train && !micro)
    throw failed("train_batch_size", "neither it nor train_micro_batch_size_per_gpu is given",
                 "give one of them");
  if (train && micro)
    batch.accumulation = floor_divided(floor_divided(batch.train, batch.micro), world);
  else if (train && accumulation)
    batch.micro = floor_divided(floor_divided(batch.train, world), batch.accumulation);
  else if (micro && accumulation)
    batch.train = multiplied(multiplied(batch.micro, batch.accumulation), world);
  else if (train)
    batch.micro = floor_divided(batch.train, world);
  else
    batch.train = multiplied(batch.micro, world);
  if (batch.accumulation.is_null()) batch.accumulation = 1;
  return batch;
}

void require_positive(std::string_view key, const ConfigValue& value) {
  if (is_greater(value, ConfigValue(0))) return;
  throw failed(std::string(key), fmt::format("comes out at {}, not greater than 0", value.str()),
               "raise train_batch_size or lower the others");
}

}  // namespace

DeepSpeedBatch completed_batch(DeepSpeedBatch given, const ConfigValue& world) {
  DeepSpeedBatch batch = filled(std::move(given), world);
  require_positive("train_batch_size", batch.train);
  require_positive("train_micro_batch_size_per_gpu", batch.micro);
  require_positive("gradient_accumulation_steps", batch.accumulation);
  const ConfigValue product = multiplied(multiplied(batch.micro, batch.accumulation), world);
  if (batch.train == product) return batch;
  throw failed("train_batch_size",
               fmt::format("{} is not train_micro_batch_size_per_gpu * "
                           "gradient_accumulation_steps * world = {} * {} * {} = {}",
                           batch.train.str(), batch.micro.str(), batch.accumulation.str(),
                           world.str(), product.str()),
               "drop one of the three");
}

}  // namespace shardscope
