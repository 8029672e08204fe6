// Runs that are saved and go on, in real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>
#include <fstream>

#include "backend/checkpoint/checkpoint_folder.h"
#include "backend/checkpoint/checkpoint_reader.h"
#include "backend/checkpoint/rewrite.h"
#include "backend/comm/communicator.h"
#include "backend/cpu/cpu_device.h"
#include "backend/job/make_communicator.h"
#include "backend/train/staged_state.h"
#include "backend/train/train.h"
#include "core/format/atomic_file.h"
#include "core/model/model_weights.h"
#include "tests/backend/comm/forked_ranks.h"
#include "tests/backend/train/tiny_models.h"
#include "tests/backend/train/training_fixture.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using shardscope::testing::RankOutcome;
using shardscope::testing::run_ranks;
using ::testing::HasSubstr;

constexpr std::int64_t all_steps = 16, saved_step = 6;

class Resume : public TrainingFixture {
 protected:
  Job short_job(int ranks, ShardingStrategy sharding, const std::string& output,
                std::string_view config = tiny_gpt2) const {
    Job made = job(config, ranks, sharding, output);
    made.steps = all_steps;
    made.save_model = false;
    return made;
  }

  static Job saving(Job job, CheckpointKind kind = CheckpointKind::sharded) {
    job.checkpoint = {.every = saved_step, .keep = 0, .keep_every = 0, .kind = kind};
    return job;
  }

  static fs::path checkpoint(const Job& job, std::int64_t step = saved_step) {
    return checkpoints_of(job.output) / checkpoint_name(step);
  }

  /// The metrics of the steps behind the checkpoint.
  static std::vector<double> resumed(const Job& job, const fs::path& from) {
    const auto outcomes = run_ranks(job.ranks, [&](const Environment& environment) {
      return train(job, environment, {.quiet = true, .resume = ResumeChoice{.checkpoint = from}});
    });
    for (const RankOutcome& outcome : outcomes)
      EXPECT_EQ(outcome, RankOutcome{}) << outcome.message;
    return metrics(job);
  }

  /// Loss and norm of each step behind `saved_step`.
  static std::vector<double> rest_of(const std::vector<double>& metrics) {
    return {metrics.begin() + 2 * saved_step, metrics.end()};
  }
};

struct Case {
  ShardingStrategy sharding;
  int ranks;
  CheckpointKind kind;
  Precision precision = Precision::fp32;
  Offload offload = Offload::none;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << name_of(one.sharding) << " x" << one.ranks << " " << name_of(one.kind) << " "
       << name_of(one.precision) << " offload " << name_of(one.offload);
}

class ResumeCase : public Resume, public ::testing::WithParamInterface<Case> {};

TEST_P(ResumeCase, HasTheBitsOfTheUndisturbedRun) {
  const Case& one = GetParam();
  const auto with_precision = [&](Job job) {
    job.strategy.precision = one.precision;
    job.strategy.offload = one.offload;
    return job;
  };
  const Job whole = with_precision(short_job(one.ranks, one.sharding, "whole"));
  const Job saved = saving(with_precision(short_job(one.ranks, one.sharding, "saved")), one.kind);
  const Job next = with_precision(short_job(one.ranks, one.sharding, "next"));
  const std::vector<double> undisturbed = run_forked(whole);
  EXPECT_EQ(run_forked(saved), undisturbed) << "saving changes nothing";
  EXPECT_EQ(resumed(next, checkpoint(saved)), rest_of(undisturbed));
}

