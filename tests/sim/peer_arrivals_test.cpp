// Ranks that were recorded beside each other wait where they meet.
#include "sim/engine/peer_arrivals.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "core/recording/event_log.h"
#include "core/recording/recorded_schedule.h"
#include "sim/engine/simulate.h"
#include "tests/core/temporary_folder.h"

namespace shardscope {
namespace {

HardwareProfile machine() {
  return {.name = "test",
          .device = "cuda",
          .peak = {1e12},
          .memory_bandwidth = {1e12},
          .operation_overhead = 0_us,
          .link = Link{.bandwidth = {1e15}, .latency = 0_us}};
}

/// The log of a rank: products on stream 0, transfers on stream 5.
class LogWriter {
 public:
  LogWriter(int rank, int ranks, int communicator = 1) : communicator_(communicator) {
    text_ =
        "V\t1\nS\t0\taten::mm\nS\t1\tf32[1024,1024];f32[1024,1024]\nS\t2\tf32[1024,1024]\n"
        "S\t3\tlinear\nS\t4\tLinear\n";
    std::string members;
    for (int i = 0; i < ranks; ++i) members += fmt::format("{}{}", i == 0 ? "" : ",", i);
    text_ += fmt::format("0\tgroup\t{}\n0\tcommunicator\t{}\t{}\t{}\n", members, communicator, rank,
                         ranks);
  }
  void product() {
    text_ += "0\top\t0\t1\t7\t0\n0\tgemm\t0\t1024\t1024\t1024\t1\t0\t0\n0\tend\t2\n";
  }
  void forward() {
    text_ += "0\tenter\t3\t4\n";
    product();
    text_ += "0\tleave\n";
  }
  /// Behind what was computed, and before what is computed next.
  void transfer(std::string_view kind, int peer) {
    begin_group();
    add_transfer(kind, peer);
    end_group();
  }
  void begin_group() {
    text_ += fmt::format("0\trecord\t0\t{}.1\n0\twait\t5\t{}.1\n", events_, events_);
    ++events_;
  }
  void add_transfer(std::string_view kind, int peer) {
    text_ += fmt::format("0\tnccl\t5\t{}\t{}\t4\t7\t16\t{}\n", kind, communicator_, peer);
  }
  void end_group() {
    text_ += fmt::format("0\trecord\t5\t{}.1\n0\twait\t0\t{}.1\n", events_, events_);
    ++events_;
  }
  void end_step() { text_ += "0\tphase\toptimizer\n0\tphase\tstep_end\n"; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int events_ = 1;
  int communicator_;
};

class PeerArrivalsTest : public ::testing::Test {
 protected:
  Schedule read(const LogWriter& log, int rank, int world) {
    const auto path = folder_.path() / fmt::format("events{}.txt", rank);
    std::ofstream(path) << log.text() << "END\n";
    return read_recording(path, {.world = world, .rank = rank}).schedule;
  }

  /// Stages of GPipe, one a rank: a product forward, two backward.
  std::vector<Schedule> gpipe(int stages, int micro_batches, int steps) {
    std::vector<Schedule> schedules;
    for (int rank = 0; rank < stages; ++rank) {
      LogWriter log(rank, stages);
      for (int step = 0; step < steps; ++step) {
        for (int i = 0; i < micro_batches; ++i) {
          if (rank > 0) log.transfer("receive", rank - 1);
          log.forward();  // the first one ends the set-up, which a first receive is in
          if (rank + 1 < stages) log.transfer("send", rank + 1);
        }
        for (int i = 0; i < micro_batches; ++i) {
          if (rank + 1 < stages) log.transfer("receive", rank + 1);
          log.product();
          log.product();
          if (rank > 0) log.transfer("send", rank - 1);
        }
        log.end_step();
      }
      schedules.push_back(read(log, rank, stages));
    }
    return schedules;
  }

  TemporaryFolder folder_;
};

Duration step_time(const Schedule& schedule, const PeerArrivals& peers) {
  return simulate(schedule, machine(), {}, peers).accounting.span;
}

// (m + p - 1) (t_F + t_B): Huang et al. (arXiv:1811.06965), 2.3. A product is 2 * 1024^3 flops.
TEST_F(PeerArrivalsTest, StagesOfGpipeTakeOneMicroBatchMoreForEachHop) {
  const double micro_batch = 3 * 2 * 1024.0 * 1024 * 1024 / 1e12;
  for (const int p : {2, 4}) {
    for (const int m : {4, 8}) {
      const std::vector<Schedule> schedules = gpipe(p, m, 2);
      const auto peers = peer_arrivals(schedules, machine());
      ASSERT_TRUE(peers);
      for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
        const double alone = step_time(schedules[rank], {}).seconds();
        const double together = step_time(schedules[rank], peers.arrivals[rank]).seconds();
        EXPECT_NEAR(alone, m * micro_batch, 0.03 * alone);
        EXPECT_NEAR(together, (m + p - 1) * micro_batch, 0.03 * together) << rank;
      }
    }
  }
}

TEST_F(PeerArrivalsTest, TransfersOfOneGroupWaitForNoOrder) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 2; ++rank) {
    LogWriter log(rank, 2);
    log.product();
    log.begin_group();
    log.add_transfer("send", 1 - rank);
    log.add_transfer("receive", 1 - rank);
    log.end_group();
    log.product();
    log.end_step();
    schedules.push_back(read(log, rank, 2));
  }
  EXPECT_TRUE(peer_arrivals(schedules, machine()));
}

