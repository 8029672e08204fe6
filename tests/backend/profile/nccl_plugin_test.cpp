// The exported tables, driven as NCCL 2.28 drives them (src/plugin/profiler.cc), by hand.
#include "backend/profile/nccl_plugin.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "backend/profile/nccl_events.h"

namespace shardscope {
namespace {

using namespace nccl_profiler;

// As the library reads it: ext-profiler/nccl/profiler_v4.h and profiler_v5.h.
static_assert(offsetof(EventDescriptorV4, rank) == 16 && offsetof(EventDescriptorV5, rank) == 16);
static_assert(offsetof(EventDescriptorV5, collective) == 24);
static_assert(offsetof(CollectiveDescriptor, channels) == 56);
static_assert(offsetof(CollectiveDescriptor, protocol) == 72);
static_assert(offsetof(ProxyOperationDescriptor, is_send) == 20);

/// NCCL with one communicator.
class Library {
 public:
  Library() { ncclProfiler_v5.init(&context_, 7, &mask, "world", 2, 4, 1, nullptr); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() { ncclProfiler_v5.finalize(context_); }

  void* start(EventDescriptorV5 descriptor) const {
    void* handle = &handle;
    ncclProfiler_v5.start_event(context_, &handle, &descriptor);
    return handle;
  }
  void* start_call() const { return start({.type = collective_call}); }
  void* start_collective(void* call, const char* algorithm = "RING") const {
    EventDescriptorV5 descriptor{.type = collective, .parent_object = call};
    descriptor.collective = {
        .sequence = 5, .channels = 16, .algorithm = algorithm, .protocol = "LL128"};
    return start(descriptor);
  }
  void* start_proxy(void* collective, bool is_send, int process = ::getpid()) const {
    EventDescriptorV5 descriptor{.type = proxy_operation, .parent_object = collective};
    descriptor.proxy_operation = {.process = process, .is_send = is_send};
    return start(descriptor);
  }
  void transfer(void* proxy, EventState state, std::size_t bytes) const {
    void* step = start({.type = proxy_step, .parent_object = proxy});
    constexpr int send_gpu_wait = 8;  // carries the size of the transfer before
    EventStateArguments stale{.proxy_step = {999}};
    ncclProfiler_v5.record_event_state(step, send_gpu_wait, &stale);
    EventStateArguments arguments{.proxy_step = {bytes}};
    ncclProfiler_v5.record_event_state(step, state, &arguments);
    ncclProfiler_v5.stop_event(step);
  }

  int mask = 0;

 private:
  void* context_ = nullptr;
};

class NcclPlugin : public ::testing::Test {
 protected:
  NcclPlugin() {
    events_.prepare(10, 3);
    events_.end();
  }

