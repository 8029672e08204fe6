#include "backend/rendezvous/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace shardscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const Variables torchrun{{"RANK", "3"},
                         {"WORLD_SIZE", "4"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "node0"},
                         {"MASTER_PORT", "29501"},
                         {"TORCHELASTIC_RUN_ID", "none"}};
const Variables mpirun{{"OMPI_COMM_WORLD_RANK", "1"},
                       {"OMPI_COMM_WORLD_SIZE", "2"},
                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Variables srun{{"SLURM_PROCID", "5"},
                     {"SLURM_NTASKS", "8"},
                     {"SLURM_LOCALID", "1"},
                     {"SLURM_NODEID", "1"},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                     {"SLURM_STEP_NODELIST", "cn[07-08]"}};

Variables with(Variables base, const Variables& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}
Variables without(Variables base, const std::string& name) {
  base.erase(name);
  return base;
}

std::string error_of(const Variables& variables, const RankFlags& flags = {}) {
  try {
    read_environment(variables, flags);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ReadEnvironment, NothingIsOneRank) {
  const Environment place = read_environment({{"HOME", "/root"}});
  EXPECT_EQ(place, Environment{});
  EXPECT_EQ(place.world, 1);
}

TEST(ReadEnvironment, Torchrun) {
  const Environment place = read_environment(torchrun);
  EXPECT_EQ(place.started_by, StartedBy::torchrun);
  EXPECT_EQ(place.rank, 3);
  EXPECT_EQ(place.world, 4);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_world, 2);
  EXPECT_EQ(place.meeting_point, (MeetingPoint{"node0", 29501, false}));
}

TEST(ReadEnvironment, TheAgentsStoreMovesOursToTheNextPort) {
  const auto place = read_environment(with(torchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
  EXPECT_EQ(place.meeting_point.port, 29502);
  const auto other = read_environment(with(torchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}));
  EXPECT_EQ(other.meeting_point.port, 29501);
}

TEST(ReadEnvironment, OurLauncherHostsTheStore) {
  const Environment place = read_environment(with(torchrun, {{launcher_variable, "1"}}));
  EXPECT_EQ(place.started_by, StartedBy::shardscope);
  EXPECT_TRUE(place.meeting_point.hosted_by_launcher);
}

TEST(ReadEnvironment, Mpirun) {
  const Environment place = read_environment(mpirun);
  EXPECT_EQ(place.started_by, StartedBy::mpirun);
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.world, 2);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_world, 2);
}

TEST(ReadEnvironment, MpichSaysPmi) {
  const Environment place = read_environment(
      {{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "4"}});
  EXPECT_EQ(place.started_by, StartedBy::pmi);
  EXPECT_EQ(place.local_world, 4);
}

TEST(ReadEnvironment, Srun) {
  const Environment place = read_environment(srun);
  EXPECT_EQ(place.started_by, StartedBy::slurm);
  EXPECT_EQ(place.rank, 5);
  EXPECT_EQ(place.world, 8);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_world, 4);
  EXPECT_EQ(place.meeting_point.address, "cn07");
}

TEST(ReadEnvironment, DeepspeedSaysLocalSize) {
  const auto place =
      read_environment(with(without(torchrun, "LOCAL_WORLD_SIZE"), {{"LOCAL_SIZE", "2"}}));
  EXPECT_EQ(place.local_world, 2);
}

TEST(ReadEnvironment, SlurmJobsOfOneNodeMeetAtDifferentPorts) {
  const Variables first = with(srun, {{"SLURM_JOB_ID", "1234567"}});
  EXPECT_EQ(read_environment(first).meeting_point.port, 19567);
  EXPECT_EQ(read_environment(with(first, {{"SLURM_JOB_ID", "68"}})).meeting_point.port, 15068);
  EXPECT_EQ(read_environment(with(first, {{"MASTER_PORT", "400"}})).meeting_point.port, 400);
}

TEST(ReadEnvironment, AStepSmallerThanTheJobCounts) {
  const auto place =
      read_environment(with(srun, {{"SLURM_NTASKS", "16"}, {"SLURM_STEP_NUM_TASKS", "8"}}));
  EXPECT_EQ(place.world, 8);
}

TEST(ReadEnvironment, ABatchScriptIsOneProcess) {
  const Variables script = with(without(srun, "SLURM_STEP_ID"), {{"ENVIRONMENT", "BATCH"}});
  EXPECT_EQ(read_environment(script).world, 1);
}

