// A recording that follows from those on two other meshes is the one that the runtime would make.
#include "sim/planner/mesh_recordings.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/model/huggingface.h"
#include "sim/planner/answer/basis.h"
#include "tests/sim/planner/answer/tiny_plan.h"
#include "tests/sim/planner/equal_schedules.h"

namespace shardscope::planner {
namespace {

using S = ShardingStrategy;

constexpr std::string_view uneven_llama = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 128, "intermediate_size": 384, "max_position_embeddings": 256,
  "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "use_cache": false, "vocab_size": 2047})";

class MeshRecording : public ::testing::Test {
 protected:
  Schedule recorded(const Choice& choice) const { return schedule_of(choice, basis_.trials); }
  SizedRecording sized(const Choice& choice, int shard) const {
    return {.ranks = shard,
            .schedule = std::make_shared<const Schedule>(recorded(on(choice, shard)))};
  }
  static Choice on(Choice choice, int shard) {
    choice.mesh = {.replicate = choice.mesh.world() / shard, .shard = shard};
    return choice;
  }

  Inputs inputs_ = tiny_plan();
  Basis basis_{inputs_};
};

std::vector<Choice> second_copies() {
  const Choice plain{.runtime = Runtime::deepspeed,
                     .sharding = S::hybrid_shard,
                     .mesh = {.replicate = 16, .shard = 2},
                     .prefetch = Prefetch::pre,
                     .batch = 1};
  Choice accumulates = plain, checkpoints = plain, serial = plain, bf16 = plain;
  accumulates.micro_batches = 3;
  checkpoints.checkpointing.every = 1;
  checkpoints.micro_batches = 2;
  serial.prefetch = Prefetch::none;
  bf16.precision = TrainingPrecision::bf16_mixed;
  bf16.batch = 2;
  return {plain, accumulates, checkpoints, serial, bf16};
}

TEST_F(MeshRecording, FollowsFromTwoOtherSizes) {
  for (const Choice& choice : second_copies()) {
    SCOPED_TRACE(text_of(choice));
    ASSERT_TRUE(mesh_only_sizes(choice, inputs_.model));
    const SizedRecording two = sized(choice, 2), sixteen = sized(choice, 16);
    for (const int shard : {4, 8}) {
      const auto derived = schedule_between(two, sixteen, shard);
      ASSERT_TRUE(derived) << shard;
      expect_equal(*derived, recorded(on(choice, shard)));
    }
    EXPECT_FALSE(schedule_between(two, sixteen, 32));
  }
}

// The same of recordings whose third step is a copy of the second.
TEST_F(MeshRecording, AllStepsFollowFromTwoOtherSizes) {
  const auto all_steps = [&](const Choice& choice, int shard) {
    return std::make_shared<const Schedule>(
        schedule_of(on(choice, shard), basis_.trials, {.shapes = false, .repeats = true}));
  };
  for (const Choice& choice : second_copies()) {
    SCOPED_TRACE(text_of(choice));
    const auto derived = schedule_between({.ranks = 2, .schedule = all_steps(choice, 2)},
                                          {.ranks = 16, .schedule = all_steps(choice, 16)}, 4);
    ASSERT_TRUE(derived);
    EXPECT_EQ(derived->steps.size(), 3U);
    expect_equal(*derived, *all_steps(choice, 4));
  }
}

// 128 elements of a norm are no equal parts of 48 ranks: there some ranks have padding.
TEST_F(MeshRecording, NeedsEqualParts) {
  Choice choice = second_copies().front();
  choice.mesh = {.replicate = 24, .shard = 2};
  EXPECT_FALSE(mesh_only_sizes(choice, inputs_.model));
  choice = second_copies().front();
  choice.sharding = S::full_shard;
  EXPECT_FALSE(mesh_only_sizes(choice, inputs_.model));
}

// 128 elements of a norm over 512 ranks: a group of 4 has one whole part, of 128 elements. A group
// of 2 has none: a part has 256.
TEST_F(MeshRecording, SmallParametersAreAlikeInLargerGroups) {
  Choice choice = second_copies().front();
  choice.mesh = {.replicate = 256, .shard = 2};
  EXPECT_EQ(smallest_alike_group(choice, inputs_.model), 4);
  EXPECT_FALSE(mesh_only_sizes(choice, inputs_.model));
  EXPECT_TRUE(mesh_only_sizes(on(choice, 4), inputs_.model));
  const SizedRecording four = sized(choice, 4), most = sized(choice, 256);
  for (const int shard : {8, 32, 128}) {
    const auto derived = schedule_between(four, most, shard);
    ASSERT_TRUE(derived) << shard;
    expect_equal(*derived, recorded(on(choice, shard)));
  }
}

// A parameter of 2047 x 128 elements over 16 ranks has padding, which is all in the last part.
TEST_F(MeshRecording, PaddingStaysInTheLastPart) {
  const JsonValue config = JsonValue::parse(uneven_llama, "config.json");
  const Model model = model_of_config(config);
  const TrialInputs& on_even = basis_.trials;
  const TrialInputs trials{model,           config,        on_even.training,
                           on_even.profile, on_even.costs, on_even.native_target};
  Choice choice = second_copies().front();
  choice.mesh = {.replicate = 8, .shard = 2};
  ASSERT_EQ(smallest_alike_group(choice, model), 2);
  const auto of = [&](int shard) {
    return SizedRecording{shard,
                          std::make_shared<const Schedule>(schedule_of(on(choice, shard), trials))};
  };
  const auto derived = schedule_between(of(2), of(8), 4);
  ASSERT_TRUE(derived);
  expect_equal(*derived, *of(4).schedule);
}

TEST_F(MeshRecording, ProgramsThatDifferAreNotMixed) {
  const Choice choice = second_copies().front();
  Choice other = choice;
  other.checkpointing.every = 1;
  EXPECT_FALSE(schedule_between(sized(choice, 2), sized(other, 16), 4));
  // The same size twice says nothing of a third.
  EXPECT_FALSE(schedule_between(sized(choice, 4), sized(choice, 4), 4));
}

// Times and bytes of a trial are those that it has when each mesh is recorded by itself.
TEST_F(MeshRecording, TrialsThatShareSayTheSame) {
  const TrialInputs& sharing = basis_.trials;
  const TrialInputs alone{.model = sharing.model,
                          .config = sharing.config,
                          .training = sharing.training,
                          .profile = sharing.profile,
                          .costs = sharing.costs,
                          .native_target = sharing.native_target};
  for (Choice choice : second_copies()) {
    choice.micro_batches *= 4;
    for (const int shard : {16, 2, 8, 4}) {
      const Trial a = try_out(on(choice, shard), sharing), b = try_out(on(choice, shard), alone);
      EXPECT_EQ(a.time.span, b.time.span) << shard;
      EXPECT_EQ(a.time.exposed_communication, b.time.exposed_communication) << shard;
      EXPECT_EQ(a.needed(), b.needed()) << shard;
    }
  }
}

TEST_F(MeshRecording, TheFirstAndTheLastOfAFamilyAreRecorded) {
  const Choice choice = second_copies().front();
  MeshRecordings recordings;
  std::vector<int> sizes;
  const MeshRecordings::Family family{
      .name = "family", .smallest = 2, .largest = 16, .record = [&](int shard) {
        sizes.push_back(shard);
        return recorded(on(choice, shard));
      }};
  for (const int shard : {4, 8, 16, 8, 2, 4})
    expect_equal(*recordings.of(family, shard), recorded(on(choice, shard)));
  EXPECT_EQ(sizes, (std::vector{4, 16, 2}));
}

TEST_F(MeshRecording, AFamilyThatIsNotAlikeIsRecordedOneByOne) {
  MeshRecordings recordings;
  std::vector<int> sizes;
  const auto record = [&](int shard) {
    Choice choice = second_copies().front();
    choice.checkpointing.every = shard == 16 ? 1 : 0;
    return recorded(on(choice, shard));
  };
  const MeshRecordings::Family family{
      .name = "family", .smallest = 2, .largest = 16, .record = [&](int shard) {
        sizes.push_back(shard);
        return record(shard);
      }};
  for (const int shard : {2, 4, 8, 16}) expect_equal(*recordings.of(family, shard), record(shard));
  EXPECT_EQ(sizes, (std::vector{2, 16, 4, 8}));
}

TEST_F(MeshRecording, ThreadsThatAskForTheSameRecordItOnce) {
  MeshRecordings recordings;
  std::atomic<int> recorded_times = 0;
  std::latch both(2);
  const MeshRecordings::Family family{
      .name = "family", .smallest = 2, .largest = 16, .record = [&](int shard) {
        ++recorded_times;
        return recorded(on(second_copies().front(), shard));
      }};
  std::shared_ptr<const Schedule> found[2];
  const auto ask = [&](std::size_t thread) {
    both.arrive_and_wait();
    found[thread] = recordings.of(family, 2);
  };
  std::thread other(ask, 1);
  ask(0);
  other.join();
  EXPECT_EQ(recorded_times, 1);
  EXPECT_EQ(found[0], found[1]);
}

// 4 ranks follow from 2 and 16. One thread records 16, and only goes on when the other, which is
// asked for 4, has recorded something: it has to be 2.
TEST_F(MeshRecording, TheOtherEndIsRecordedWhileAThreadRecordsOne) {
  MeshRecordings recordings;
  const Choice choice = second_copies().front();
  std::latch has_begun(1), may_end(1);
  std::mutex mutex;
  std::vector<int> sizes;
  const MeshRecordings::Family family{
      .name = "family", .smallest = 2, .largest = 16, .record = [&](int shard) {
        {
          const std::scoped_lock lock(mutex);
          sizes.push_back(shard);
        }
        if (shard == 16) {
          has_begun.count_down();
          may_end.wait();
        } else {
          may_end.count_down();
        }
        return recorded(on(choice, shard));
      }};
  std::thread other([&] { recordings.of(family, 16); });
  has_begun.wait();
  expect_equal(*recordings.of(family, 4), recorded(on(choice, 4)));
  other.join();
  EXPECT_EQ(sizes, (std::vector{16, 2}));
}

// One search may be stopped while another waits for what it records.
TEST_F(MeshRecording, WhatAStoppedThreadDoesNotRecordIsRecordedByTheOther) {
  MeshRecordings recordings;
  std::latch has_begun(1), may_end(1);
  std::atomic<bool> is_stopped = true;
  const MeshRecordings::Family family{
      .name = "family", .smallest = 2, .largest = 2, .record = [&](int shard) {
        if (is_stopped.exchange(false)) {
          has_begun.count_down();
          may_end.wait();
          throw Error({.what = "stopped", .code = ExitCode::interrupted});
        }
        return recorded(on(second_copies().front(), shard));
      }};
  std::thread stopped([&] { EXPECT_THROW(recordings.of(family, 2), Error); });
  has_begun.wait();
  std::shared_ptr<const Schedule> found;
  std::thread other([&] { found = recordings.of(family, 2); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the other one waits by then
  may_end.count_down();
  stopped.join();
  other.join();
  EXPECT_NE(found, nullptr);
}

TEST_F(MeshRecording, WhatRecordingThrowsComesOut) {
  MeshRecordings recordings;
  const MeshRecordings::Family family{
      .name = "family", .smallest = 2, .largest = 2, .record = [](int) -> Schedule {
        throw Error({.what = "refused"});
      }};
  EXPECT_THROW(recordings.of(family, 2), Error);
}

}  // namespace
}  // namespace shardscope::planner
