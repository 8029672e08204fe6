#include "backend/calibrate/collective_timer.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>

#include "backend/calibrate/kernel_operands.h"
#include "backend/calibrate/rank_group.h"
#include "core/base/median.h"

namespace shardscope {
namespace {

constexpr std::size_t queue_capacity = 64;
constexpr int overlapped_collectives = 48;
constexpr Duration alone_time = 100_ms;
/// Of a core's time, by communication: compute does not quite stand still.
constexpr double most_busy = 0.98;
/// Collectives between two marks of a device that runs ahead.
constexpr int most_in_a_row = 10;
constexpr std::int64_t alignment = 64;

/// A payload that divides into whole floats of every rank.
Bytes divisible(Bytes bytes, int ranks) {
  const std::int64_t unit = alignment * ranks;
  return {std::max<std::int64_t>((bytes.count + unit - 1) / unit, 1) * unit};
}

Duration thread_processor_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return {time.tv_sec * 1'000'000'000 + time.tv_nsec};
}

Duration mean(std::span<const Duration> times) {
  if (times.empty()) return {};
  return {std::accumulate(times.begin(), times.end(), Duration{}).ns / std::ssize(times)};
}

double ratio(Duration together, Duration alone) {
  return std::max(1.0, static_cast<double>(together.ns) /
                           static_cast<double>(std::max<std::int64_t>(alone.ns, 1)));
}

}  // namespace

std::vector<CollectiveCase> collective_grid(int ranks) {
  std::vector<CollectiveCase> grid;
  for (int group = 2; group <= ranks; group *= 2)
    if (ranks % group == 0)
      for (const OperationKind kind :
           {OperationKind::all_gather, OperationKind::reduce_scatter, OperationKind::all_reduce})
        for (const std::int64_t bytes : {1 << 12, 1 << 16, 1 << 20, 1 << 23, 1 << 25})
          grid.push_back({kind, group, {bytes}});
  return grid;
}

CollectiveTimer::CollectiveTimer(Communicator& world, Device& device, Bytes largest,
                                 const CoreUse& cores)
    : world_(world),
      device_(device),
      half_(divisible(largest, world.size())),
      cores_(cores),
      queue_(queue_capacity) {
  arena_ = world.allocate_arena(half_ * 2);
  if (!device.memory().is_host())
    timeline_ = device.timeline(4);
  else
    std::memset(arena_->data(), 0, static_cast<std::size_t>(arena_->size().count));  // maps it
}

Communicator& CollectiveTimer::group_of(int ranks) {
  if (ranks == world_.size()) return world_;
  for (const auto& [size, group] : groups_)
    if (size == ranks) return *group;
  groups_.emplace_back(ranks, world_.split(world_.rank() / ranks));
  return *groups_.back().second;
}

/// Where the next payload of this size lies: in a step, other memory has gone through the caches
/// since a collective's was in use.
std::size_t CollectiveTimer::next_place(std::size_t total) {
  if (next_place_ + total > static_cast<std::size_t>(half_.count)) next_place_ = 0;
  const std::size_t place = next_place_;
  next_place_ += total;
  return place;
}

void CollectiveTimer::run(const CollectiveCase& c) {
  Communicator& group = group_of(c.ranks);
  const auto total = static_cast<std::size_t>(divisible(c.bytes, c.ranks).count);
  const std::size_t part = total / static_cast<std::size_t>(c.ranks);
  const std::size_t place = next_place(total);
  std::byte* whole = arena_->data() + place;
  std::byte* result = whole + half_.count;  // and where a gather's part comes from
  switch (c.kind) {
    case OperationKind::all_gather:
      return group.all_gather({result, part}, {whole, total});
    case OperationKind::reduce_scatter:
      return group.reduce_scatter({whole, total}, {result, part}, Dtype::float32);
    default:
      return group.all_reduce({whole, total}, Dtype::float32);
  }
}

/// Groups are split off before, on the thread that calls.
CollectiveQueue::Ticket CollectiveTimer::submit(const CollectiveCase& c) {
  group_of(c.ranks);
  return queue_.submit([this, c] {
    const Duration before = thread_processor_time();
    run(c);
    processor_time_ += thread_processor_time() - before;
  });
}

Duration CollectiveTimer::duration_of(CollectiveQueue::Ticket ticket) const {
  const CollectiveQueue::Times times = queue_.times(ticket);
  return times.end - times.start;
}

Duration CollectiveTimer::time_once(const CollectiveCase& c, int in_a_row) {
  if (!timeline_) {
    const CollectiveQueue::Ticket ticket = submit(c);
    queue_.wait(ticket);
    return duration_of(ticket);
  }
  device_.streams().select(Stream::unshard);
  timeline_->mark(0);
  for (int i = 0; i < in_a_row; ++i) run(c);
  timeline_->mark(1);
  device_.memory().wait();  // for the stream of the marks
  device_.streams().select(Stream::compute);
  return {timeline_->between(0, 1).ns / in_a_row};
}

CollectiveSample CollectiveTimer::time(const CollectiveCase& c, Duration budget) {
  group_of(c.ranks);
  world_.barrier();
  time_once(c, 1);
  const Duration warm = mean_over_ranks(world_, time_once(c, 1));
  const std::int64_t all = budget.ns / std::max<std::int64_t>(warm.ns, 1);
  const auto in_a_row =
      timeline_ ? static_cast<int>(std::clamp<std::int64_t>(all / 3, 1, most_in_a_row)) : 1;
  std::vector<Duration> times(
      static_cast<std::size_t>(std::clamp<std::int64_t>(all / in_a_row, 3, 15)));
  for (Duration& time : times) time = time_once(c, in_a_row);
  return {.kind = c.kind,
          .ranks = c.ranks,
          .bytes = divisible(c.bytes, c.ranks),
          .time = std::max(mean_over_ranks(world_, median(times)), Duration{1})};
}

CollectiveCase CollectiveTimer::contending(int number, Bytes bytes) const {
  return {number % 2 == 0 ? OperationKind::all_gather : OperationKind::reduce_scatter,
          world_.size(), bytes};
}

Slowdowns CollectiveTimer::slowdowns(const Kernel& product, Bytes bytes) {
  if (!timeline_ && cores_.all_compute()) return slowdowns_on_busy_cores(bytes);
  device_.prepare(product);
  const KernelOperands operands(product, device_);
  const Slowdowns mine = timeline_ ? slowdowns_on_device(product, operands.call(), bytes)
                                   : slowdowns_on_host(product, operands.call(), bytes);
  return {.compute = mean_over_ranks(world_, mine.compute),
          .collective = mean_over_ranks(world_, mine.collective)};
}

Slowdowns CollectiveTimer::slowdowns_on_busy_cores(Bytes bytes) {
  world_.barrier();
  processor_time_ = {};
  Duration collectives;
  for (int i = 0; i < overlapped_collectives; ++i) {
    const CollectiveQueue::Ticket ticket = submit(contending(i, bytes));
    queue_.wait(ticket);
    collectives += duration_of(ticket);
  }
  const double mine = processor_time_.seconds() / collectives.seconds();
  const double busy =
      std::min(mean_over_ranks(world_, mine) * cores_.communication_threads_per_core(), most_busy);
  return {.compute = 1 / (1 - busy)};
}

Slowdowns CollectiveTimer::slowdowns_on_host(const Kernel& product, const KernelCall& call,
                                             Bytes bytes) {
  const auto run_product = [&] {
    const Duration start = monotonic_now();
    device_.run(product, call);
    return monotonic_now() - start;
  };

  // Without waits in between: a collective's own time counts its peers' wake-ups as in a step.
  std::vector<Duration> collectives_alone, collectives_together, products_alone, products_together;
  world_.barrier();
  const Duration begin = monotonic_now();
  while (monotonic_now() - begin < alone_time) products_alone.push_back(run_product());
  world_.barrier();
  for (int i = 0; i < overlapped_collectives; ++i) {
    const CollectiveQueue::Ticket ticket = submit(contending(i, bytes));
    queue_.wait(ticket);
    collectives_alone.push_back(duration_of(ticket));
  }
  world_.barrier();
  std::vector<CollectiveQueue::Ticket> tickets;
  for (int i = 0; i < overlapped_collectives; ++i) tickets.push_back(submit(contending(i, bytes)));
  while (!queue_.done(tickets.back())) products_together.push_back(run_product());
  queue_.wait(tickets.back());
  // The last product ended when collectives had: it ran partly alone.
  if (products_together.size() > 1) products_together.pop_back();
  for (const CollectiveQueue::Ticket ticket : tickets)
    collectives_together.push_back(duration_of(ticket));
  // Means: where a core is shared, a product is interrupted or not, and the median says either.
  return {.compute = ratio(mean(products_together), mean(products_alone)),
          .collective = ratio(mean(collectives_together), mean(collectives_alone))};
}

CollectiveTimer::SideBySide CollectiveTimer::run_on_streams(const std::function<void()>& product,
                                                            int products, Bytes bytes,
                                                            int collectives) {
  DeviceStreams& streams = device_.streams();
  world_.barrier();
  streams.select(Stream::unshard);
  timeline_->mark(0);
  for (int i = 0; i < collectives; ++i) run(contending(i, bytes));
  timeline_->mark(1);
  streams.select(Stream::compute);
  timeline_->mark(2);
  for (int i = 0; i < products; ++i) product();
  timeline_->mark(3);
  device_.memory().wait();
  streams.select(Stream::unshard);
  device_.memory().wait();
  streams.select(Stream::compute);
  return {.products = timeline_->between(2, 3), .collectives = timeline_->between(0, 1)};
}

/// Each side is timed while the other one has more to do than it.
Slowdowns CollectiveTimer::slowdowns_on_device(const Kernel& product, const KernelCall& call,
                                               Bytes bytes) {
  const auto run_product = [&] { device_.run(product, call); };
  constexpr int few = 8;
  run_on_streams(run_product, few, bytes, few);  // warm
  const Duration products = run_on_streams(run_product, few, bytes, 0).products;
  const Duration collectives = run_on_streams(run_product, 0, bytes, few).collectives;
  const double products_each = mean_over_ranks(world_, products).seconds() / few;
  const double collectives_each = mean_over_ranks(world_, collectives).seconds() / few;
  // The same on all ranks, as the mean is: collectives must match.
  const auto enough = [](double other, double own) {
    return static_cast<int>(std::clamp(3 * few * other / std::max(own, 1e-9), 1.0, 2000.0));
  };
  const int many_products = enough(collectives_each, products_each);
  const int many_collectives = enough(products_each, collectives_each);
  return {.compute =
              ratio(run_on_streams(run_product, few, bytes, many_collectives).products, products),
          .collective = ratio(run_on_streams(run_product, many_products, bytes, few).collectives,
                              collectives)};
}

}  // namespace shardscope