  NcclEvents& events_ = nccl_events();
  Library library_;
};

TEST_F(NcclPlugin, NotesHowAnOperationWasMovedOutsideOfWindows) {
  events_.begin(OperationId{3});
  library_.start_collective(library_.start_call());
  events_.end();
  EXPECT_EQ(events_.choice_of(OperationId{3}), (CollectiveChoice{"RING", "LL128", 16}));
  EXPECT_EQ(events_.choice_of(OperationId{2}), CollectiveChoice{});
  EXPECT_TRUE(events_.collectives().empty());
}

// What is captured into a graph keeps the mask of that moment.
TEST_F(NcclPlugin, AsksForTheNetworkAtAllTimes) {
  EXPECT_EQ(library_.mask, collective_call | collective | proxy_operation | proxy_step);
}

TEST_F(NcclPlugin, AddsUpWhatGoesOverTheNetwork) {
  events_.open_window();
  events_.begin_step(12);
  events_.begin(OperationId{4});
  void* collective = library_.start_collective(library_.start_call());
  ncclProfiler_v5.stop_event(collective);  // it is queued; the proxies come later
  events_.end();
  void* send = library_.start_proxy(collective, true);
  library_.transfer(send, step_send_wait, 1000);
  library_.transfer(send, step_send_wait, 24);
  library_.transfer(library_.start_proxy(collective, false), step_receive_flush_wait, 512);
  events_.close_window();
  const NcclCollective expected{.operation = OperationId{4},
                                .step = 12,
                                .sequence = 5,
                                .network_steps = 3,
                                .sent = 1024_B,
                                .received = 512_B};
  EXPECT_EQ(events_.collectives(), std::vector{expected});
}

/// NCCL launches on a thread of its own, and a graph brings a collective again when another
/// operation is current: the call that it was made in counts.
TEST_F(NcclPlugin, TheCallSaysTheOperation) {
  events_.open_window();
  events_.begin(OperationId{4});
  void* call = library_.start_call();
  events_.end();
  events_.begin(OperationId{6});
  std::thread([&] { library_.start_collective(call); }).join();
  events_.close_window();
  ASSERT_EQ(events_.collectives().size(), 1u);
  EXPECT_EQ(events_.collectives()[0].operation, OperationId{4});
}

TEST_F(NcclPlugin, CountsWhatFindsNoRoom) {
  events_.open_window();
  for (int i = 0; i < 5; ++i) library_.start_collective(nullptr);
  events_.close_window();
  EXPECT_EQ(events_.collectives().size(), 3u);
  EXPECT_EQ(events_.dropped(), 2);
}

TEST_F(NcclPlugin, AWindowKnowsNothingOfTheOneBefore) {
  events_.open_window();
  void* late = library_.start_proxy(library_.start_collective(nullptr), true);
  events_.close_window();
  events_.open_window();
  library_.start_collective(nullptr);
  library_.transfer(late, step_send_wait, 1000);
  events_.close_window();
  ASSERT_EQ(events_.collectives().size(), 1u);
  EXPECT_EQ(events_.collectives()[0].sent, 0_B);
  EXPECT_FALSE(events_.collectives()[0].operation.valid());
}

/// NCCL's threads tell while windows come and go and are read: what is read of a window is whole,
/// and of that window. Run under ThreadSanitizer too (preset tsan).
TEST_F(NcclPlugin, AThreadThatLagsTellsNothingHalfAndNothingOfAnotherWindow) {
  constexpr std::size_t capacity = 4;
  constexpr int windows = 200;
  events_.prepare(10, capacity);
  std::atomic<bool> done{false};
  std::thread library([&] {
    while (!done) {
      void* collective = library_.start_collective(nullptr);
      void* proxy = library_.start_proxy(collective, true);
      library_.transfer(proxy, step_send_wait, 100);
      library_.transfer(proxy, step_send_wait, 100);
    }
  });
  for (int window = 1; window <= windows; ++window) {
    events_.begin_step(window);
    events_.open_window();
    std::this_thread::yield();
    events_.close_window();
    const std::vector<NcclCollective> collectives = events_.collectives();
    EXPECT_LE(collectives.size(), capacity);
    for (const NcclCollective& collective : collectives) {
      EXPECT_EQ(collective.sequence, 5u);
      EXPECT_EQ(collective.step, window);
      EXPECT_LE(collective.network_steps, 2);
      EXPECT_LE(collective.sent, 200_B);
    }
    EXPECT_EQ(collectives, events_.collectives());
  }
  done = true;
  library.join();
}

/// PXN: this process's proxy moves bytes for a collective of another, whose handle means nothing.
TEST_F(NcclPlugin, LeavesOtherProcessesCollectivesAlone) {
  events_.open_window();
  void* collective = library_.start_collective(nullptr);
  EXPECT_EQ(library_.start_proxy(collective, true, ::getpid() + 1), nullptr);
  events_.close_window();
}

TEST_F(NcclPlugin, LooksAtNoOtherEvent) {
  constexpr std::uint64_t group_call = 1 << 8, kernel_channel = 1 << 6;
  EXPECT_EQ(library_.start({.type = group_call}), nullptr);
  EXPECT_EQ(library_.start({.type = kernel_channel}), nullptr);
}

/// Version 4 has no calls: the operation in whose hearing the collective is launched counts.
TEST(NcclPluginV4, TiesCollectivesToTheCurrentOperation) {
  nccl_events().prepare(10, 3);
  void* context = nullptr;
  int mask = 0;
  ncclProfiler_v4.init(&context, &mask, "world", 7, 1, 2, 0, nullptr);
  EXPECT_EQ(nccl_events().interface(), NcclEvents::Interface::version4);
  nccl_events().begin(OperationId{8});
  EventDescriptorV4 descriptor{.type = collective};
  descriptor.collective = {.channels = 2, .algorithm = "TREE", .protocol = "LL"};
  void* handle = nullptr;
  ncclProfiler_v4.start_event(context, &handle, &descriptor);
  nccl_events().end();
  ncclProfiler_v4.finalize(context);
  EXPECT_EQ(nccl_events().choice_of(OperationId{8}), (CollectiveChoice{"TREE", "LL", 2}));
}

/// NCCL_PROFILER_PLUGIN=STATIC_PLUGIN: src/plugin/plugin_open.cc, tryOpenLib.
TEST(NcclPluginSymbols, AreAmongTheProgramsOwn) {
  void* program = ::dlopen(nullptr, RTLD_NOW | RTLD_LOCAL);
  EXPECT_EQ(::dlsym(program, "ncclProfiler_v5"), &ncclProfiler_v5);
  EXPECT_EQ(::dlsym(program, "ncclProfiler_v4"), &ncclProfiler_v4);
}

}  // namespace
}  // namespace shardscope