constexpr auto fp32 = Precision::fp32;
INSTANTIATE_TEST_SUITE_P(
    Kinds, ResumeCase,
    ::testing::Values(
        Case{ShardingStrategy::no_shard, 1, CheckpointKind::sharded},
        Case{ShardingStrategy::no_shard, 2, CheckpointKind::full},
        Case{ShardingStrategy::zero1, 2, CheckpointKind::sharded},
        Case{ShardingStrategy::shard_grad_op, 2, CheckpointKind::local},
        Case{ShardingStrategy::full_shard, 2, CheckpointKind::sharded},
        Case{ShardingStrategy::full_shard, 4, CheckpointKind::full},
        Case{ShardingStrategy::full_shard, 2, CheckpointKind::local},
        Case{ShardingStrategy::hybrid_shard, 4, CheckpointKind::sharded},
        Case{ShardingStrategy::zero1, 2, CheckpointKind::sharded, Precision::bf16_mixed},
        Case{ShardingStrategy::full_shard, 2, CheckpointKind::full, Precision::bf16_mixed},
        Case{ShardingStrategy::full_shard, 2, CheckpointKind::sharded, Precision::bf16},
        Case{ShardingStrategy::zero1, 2, CheckpointKind::sharded, fp32, Offload::optimizer},
        Case{ShardingStrategy::no_shard, 2, CheckpointKind::full, fp32, Offload::optimizer},
        Case{ShardingStrategy::full_shard, 2, CheckpointKind::local, Precision::bf16_mixed,
             Offload::all},
        Case{ShardingStrategy::full_shard, 2, CheckpointKind::full, fp32, Offload::all}),
    [](const auto& one) { return std::to_string(one.index); });

TEST_F(Resume, UnderAnyOtherLayoutTheLossesAreNear) {
  const std::vector<double> undisturbed =
      run_forked(short_job(2, ShardingStrategy::full_shard, "whole"));
  for (const CheckpointKind kind :
       {CheckpointKind::sharded, CheckpointKind::full, CheckpointKind::local}) {
    const std::string name(name_of(kind));
    const Job saved = saving(short_job(2, ShardingStrategy::full_shard, "saved_" + name), kind);
    run_forked(saved);
    const std::vector<std::pair<int, ShardingStrategy>> layouts{
        {1, ShardingStrategy::no_shard},
        {4, ShardingStrategy::full_shard},
        {2, ShardingStrategy::zero1},
        {4, ShardingStrategy::hybrid_shard}};
    for (const auto& [ranks, sharding] : layouts) {
      const std::string where = fmt::format("{}_{}_{}", name, name_of(sharding), ranks);
      const std::vector<double> rest =
          resumed(short_job(ranks, sharding, where), checkpoint(saved));
      const std::vector<double> expected = rest_of(undisturbed);
      ASSERT_EQ(rest.size(), expected.size()) << where;
      for (std::size_t i = 0; i < rest.size(); ++i)
        EXPECT_NEAR(rest[i], expected[i], 1e-5 * std::abs(expected[i])) << where << " " << i;
    }
  }
}

class ResumedPipeline : public Resume {
 protected:
  /// Steps of four sequences, whatever the mesh.
  Job staged(const Mesh& mesh, const PipelineChoice& pipeline, const std::string& output,
             ShardingStrategy sharding = ShardingStrategy::full_shard) const {
    Job job = short_job(mesh.world(), sharding, output);
    job.strategy.mesh = mesh;
    job.pipeline = pipeline;
    job.batch = 1;
    job.accumulate = 4 / (mesh.replicate * mesh.shard);
    return job;
  }

  static void expect_near(const std::vector<double>& rest, const std::vector<double>& expected,
                          double tolerance = 1e-5) {
    ASSERT_EQ(rest.size(), expected.size());
    for (std::size_t i = 0; i < rest.size(); ++i)
      EXPECT_NEAR(rest[i], expected[i], tolerance * std::abs(expected[i])) << i;
  }
};

constexpr auto zbv = PipelineScheduleKind::zbv_zero_bubble;

TEST_F(ResumedPipeline, GoesOnByItselfAndInOneProcess) {
  const Mesh two_by_two{.pipeline = 2, .shard = 2};
  const std::vector<double> undisturbed = run_forked(staged(two_by_two, {}, "whole"));
  for (const CheckpointKind kind :
       {CheckpointKind::sharded, CheckpointKind::full, CheckpointKind::local}) {
    SCOPED_TRACE(name_of(kind));
    const std::string name(name_of(kind));
    const Job saved = saving(staged(two_by_two, {}, "saved_" + name), kind);
    EXPECT_EQ(run_forked(saved), undisturbed);
    EXPECT_EQ(resumed(staged(two_by_two, {}, "next_" + name), checkpoint(saved)),
              rest_of(undisturbed));
    expect_near(
        resumed(staged({}, {}, "alone_" + name, ShardingStrategy::no_shard), checkpoint(saved)),
        rest_of(undisturbed));
  }
}