TEST(ReadEnvironment, FlagsNeedNoVariables) {
  const Environment place =
      read_environment({}, {.rank = 1, .world = 3, .address = "127.0.0.1", .port = 4000});
  EXPECT_EQ(place.started_by, StartedBy::flags);
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_world, 3);
  EXPECT_EQ(place.meeting_point.port, 4000);
}

TEST(ReadEnvironment, InnerLaunchersHideOuterOnes) {
  // torchrun as the one task of each of two Slurm nodes.
  EXPECT_EQ(read_environment(with(srun, torchrun)).rank, 3);
  // mpirun inside a Slurm allocation.
  EXPECT_EQ(read_environment(with(srun, mpirun)).rank, 1);
}

TEST(ReadEnvironment, SetsThatAgreeAreOne) {
  const auto place = read_environment(with(mpirun, {{"RANK", "1"}, {"WORLD_SIZE", "2"}}));
  EXPECT_EQ(place.started_by, StartedBy::variables);
  EXPECT_EQ(place.rank, 1);
}

TEST(ReadEnvironment, FlagsAgainstVariablesAreAContradiction) {
  EXPECT_THAT(error_of(torchrun, {.rank = 2, .world = 4}),
              HasSubstr("--rank 2 contradicts RANK 3"));
  EXPECT_THAT(error_of(torchrun, {.port = 1}), HasSubstr("contradicts MASTER_PORT 29501"));
  EXPECT_THAT(error_of(torchrun, {.address = "x"}), HasSubstr("contradicts MASTER_ADDR node0"));
}

TEST(ReadEnvironment, LaunchersAgainstEachOtherAreAContradiction) {
  EXPECT_THAT(error_of(with(mpirun, {{"RANK", "1"}, {"WORLD_SIZE", "3"}})),
              HasSubstr("WORLD_SIZE 3 contradicts OMPI_COMM_WORLD_SIZE 2"));
  EXPECT_THAT(error_of(with(srun, {{"RANK", "4"}, {"WORLD_SIZE", "8"}})),
              HasSubstr("RANK 4 contradicts SLURM_PROCID 5"));
}

TEST(ReadEnvironment, IncompleteSetsAreRefused) {
  EXPECT_THAT(error_of(without(torchrun, "WORLD_SIZE")), HasSubstr("but WORLD_SIZE is not"));
  EXPECT_THAT(error_of(without(torchrun, "RANK")), HasSubstr("but RANK is not"));
  EXPECT_THAT(error_of(without(torchrun, "LOCAL_RANK")), HasSubstr("but LOCAL_RANK is not"));
  EXPECT_THAT(error_of({}, {.rank = 0}), HasSubstr("but --world is not"));
  EXPECT_THAT(error_of({{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}}), HasSubstr("no rank"));
}

TEST(ReadEnvironment, WhatSharesAHostIsNotGuessed) {
  const Variables bare{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node0"}};
  EXPECT_THAT(error_of(bare), HasSubstr("LOCAL_WORLD_SIZE"));
  EXPECT_EQ(read_environment(with(bare, {{"MASTER_ADDR", "127.0.0.1"}})).local_world, 2);
}

TEST(ReadEnvironment, ImpossibleNumbersAreRefused) {
  EXPECT_THAT(error_of(with(torchrun, {{"RANK", "4"}})),
              AllOf(HasSubstr("RANK 4 is not below WORLD_SIZE 4"), HasSubstr("0 to 3")));
  EXPECT_THAT(error_of(with(torchrun, {{"WORLD_SIZE", "0"}})), HasSubstr("there is no rank"));
  EXPECT_THAT(error_of(with(torchrun, {{"LOCAL_RANK", "2"}})), HasSubstr("LOCAL_RANK 2"));
  EXPECT_THAT(error_of(with(torchrun, {{"LOCAL_WORLD_SIZE", "5"}})), HasSubstr("more ranks"));
  EXPECT_THAT(error_of(with(torchrun, {{"MASTER_PORT", "65536"}})), HasSubstr("65536"));
  for (const char* text : {"x", "-1", " 1", "1.0", "99999999999"}) {
    EXPECT_THAT(error_of(with(torchrun, {{"RANK", text}})), HasSubstr("not a whole number"));
  }
}

}  // namespace
}  // namespace shardscope
