// The watchdog among real processes, over every kind of communicator that it must serve.
#include "backend/watch/watchdog.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/comm/queued_collectives.h"
#include "backend/job/join_job.h"
#include "backend/job/make_communicator.h"
#include "backend/job/watched_communicator.h"
#include "core/format/atomic_file.h"
#include "tests/backend/comm/forked_ranks.h"

namespace shardscope::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Of a rank that is waited for; a rank that is well comes within it, on a busy machine, too.
constexpr seconds deadline{3};
/// For what ends by itself; it would not in an hour where it does not.
constexpr double bound_s = 60;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::unique_ptr<Communicator> meet(const std::shared_ptr<JobSession>& session,
                                   const Environment& place) {
  return make_communicator(CommunicatorChoice::shared_memory, place, session);
}

TEST(Watchdog, EndsARankWhoseOwnThreadNeverComesBack) {
  const auto start = std::chrono::steady_clock::now();
  const auto outcomes = run_ranks(2, [](const Environment& place) {
    const auto session = join_job(place, deadline);
    const auto group = meet(session, place);
    group->barrier();
    while (place.rank == 1) ::usleep(1000);  // a kernel without end
    group->barrier();
  });
  EXPECT_EQ(outcomes[1].exit_code, 4);
  EXPECT_EQ(outcomes[0].exit_code, 4);
  EXPECT_THAT(outcomes[0].message,
              AllOf(HasSubstr("rank 1 did not come within 3 s"), HasSubstr("waits in barrier"),
                    HasSubstr("rank 1 is in no collective, after barrier")));
  EXPECT_LT(seconds_since(start), bound_s);
}

TEST(Watchdog, EndsARankThatWasStopped) {
  const auto start = std::chrono::steady_clock::now();
  const auto outcomes = run_ranks(3, [](const Environment& place) {
    const auto group = meet(join_job(place, deadline), place);
    group->barrier();
    if (place.rank == 2) ::kill(::getpid(), SIGSTOP);
    group->barrier();
  });
  EXPECT_EQ(outcomes[2].signal, SIGKILL);
  for (const std::size_t rank : {0, 1}) {
    EXPECT_EQ(outcomes[rank].exit_code, 4);
    EXPECT_THAT(outcomes[rank].message, HasSubstr("rank 2 did not come"));
  }
  EXPECT_LT(seconds_since(start), bound_s);
}

TEST(Watchdog, ARanksOwnFailureIsWhatTheOthersSay) {
  const auto outcomes = run_ranks(2, [](const Environment& place) {
    const auto session = join_job(place, std::chrono::minutes(4));
    return run_as_rank(session.get(), [&]() -> ExitCode {
      const auto group = meet(session, place);
      if (place.rank == 1)
        throw Error({.where = "model", .what = "disk full", .code = ExitCode::outside});
      group->barrier();
      return ExitCode::done;
    });
  });
  // It is told once, by the rank that failed.
  EXPECT_EQ(outcomes[1].exit_code, 3);
  EXPECT_THAT(outcomes[1].message, HasSubstr("model: disk full"));
  EXPECT_EQ(outcomes[0].exit_code, 4);
  EXPECT_EQ(outcomes[0].message, "");
}

TEST(Watchdog, LeavesTheFlightRecordOfEveryRankThatCanWrite) {
  std::string folder = ::testing::TempDir() + "watchdog.XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  run_ranks(3, [&](const Environment& place) {
    const auto group = meet(join_job(place, std::chrono::minutes(1), folder), place);
    group->barrier();
    if (place.rank == 1) ::kill(::getpid(), SIGKILL);
    group->barrier();
  });
  namespace fs = std::filesystem;
  EXPECT_TRUE(fs::exists(fs::path(folder) / "flight.0.json"));
  EXPECT_FALSE(fs::exists(fs::path(folder) / "flight.1.json"));
  EXPECT_TRUE(fs::exists(fs::path(folder) / "flight.2.json"));
  fs::remove_all(folder);
}

/// Stands in for a library that queues on a device and never ends, or fails by itself.
class StuckQueue : public QueuedCollectives {
 public:
  std::vector<QueuedCollective> pending() override {
    const std::lock_guard lock(mutex_);
    return pending_;
  }
  std::uint64_t queued_count() override {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  std::string failure() override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  void abort(const std::string&) override {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
  }
  void queue(bool ends) {
    const std::lock_guard lock(mutex_);
    if (!ends)
      pending_.push_back({.number = count_,
                          .call = {CollectiveKind::barrier, {}},
                          .ranks = {0, 1},
                          .queued_at = std::chrono::steady_clock::now()});
    ++count_;
  }
  void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    failure_ = why;
  }
  bool aborted() {
    const std::lock_guard lock(mutex_);
    return aborted_;
  }