// Two stages of 2 and 1 layers; what was cut otherwise, has other orders, or was in one process.
TEST_F(ResumedPipeline, GoesOnUnderAnyOtherCut) {
  const Job saved = saving(staged({.pipeline = 2, .shard = 2}, {.layers = {2, 1}}, "saved"));
  const std::vector<double> rest = rest_of(run_forked(saved));
  const auto no_shard = ShardingStrategy::no_shard;
  expect_near(
      resumed(staged({.pipeline = 2, .shard = 2}, {.layers = {1, 2}}, "moved"), checkpoint(saved)),
      rest);
  expect_near(resumed(staged({.pipeline = 3}, {}, "three", no_shard), checkpoint(saved)), rest);
  expect_near(resumed(staged({.pipeline = 2},
                             {.schedule = zbv, .stages_per_rank = 2, .layers = {1, 1, 1, 0}}, "v",
                             no_shard),
                      checkpoint(saved)),
              rest);
  const Job alone = saving(staged({}, {}, "alone", no_shard), CheckpointKind::full);
  run_forked(alone);
  expect_near(resumed(staged({.pipeline = 3}, {}, "from_one", no_shard), checkpoint(alone)), rest);
}

// Stages that are not next to each other on a rank, sharded and mixed precision.
TEST_F(ResumedPipeline, AFullCheckpointIsWhatMergingAShardedOneMakes) {
  for (const bool is_v : {false, true}) {
    const PipelineChoice pipeline =
        is_v ? PipelineChoice{.schedule = zbv, .stages_per_rank = 2, .layers = {1, 1, 1, 0}}
             : PipelineChoice{};
    const Mesh mesh = is_v ? Mesh{.pipeline = 2} : Mesh{.pipeline = 2, .shard = 2};
    const auto sharding = is_v ? ShardingStrategy::no_shard : ShardingStrategy::zero1;
    const auto run = [&](CheckpointKind kind) {
      Job job =
          saving(staged(mesh, pipeline, fmt::format("{}_{}", name_of(kind), is_v), sharding), kind);
      job.strategy.precision = Precision::bf16_mixed;
      job.trainable = {"h.1.", "h.2.", "ln_f"};
      run_forked(job);
      return checkpoint(job);
    };
    const fs::path full = run(CheckpointKind::full);
    CheckpointReader sharded(run(CheckpointKind::sharded));
    const fs::path merged = folder().path() / fmt::format("merged_{}", is_v);
    merge(sharded, merged);
    for (const char* file : {"model.safetensors", "exp_avg.safetensors", "exp_avg_sq.safetensors"})
      EXPECT_EQ(read_whole(full / file), read_whole(merged / file)) << file << " " << is_v;
  }
}

TEST_F(Resume, UnderAnotherWrapTheBitsAreTheSame) {
  Job other = short_job(2, ShardingStrategy::full_shard, "other");
  other.strategy.wrap.policy = WrapPolicy::none;
  const std::vector<double> undisturbed =
      run_forked(short_job(2, ShardingStrategy::full_shard, "whole"));
  const Job saved = saving(short_job(2, ShardingStrategy::full_shard, "saved"));
  run_forked(saved);
  EXPECT_EQ(resumed(other, checkpoint(saved)), rest_of(undisturbed));
}

