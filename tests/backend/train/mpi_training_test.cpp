// The strategies over MPI, against the same over shared memory.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/format/atomic_file.h"
#include "tests/backend/train/tiny_models.h"
#include "tests/backend/train/training_fixture.h"

namespace shardscope {
namespace {

struct MpiCase {
  std::string_view name;
  std::string_view config;
  int ranks;
  Precision precision = Precision::fp32;
};
void PrintTo(const MpiCase& c, std::ostream* out) {
  *out << c.name << " on " << c.ranks << " in " << name_of(c.precision);
}

class MpiTrainingTest : public TrainingFixture, public ::testing::WithParamInterface<MpiCase> {
 protected:
  std::vector<double> run_under_mpi(Job job) const {
    job.communicator = CommunicatorChoice::mpi;
    const auto path = job.output.string() + ".json";
    write_atomically(path, to_json(job));
    // More ranks than cores, possibly as root, in a container without ptrace rights.
    const std::string command = fmt::format(
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 '{}' --oversubscribe --bind-to "
        "none "
        "--mca btl_vader_single_copy_mechanism none -np {} '{}' '{}'",
        SHARDSCOPE_MPIEXEC, job.ranks, SHARDSCOPE_TRAIN_JOB, path);
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return metrics(job);
  }
};

TEST_P(MpiTrainingTest, GivesTheBitsOfSharedMemoryInEveryStrategy) {
  const auto [name, config, ranks, precision] = GetParam();
  const auto job_of = [&, config = config, ranks = ranks, precision = precision](
                          ShardingStrategy sharding, const std::string& output) {
    Job one = job(config, ranks, sharding, output);
    one.strategy.precision = precision;
    return one;
  };
  using enum ShardingStrategy;
  const auto reference = run_forked(job_of(no_shard, "shared_memory"));
  ASSERT_EQ(reference.size(), 100U);
  for (const ShardingStrategy sharding :
       {no_shard, zero1, shard_grad_op, full_shard, hybrid_shard, hybrid_shard_zero2}) {
    // Sums of bfloat16 over shards and then over replicas are rounded twice.
    if (is_hybrid(sharding) && (ranks < 4 || precision == Precision::bf16)) continue;
    EXPECT_EQ(run_under_mpi(job_of(sharding, std::string(name_of(sharding)))), reference)
        << name_of(sharding);
  }
}

INSTANTIATE_TEST_SUITE_P(TinyModels, MpiTrainingTest,
                         ::testing::Values(MpiCase{"gpt2", tiny_gpt2, 2},
                                           MpiCase{"llama", tiny_llama, 4},
                                           MpiCase{"gpt2", tiny_gpt2, 2, Precision::bf16},
                                           MpiCase{"llama", tiny_llama, 2, Precision::bf16_mixed}));

using MpiPipelineTest = MpiTrainingTest;

// Sends and receives between stages, and DDP and FSDP inside them.
TEST_P(MpiPipelineTest, GivesTheBitsOfSharedMemoryUnderEverySchedule) {
  const auto [name, config, ranks, precision] = GetParam();
  using enum PipelineScheduleKind;
  for (const auto kind : {gpipe, one_f_one_b, interleaved_1f1b, looped_bfs, interleaved_zero_bubble,
                          zbv_zero_bubble, dualpipev}) {
    for (const bool shards : {false, true}) {
      Job one = job(config, 1, shards ? ShardingStrategy::full_shard : ShardingStrategy::no_shard,
                    "shared_memory");
      one.strategy.mesh = {.pipeline = 2};
      (shards ? one.strategy.mesh.shard : one.strategy.mesh.replicate) = ranks / 2;
      one.strategy.precision = precision;
      one.ranks = ranks;
      one.batch = 1;
      one.accumulate = 4;
      one.steps = 10;
      one.pipeline.schedule = kind;
      if (!has_single_stage(kind)) {
        one.pipeline.stages_per_rank = 2;
        one.pipeline.layers = {1, 1, 1, 0};
      }
      const auto expected = run_forked(one);
      ASSERT_EQ(expected.size(), 20U);
      one.output = one.output.parent_path() / "mpi";
      EXPECT_EQ(run_under_mpi(one), expected) << name_of(kind) << (shards ? " sharded" : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TinyModels, MpiPipelineTest,
                         ::testing::Values(MpiCase{"gpt2", tiny_gpt2, 4},
                                           MpiCase{"llama", tiny_llama, 4, Precision::bf16_mixed}));

}  // namespace
}  // namespace shardscope