 private:
  std::mutex mutex_;
  std::vector<QueuedCollective> pending_;
  std::uint64_t count_ = 0;
  std::string failure_;
  bool aborted_ = false;
};

/// Stands in for a driver whose locks are never free again.
class DeafQueue final : public StuckQueue {
 public:
  std::vector<QueuedCollective> pending() override {
    for (;;) std::this_thread::sleep_for(milliseconds(100));
  }
};

class QueueingCommunicator final : public Communicator {
 public:
  QueueingCommunicator(int rank, StuckQueue& queue, int ends)
      : rank_(rank), queue_(queue), ends_(ends) {}
  int rank() const override { return rank_; }
  int size() const override { return 2; }
  std::string description() const override { return "queueing"; }
  std::unique_ptr<Arena> allocate_arena(Bytes) override { return nullptr; }
  void all_gather(std::span<const std::byte>, std::span<std::byte>) override {}
  void reduce_scatter(std::span<const std::byte>, std::span<std::byte>, Dtype) override {}
  void all_reduce(std::span<std::byte>, Dtype) override {}
  void broadcast(std::span<std::byte>, int) override {}
  void send(std::span<const std::byte>, int) override {}
  void receive(std::span<std::byte>, int) override {}
  void barrier() override { queue_.queue(ends_-- > 0); }
  std::unique_ptr<Communicator> split(int) override { return nullptr; }
  QueuedCollectives* queued() override { return &queue_; }

 private:
  int rank_;
  StuckQueue& queue_;
  int ends_;
};

/// Waits as a rank's thread waits for its device, until the abort.
void wait_for_device(StuckQueue& queue) {
  while (!queue.aborted()) std::this_thread::sleep_for(milliseconds(5));
  throw Error({.where = "device", .what = "aborted", .code = ExitCode::rank_lost});
}

TEST(Watchdog, HoldsTheDeadlineOfWhatIsQueuedOnADevice) {
  const auto outcomes = run_ranks(2, [](const Environment& place) {
    const auto session = join_job(place, deadline);
    StuckQueue queue;
    return run_as_rank(session.get(), [&]() -> ExitCode {
      // Two end, the third does not; rank 1 never queues it.
      const auto group = make_watched_communicator(
          session, std::make_unique<QueueingCommunicator>(place.rank, queue, 2));
      for (int i = 0; i < (place.rank == 0 ? 4 : 2); ++i) group->barrier();
      if (place.rank == 0) wait_for_device(queue);
      wait_for_device(queue);
      return ExitCode::done;
    });
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome.exit_code, 4);
}

TEST(Watchdog, EndsRanksWhoseDriversDoNotComeBackToIt) {
  const auto start = std::chrono::steady_clock::now();
  std::string folder = ::testing::TempDir() + "watchdog.XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const auto outcomes = run_ranks(2, [&](const Environment& place) {
    const auto session = join_job(place, deadline, folder);
    DeafQueue queue;
    const auto group = make_watched_communicator(
        session, std::make_unique<QueueingCommunicator>(place.rank, queue, 0));
    group->barrier();
    for (;;) ::usleep(1000);
  });
  EXPECT_LT(seconds_since(start), bound_s);
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_THAT(read_whole(std::filesystem::path(folder) / "flight.0.json"),
              HasSubstr("rank 0 was lost: a call of its GPU's driver does not come back"));
  std::filesystem::remove_all(folder);
}

TEST(Watchdog, TellsAllOfAFailureInTheLibrary) {
  const auto start = std::chrono::steady_clock::now();
  std::string folder = ::testing::TempDir() + "watchdog.XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  run_ranks(2, [&](const Environment& place) {
    const auto session = join_job(place, std::chrono::minutes(4), folder);
    StuckQueue queue;
    return run_as_rank(session.get(), [&]() -> ExitCode {
      const auto group = make_watched_communicator(
          session, std::make_unique<QueueingCommunicator>(place.rank, queue, 0));
      group->barrier();
      if (place.rank == 1) queue.fail("unhandled system error: connection reset");
      wait_for_device(queue);
      return ExitCode::done;
    });
  });
  EXPECT_LT(seconds_since(start), bound_s) << "long before the deadline";
  for (const char* name : {"flight.0.json", "flight.1.json"}) {
    const std::string record = read_whole(std::filesystem::path(folder) / name);
    EXPECT_THAT(record, HasSubstr("rank 1: unhandled system error: connection reset"));
    EXPECT_THAT(record, HasSubstr("\"state\": \"started\""));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace shardscope::testing
