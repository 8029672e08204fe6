#include "backend/comm/make_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace shardscope {
namespace {

Environment place(StartedBy started_by, int world, int local_world) {
  Environment environment;
  environment.started_by = started_by;
  environment.world = world;
  environment.local_world = local_world;
  return environment;
}

constexpr auto automatic = CommunicatorChoice::automatic;

TEST(ChooseTransport, OneRankNeedsNone) {
  EXPECT_EQ(choose_transport(automatic, place(StartedBy::mpirun, 1, 1), true), Transport::single);
}

TEST(ChooseTransport, MpirunAndSrunMeanMpi) {
  EXPECT_EQ(choose_transport(automatic, place(StartedBy::mpirun, 2, 2), true), Transport::mpi);
  EXPECT_EQ(choose_transport(automatic, place(StartedBy::slurm, 4, 2), true), Transport::mpi);
}

TEST(ChooseTransport, OneHostMeansSharedMemory) {
  EXPECT_EQ(choose_transport(automatic, place(StartedBy::shardscope, 2, 2), true),
            Transport::shared_memory);
  EXPECT_EQ(choose_transport(automatic, place(StartedBy::mpirun, 2, 2), false),
            Transport::shared_memory);
}

TEST(ChooseTransport, SeveralHostsWithoutMpiSayWhatToDo) {
  try {
    choose_transport(automatic, place(StartedBy::torchrun, 4, 2), true);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("2 of 4 ranks are on this host"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("mpirun or srun"));
  }
}

TEST(ChooseTransport, SharedMemoryAcrossHostsIsRefused) {
  EXPECT_THROW(
      choose_transport(CommunicatorChoice::shared_memory, place(StartedBy::mpirun, 4, 2), true),
      Error);
}

}  // namespace
}  // namespace shardscope
