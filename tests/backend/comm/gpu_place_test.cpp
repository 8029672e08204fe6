#include "backend/job/gpu_place.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "backend/rendezvous/tcp_store_server.h"

namespace shardscope {
namespace {

Environment local(int rank, int world) {
  Environment environment;
  environment.rank = 10 + rank;  // of all hosts, of no account here
  environment.world = 100;
  environment.local_rank = rank;
  environment.local_world = world;
  return environment;
}

TEST(GpuIndex, IsTheLocalRanksWhereThereAreEnough) {
  EXPECT_EQ(gpu_index(local(0, 4), 8), 0);
  EXPECT_EQ(gpu_index(local(3, 4), 4), 3);
}

TEST(GpuIndex, GoesRoundWhereThereAreFewer) {
  EXPECT_EQ(gpu_index(local(3, 4), 1), 0);
  EXPECT_EQ(gpu_index(local(3, 4), 2), 1);
}

// Where there is none, the device says so when it is made.
TEST(GpuIndex, WithoutGpusIsTheFirst) { EXPECT_EQ(gpu_index(local(0, 1), 0), 0); }

/// What each rank is told, whose GPU is the one of its number.
std::vector<int> answers_to(const std::vector<std::string>& gpus) {
  const TcpStoreServer server(ListeningSocket(ListeningSocket::Reach::loopback, 0));
  std::vector<int> answers(gpus.size());
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank)
    ranks.emplace_back([&, rank] {
      TcpStore store("127.0.0.1", server.port(), std::chrono::seconds(10));
      answers[rank] = share_gpus(store, static_cast<int>(gpus.size()), gpus[rank]) ? 1 : 0;
    });
  for (std::thread& rank : ranks) rank.join();
  return answers;
}

// A wrapper shows each of them one GPU, as its first.
TEST(ShareGpus, NotWhereEachRankNamesItsOwn) {
  EXPECT_EQ(answers_to({"host 0000:01:00.0", "host 0000:02:00.0", "host 0000:03:00.0"}),
            std::vector({0, 0, 0}));
}

TEST(ShareGpus, NotWithAnotherHosts) {
  EXPECT_EQ(answers_to({"a 0000:01:00.0", "b 0000:01:00.0"}), std::vector({0, 0}));
}

// NCCL's settings must be the same on all ranks.
TEST(ShareGpus, IsToldToTheRankThatHasItsOwnToo) {
  EXPECT_EQ(answers_to({"a 0000:01:00.0", "a 0000:02:00.0", "a 0000:01:00.0"}),
            std::vector({1, 1, 1}));
}

TEST(ShareGpus, NotWhereNobodyCanTell) { EXPECT_EQ(answers_to({"", ""}), std::vector({0, 0})); }

}  // namespace
}  // namespace shardscope
