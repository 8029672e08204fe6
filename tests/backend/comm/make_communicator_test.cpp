#include "backend/job/make_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace shardscope {
namespace {

Environment place(StartedBy started_by, int world, int local_world) {
  Environment environment;
  environment.started_by = started_by;
  environment.world = world;
  environment.local_world = local_world;
  return environment;
}

constexpr TransportMeans host{};
constexpr TransportMeans host_with_mpi{.has_mpi = true};
constexpr TransportMeans gpus{.has_mpi = true, .on_gpus = true};
constexpr auto automatic = CommunicatorChoice::automatic;

TEST(ChooseTransport, OneRankNeedsNone) {
  EXPECT_EQ(choose_transport(automatic, place(StartedBy::mpirun, 1, 1), host_with_mpi),
            Transport::single);
}

TEST(ChooseTransport, MpirunAndSrunMeanMpi) {
  EXPECT_EQ(choose_transport(automatic, place(StartedBy::mpirun, 2, 2), host_with_mpi),
            Transport::mpi);
  EXPECT_EQ(choose_transport(automatic, place(StartedBy::slurm, 4, 2), host_with_mpi),
            Transport::mpi);
}

TEST(ChooseTransport, OneHostMeansSharedMemory) {
  EXPECT_EQ(choose_transport(automatic, place(StartedBy::shardscope, 2, 2), host_with_mpi),
            Transport::shared_memory);
  EXPECT_EQ(choose_transport(automatic, place(StartedBy::mpirun, 2, 2), host),
            Transport::shared_memory);
}

TEST(ChooseTransport, SeveralHostsWithoutMpiSayWhatToDo) {
  try {
    choose_transport(automatic, place(StartedBy::torchrun, 4, 2), host_with_mpi);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("2 of 4 ranks are on this host"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("mpirun or srun"));
  }
}

TEST(ChooseTransport, SharedMemoryAcrossHostsIsRefused) {
  EXPECT_THROW(choose_transport(CommunicatorChoice::shared_memory, place(StartedBy::mpirun, 4, 2),
                                host_with_mpi),
               Error);
}

TEST(ChooseTransport, GpusMeanNcclHoweverTheRanksWereStarted) {
  for (const StartedBy started_by :
       {StartedBy::shardscope, StartedBy::torchrun, StartedBy::mpirun, StartedBy::slurm})
    EXPECT_EQ(choose_transport(automatic, place(started_by, 4, 2), gpus), Transport::nccl);
}

TEST(ChooseTransport, OneRankOnAGpuNeedsNcclOnlyWhereItWasAskedFor) {
  const Environment alone = place(StartedBy::user, 1, 1);
  EXPECT_EQ(choose_transport(automatic, alone, gpus), Transport::single);
  EXPECT_EQ(choose_transport(CommunicatorChoice::nccl, alone, gpus), Transport::nccl);
}

TEST(ChooseTransport, MemoryAndTransportMustBelongTogether) {
  const Environment two = place(StartedBy::shardscope, 2, 2);
  EXPECT_THROW(choose_transport(CommunicatorChoice::nccl, two, host_with_mpi), Error);
  EXPECT_THROW(choose_transport(CommunicatorChoice::shared_memory, two, gpus), Error);
  EXPECT_THROW(choose_transport(CommunicatorChoice::mpi, two, gpus), Error);
}

}  // namespace
}  // namespace shardscope