TEST_F(PeerArrivalsTest, RanksThatBothReceiveFirstAreNoAnswer) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 2; ++rank) {
    LogWriter log(rank, 2);
    log.transfer("receive", 1 - rank);
    log.product();
    log.transfer("send", 1 - rank);
    log.end_step();
    schedules.push_back(read(log, rank, 2));
  }
  std::size_t sweeps = 0;
  const RanksTogether together =
      peer_arrivals(schedules, machine(), [&](std::size_t count) { sweeps = count; });
  EXPECT_FALSE(together);
  EXPECT_EQ(together.endless_wait,
            "rank 0 waits in nccl.receive of step 1 for rank 1, "
            "rank 1 waits in nccl.receive of step 1 for rank 0");
  EXPECT_EQ(sweeps, 0u);
}

// Ranks 0 to 2 wait in a circle; rank 3 waits for one of them, and is not in it.
TEST_F(PeerArrivalsTest, ACircleOfRanksIsNamedWithoutThoseWhoWaitForIt) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 4; ++rank) {
    LogWriter log(rank, 4);
    log.forward();
    log.end_step();
    if (rank < 3) {
      log.transfer("receive", (rank + 1) % 3);
      log.product();
      log.transfer("send", (rank + 2) % 3);
    } else {
      log.transfer("receive", 0);
    }
    if (rank == 0) log.transfer("send", 3);
    log.product();
    log.end_step();
    schedules.push_back(read(log, rank, 4));
  }
  EXPECT_EQ(peer_arrivals(schedules, machine()).endless_wait,
            "rank 0 waits in nccl.receive of step 2 for rank 1, "
            "rank 1 waits in nccl.receive of step 2 for rank 2, "
            "rank 2 waits in nccl.receive of step 2 for rank 0");
}

TEST_F(PeerArrivalsTest, EachSweepIsTold) {
  std::vector<std::size_t> told;
  const std::vector<Schedule> schedules = gpipe(2, 4, 1);
  ASSERT_TRUE(
      peer_arrivals(schedules, machine(), [&](std::size_t sweeps) { told.push_back(sweeps); }));
  ASSERT_GE(told.size(), 2u);  // the last one finds that nothing changes
  for (std::size_t i = 0; i < told.size(); ++i) EXPECT_EQ(told[i], i + 1);
}

TEST_F(PeerArrivalsTest, ARankWithoutItsPeerWaitsForNobody) {
  const std::vector<Schedule> all = gpipe(3, 2, 1);
  const std::vector<Schedule> ends{all[0], all[2]};
  const auto peers = peer_arrivals(ends, machine());
  ASSERT_TRUE(peers);
  for (const PeerArrivals& of_rank : peers.arrivals)
    for (const Duration time : of_rank) EXPECT_EQ(time, meets_nobody);
}

// NCCL's communicators are numbered by each process for itself.
TEST_F(PeerArrivalsTest, RanksMeetInAGroupWhateverItsNumberIs) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 2; ++rank) {
    LogWriter log(rank, 2, 1 + 3 * rank);
    for (int i = 0; i <= 3 * rank; ++i) log.product();
    log.transfer(rank == 0 ? "receive" : "send", 1 - rank);
    log.product();
    log.end_step();
    schedules.push_back(read(log, rank, 4));
  }
  const auto peers = peer_arrivals(schedules, machine());
  ASSERT_TRUE(peers);
  const double product = 2 * 1024.0 * 1024 * 1024 / 1e12;
  EXPECT_NEAR(step_time(schedules[0], peers.arrivals[0]).seconds(), 5 * product, 0.1 * product);
}

// A collective of both ranks begins when the slower one comes.
TEST_F(PeerArrivalsTest, ACollectiveBeginsWithTheLastRank) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 2; ++rank) {
    LogWriter log(rank, 2);
    for (int i = 0; i <= 3 * rank; ++i) log.product();
    log.begin_group();
    log.add_transfer("all_reduce", 0);
    log.end_group();
    log.product();
    log.end_step();
    schedules.push_back(read(log, rank, 2));
  }
  const auto peers = peer_arrivals(schedules, machine());
  ASSERT_TRUE(peers);
  const double product = 2 * 1024.0 * 1024 * 1024 / 1e12;
  EXPECT_NEAR(step_time(schedules[0], {}).seconds(), 2 * product, 0.03 * product);
  EXPECT_NEAR(step_time(schedules[0], peers.arrivals[0]).seconds(), 5 * product, 0.1 * product);
  EXPECT_NEAR(step_time(schedules[1], peers.arrivals[1]).seconds(), 5 * product, 0.1 * product);
}

}  // namespace
}  // namespace shardscope