// bfloat16 has 8 bits: a loss near 5 is told to about 1%.
TEST_F(Resume, UnderAnotherPrecisionTheLossesAreNear) {
  const auto job_in = [&](Precision precision, const std::string& output) {
    Job job = short_job(2, ShardingStrategy::full_shard, output);
    job.strategy.precision = precision;
    return job;
  };
  const std::vector<double> expected = rest_of(run_forked(job_in(Precision::fp32, "whole")));
  for (const auto& [before, behind] : {std::pair{Precision::fp32, Precision::bf16_mixed},
                                       std::pair{Precision::fp32, Precision::bf16},
                                       std::pair{Precision::bf16_mixed, Precision::fp32},
                                       std::pair{Precision::bf16, Precision::bf16_mixed}}) {
    const std::string name = fmt::format("{}_{}", name_of(before), name_of(behind));
    const Job saved = saving(job_in(before, "saved_" + name));
    run_forked(saved);
    const std::vector<double> rest = resumed(job_in(behind, "next_" + name), checkpoint(saved));
    ASSERT_EQ(rest.size(), expected.size());
    for (std::size_t i = 0; i < rest.size(); i += 2)
      EXPECT_NEAR(rest[i], expected[i], 0.02 * expected[i]) << name << " " << i;
  }
}

TEST_F(Resume, FrozenParametersComeBackBitForBit) {
  const auto frozen = [&](const std::string& output) {
    Job job = short_job(2, ShardingStrategy::full_shard, output);
    job.trainable = {"h.1.", "ln_f"};
    job.strategy.precision = Precision::bf16_mixed;
    return job;
  };
  const std::vector<double> undisturbed = run_forked(frozen("whole"));
  for (const CheckpointKind kind :
       {CheckpointKind::sharded, CheckpointKind::full, CheckpointKind::local}) {
    const std::string name(name_of(kind));
    const Job saved = saving(frozen("saved_" + name), kind);
    run_forked(saved);
    EXPECT_EQ(resumed(frozen("next_" + name), checkpoint(saved)), rest_of(undisturbed)) << name;
    CheckpointReader reader(checkpoint(saved));
    std::vector<float> start(32 * 32), stored(32 * 32);
    CheckpointReader last(checkpoint(saved, all_steps));
    reader.read("parameters/transformer.wte.weight", 0, start);
    last.read("parameters/transformer.wte.weight", 0, stored);
    EXPECT_EQ(start, stored);
    EXPECT_FALSE(reader.find("exp_avg/transformer.wte.weight"));
  }
}

TEST_F(Resume, MetricsGoOnBehindTheCheckpoint) {
  const Job saved = saving(short_job(1, ShardingStrategy::no_shard, "run"));
  const std::vector<double> undisturbed = run_forked(saved);
  // As if the run had been killed in its last step: the lines behind step 12 are of no use.
  fs::remove_all(checkpoint(saved, all_steps));
  std::ofstream(saved.output / "metrics.jsonl", std::ios::app) << R"({"step": 17, "lo)";
  const auto outcomes = run_ranks(1, [&](const Environment& environment) {
    return train(saved, environment, {.quiet = true, .resume = ResumeChoice{.newest = true}});
  });
  EXPECT_EQ(outcomes[0], RankOutcome{}) << outcomes[0].message;
  EXPECT_EQ(metrics(saved), undisturbed);
}

