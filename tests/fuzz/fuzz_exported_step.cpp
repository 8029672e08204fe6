// Any bytes as the JSON of an exported model: either an Error, or steps that can be played under
// DDP and, with checkpointing, under FSDP2.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/error.h"
#include "core/model/exported_step.h"
#include "core/model/read_model.h"
#include "core/pytorch/runtimes/training/recorded_schedule.h"
#include "core/pytorch/runtimes/training/requested_setup.h"

namespace {

using namespace shardscope;

void play(const Model& model, const ExportedProgram& program, Runtime runtime) {
  RuntimeRequest request{.runtime = runtime,
                         .sharding = runtime == Runtime::ddp ? ShardingStrategy::no_shard
                                                             : ShardingStrategy::full_shard,
                         .world = 2};
  eager::TrainingSetup setup = eager::requested_setup(model, request);
  setup.trainable_dtype = program.parameters;
  setup.loop.autocast = program.autocast;
  setup.loop.batch = program.batch;
  setup.loop.length = program.sequence;
  if (runtime == Runtime::fsdp2) setup.checkpointing = eager::checkpointing_of(model, {.every = 1});
  try {
    eager::recorded_schedule(model, JsonValue::parse("{}", ""), setup, eager::kernel_device(90));
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Model model = model_of_json(text, "model.json");
    if (!model.step) return 0;
    play(model, model.step->programs.front(), Runtime::ddp);
    play(model, model.step->programs.back(), Runtime::fsdp2);
  } catch (const Error&) {
  }
  return 0;
}
