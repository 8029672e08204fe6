// DeepSpeed's stage 3 of a model that fills several buckets: its bounds on thousands of ranks,
// whose host works for each of them, and the step that repeats.
#include <gtest/gtest.h>

#include <string_view>
#include <utility>
#include <vector>

#include "core/model/huggingface.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/planner/answer/basis.h"
#include "sim/planner/bounds.h"
#include "tests/sim/planner/answer/tiny_plan.h"
#include "tests/sim/planner/equal_schedules.h"

namespace shardscope::planner {
namespace {

/// A recording, and the moments of its steps that were run.
struct CountedRecording {
  Schedule schedule;
  int moments = 0;
};

template <class Record>
CountedRecording counted(const Record& record) {
  struct Moments final : eager::ProgramListener {
    void on_program(const Schedule&) override { ++count; }
    int count = 0;
  } moments;
  Schedule schedule = record(moments);
  return {.schedule = std::move(schedule), .moments = moments.count};
}

/// As Llama-3-8B, with 8 of its 32 blocks.
constexpr std::string_view wide_llama = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 8192,
  "num_attention_heads": 32, "num_hidden_layers": 8, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "use_cache": false, "vocab_size": 128256})";

class ManyRanks : public ::testing::Test {
 protected:
  static Inputs wide_plan() {
    Inputs inputs = tiny_plan();
    inputs.config = JsonValue::parse(wide_llama, "config.json");
    inputs.model = model_of_config(inputs.config);
    inputs.profile = find_hardware_profile("h100_sxm", "test");
    inputs.question.training.length = 2048;
    return inputs;
  }
  static Choice zero3(int ranks, int micro_batches) {
    return {.runtime = Runtime::deepspeed,
            .sharding = ShardingStrategy::full_shard,
            .mesh = {.shard = ranks},
            .prefetch = Prefetch::pre,
            .batch = 1,
            .micro_batches = micro_batches};
  }

  Inputs inputs_ = wide_plan();
  Basis basis_{inputs_};
};

// By hand: embedding and head have 525,336,576 elements, more than a bucket, so each is alone in
// one. Of 56 matrices three may be alone: before either of these, and at the end. The others are
// narrowed for each rank, 53 x 8,192 views. 17 weights of norms have 4,096 elements, fewer than
// ranks: 8,192 views each, and empty tensors for 4,096 ranks that have none. That is 643,072. Twice
// the ranks have 1,355,776. Each takes 4.69 us of a backward (7 us x 0.67): 3,342.58 ms more.
TEST_F(ManyRanks, PartsAreCountedBesideGradientsLargerThanABucket) {
  const std::vector<Choice> two{zero3(8192, 1), zero3(16384, 1)};
  const std::vector<Bounds> bounds = bounds_of(two, basis_.trials, 1);
  EXPECT_EQ(bounds[1].time - bounds[0].time, Duration{3'342'581'760});
}

TEST_F(ManyRanks, BoundIsNoHigherThanTheTrial) {
  for (const int ranks : {64, 1000, 4096, 16384})
    for (const int micro_batches : {1, 3}) {
      const Choice choice = zero3(ranks, micro_batches);
      const Duration bound = bounds_of(std::vector{choice}, basis_.trials, 1).front().time;
      const Duration trial = try_out(choice, basis_.trials).time.span;
      EXPECT_LE(bound, trial) << ranks << " ranks, " << micro_batches << " micro-batches";
    }
}

std::vector<Choice> settings_of(const Choice& plain) {
  std::vector<Choice> all(7, plain);
  all[1].checkpointing.every = 1;
  all[2].checkpointing.every = 4;
  all[3].prefetch = Prefetch::none;
  all[4].precision = TrainingPrecision::fp32;
  all[5].precision = TrainingPrecision::bf16;
  all[6].sharding = ShardingStrategy::hybrid_shard;
  all[6].mesh = {.replicate = 8, .shard = 8};
  return all;
}

// Of each micro-batch five buckets are reduced, so from the second micro-batch on the host waits.
TEST_F(ManyRanks, TheThirdStepRepeatsTheSecond) {
  const int all_ranks = 64;
  for (const int micro_batches : {2, 3, 5})
    for (const Choice& choice : settings_of(zero3(all_ranks, micro_batches))) {
      SCOPED_TRACE(text_of(choice));
      const CountedRecording recorded = counted([&](eager::ProgramListener& listener) {
        return recording_of(choice, basis_.trials, {}, &listener);
      });
      const CountedRecording run = counted([&](eager::ProgramListener& listener) {
        return schedule_of(pytorch_training(choice, basis_.trials), inputs_.model, inputs_.config,
                           {}, &listener);
      });
      EXPECT_EQ(3 * recorded.moments, 2 * run.moments);
      expect_equal(recorded.schedule, run.schedule);
    }
}

// The trial's step is the one of the recording with all steps.
TEST_F(ManyRanks, TrialOfOneRecordingIsThatOfFewSteps) {
  for (const Choice& choice : settings_of(zero3(64, 4))) {
    SCOPED_TRACE(text_of(choice));
    TrialInputs apart = basis_.trials;
    apart.findings = nullptr;
    const Trial one = try_out(choice, basis_.trials), other = try_out(choice, apart);
    EXPECT_EQ(one.time.span, other.time.span);
    EXPECT_EQ(one.allocated, other.allocated);
  }
}

}  // namespace
}  // namespace shardscope::planner