TEST_F(Resume, ReadsOnlyWhatARankNeeds) {
  const Job saved = saving(short_job(4, ShardingStrategy::full_shard, "saved", medium_gpt2));
  run_forked(saved);
  CheckpointReader all(checkpoint(saved));
  EXPECT_THAT(all.verify(2), ::testing::IsEmpty());
  const std::int64_t stored = all.bytes_read();
  const Job two = short_job(2, ShardingStrategy::full_shard, "two", medium_gpt2);
  const auto outcomes = run_ranks(2, [&](const Environment& environment) {
    const auto device = make_cpu_device({.threads = 1});
    const auto world = make_communicator(CommunicatorChoice::automatic, environment,
                                         std::chrono::seconds(60), device.get());
    const auto reader = std::make_shared<CheckpointReader>(checkpoint(saved));
    const Trainer trainer(two, *world, *device, reader);
    world->barrier();
    // Half of it, and the chunks of 256 KiB that a stretch begins and ends in.
    return reader->bytes_read() < stored * 6 / 10 ? ExitCode::done : ExitCode::no;
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome, RankOutcome{}) << outcome.message;
}

TEST_F(Resume, AFullCheckpointIsAModelsFolder) {
  const Job saved =
      saving(short_job(2, ShardingStrategy::full_shard, "saved", tiny_llama), CheckpointKind::full);
  run_forked(saved);
  Job started = short_job(2, ShardingStrategy::zero1, "started");
  started.model = checkpoint(saved);
  started.weights = StartWeights::pretrained;
  started.token_start = CheckpointReader(checkpoint(saved)).index().progress.next_token;
  started.steps = 1;
  const std::vector<double> undisturbed =
      run_forked(short_job(2, ShardingStrategy::full_shard, "whole", tiny_llama));
  // The loss of a step is known before the optimizer, which starts anew, changes anything.
  EXPECT_NEAR(run_forked(started)[0], rest_of(undisturbed)[0], 1e-6);
}

TEST_F(Resume, OldCheckpointsGo) {
  Job saved = saving(short_job(2, ShardingStrategy::full_shard, "saved"));
  saved.checkpoint = {.every = 3, .keep = 2, .keep_every = 6};
  run_forked(saved);
  std::vector<std::int64_t> steps;
  for (const NamedCheckpoint& one : named_checkpoints(checkpoints_of(saved.output)))
    steps.push_back(one.step);
  EXPECT_THAT(steps, ::testing::ElementsAre(6, 12, 15, 16));
}

TEST_F(Resume, ACheckpointThatCannotBeWrittenDoesNotEndTheRunEarly) {
  const Job saved = saving(short_job(2, ShardingStrategy::full_shard, "saved"));
  fs::create_directories(saved.output);
  std::ofstream(checkpoints_of(saved.output)) << "a file where the folder should be";
  const auto outcomes = run_ranks(2, [&](const Environment& environment) {
    return train(saved, environment, {.quiet = true});
  });
  EXPECT_EQ(outcomes[0].exit_code, static_cast<int>(ExitCode::outside));
  EXPECT_THAT(outcomes[0].message, HasSubstr("the checkpoint of step 16 was not saved"));
  EXPECT_EQ(metrics(saved).size(), 2u * all_steps);
}

TEST_F(Resume, AnotherModelOrOptimizerIsRefused) {
  const Job saved = saving(short_job(1, ShardingStrategy::no_shard, "saved"));
  run_forked(saved);
  Job llama = short_job(1, ShardingStrategy::no_shard, "llama", tiny_llama);
  Job sgd = short_job(1, ShardingStrategy::no_shard, "sgd");
  sgd.optimizer.kind = OptimizerKind::sgd;
  for (const auto& [job, says] :
       {std::pair{llama, "model.embed_tokens.weight is not in"},
        std::pair{sgd, "momentum_buffer/transformer.wte.weight is not"}}) {
    const auto outcomes = run_ranks(1, [&, &job = job](const Environment& environment) {
      return train(job, environment,
                   {.quiet = true, .resume = ResumeChoice{.checkpoint = checkpoint(saved)}});
    });
    EXPECT_EQ(outcomes[0].exit_code, static_cast<int>(ExitCode::bad_input));
    EXPECT_THAT(outcomes[0].message, HasSubstr(says));
  }
}

TEST(WrittenStretch, RanksThatHoldTheSameWriteEqualPartsOfIt) {
  const Unit unit{.padded_elements = 1024, .shard_elements = 512};
  const UnitStorage second_shard{.unit = &unit, .first = 512, .elements = 512};
  const Mesh hybrid{.replicate = 2, .shard = 2};
  EXPECT_EQ(written_stretch(second_shard, hybrid, 1), (FlatStretch{512, 256}));
  EXPECT_EQ(written_stretch(second_shard, hybrid, 3), (FlatStretch{768, 256}));
  const UnitStorage whole{.unit = &unit, .elements = 1024};
  EXPECT_EQ(written_stretch(whole, {.replicate = 4}, 3), (FlatStretch{768, 256}));
  // The second of two stages has ranks 2 and 3.
  EXPECT_EQ(written_stretch(whole, {.pipeline = 2, .replicate = 2}, 3), (FlatStretch{512, 512}));
}

}  // namespace
}  // namespace shardscope
