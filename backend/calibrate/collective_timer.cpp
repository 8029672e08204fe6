#include "backend/calibrate/collective_timer.h"

#include <algorithm>
#include <span>
#include <utility>

#include "backend/calibrate/kernel_operands.h"
#include "backend/calibrate/rank_group.h"

namespace shardscope {
namespace {

constexpr std::size_t queue_capacity = 64;
constexpr int overlapped_collectives = 24;
constexpr std::int64_t alignment = 64;

/// A payload that divides into whole floats of every rank.
Bytes divisible(Bytes bytes, int ranks) {
  const std::int64_t unit = alignment * ranks;
  return {std::max<std::int64_t>((bytes.count + unit - 1) / unit, 1) * unit};
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

CollectiveTimer::CollectiveTimer(Communicator& world, Bytes largest)
    : world_(world), half_(divisible(largest, world.size())), queue_(queue_capacity) {
  arena_ = world.allocate_arena(half_ * 2);
}

Communicator& CollectiveTimer::group_of(int ranks) {
  if (ranks == world_.size()) return world_;
  for (const auto& [size, group] : groups_)
    if (size == ranks) return *group;
  groups_.emplace_back(ranks, world_.split(world_.rank() / ranks));
  return *groups_.back().second;
}

CollectiveQueue::Ticket CollectiveTimer::submit(const CollectiveCase& c) {
  Communicator* group = &group_of(c.ranks);
  const auto total = static_cast<std::size_t>(divisible(c.bytes, c.ranks).count);
  const std::size_t part = total / static_cast<std::size_t>(c.ranks);
  std::byte* whole = arena_->data();
  std::byte* mine = whole + part * static_cast<std::size_t>(group->rank());
  std::byte* result = whole + half_.count;
  switch (c.kind) {
    case OperationKind::all_gather:
      return queue_.submit([=] { group->all_gather({mine, part}, {whole, total}); });
    case OperationKind::reduce_scatter:
      return queue_.submit([=] {
        group->reduce_scatter({whole, total}, {result, part}, Dtype::float32);
      });
    default:
      return queue_.submit([=] { group->all_reduce({whole, total}, Dtype::float32); });
  }
}

Duration CollectiveTimer::duration_of(CollectiveQueue::Ticket ticket) const {
  const CollectiveQueue::Times times = queue_.times(ticket);
  return times.end - times.start;
}

CollectiveSample CollectiveTimer::time(const CollectiveCase& c, Duration budget) {
  const auto once = [&] {
    const CollectiveQueue::Ticket ticket = submit(c);
    queue_.wait(ticket);
    return duration_of(ticket);
  };
  world_.barrier();
  once();
  const Duration warm = mean_over_ranks(world_, once());
  const std::int64_t fits = budget.ns / std::max<std::int64_t>(warm.ns, 1);
  std::vector<Duration> times(static_cast<std::size_t>(std::clamp<std::int64_t>(fits, 3, 15)));
  for (Duration& time : times) time = once();
  return {.kind = c.kind,
          .ranks = c.ranks,
          .bytes = divisible(c.bytes, c.ranks),
          .time = std::max(mean_over_ranks(world_, median(times)), Duration{1})};
}

Slowdowns CollectiveTimer::slowdowns(Device& device, const Kernel& product, Bytes bytes) {
  device.prepare(product);
  const KernelOperands operands(product, device);
  const auto run_product = [&] {
    const Duration start = monotonic_now();
    device.run(product, operands.call());
    return monotonic_now() - start;
  };
  const auto case_of = [&](int i) {
    return CollectiveCase{i % 2 == 0 ? OperationKind::all_gather : OperationKind::reduce_scatter,
                          world_.size(), bytes};
  };

  // Without waits in between: a collective's own time counts its peers' wake-ups as in a step.
  std::vector<Duration> collectives_alone, collectives_together, products_alone, products_together;
  world_.barrier();
  for (int i = 0; i < 9; ++i) products_alone.push_back(run_product());
  world_.barrier();
  for (int i = 0; i < overlapped_collectives; ++i) {
    const CollectiveQueue::Ticket ticket = submit(case_of(i));
    queue_.wait(ticket);
    collectives_alone.push_back(duration_of(ticket));
  }
  world_.barrier();
  std::vector<CollectiveQueue::Ticket> tickets;
  for (int i = 0; i < overlapped_collectives; ++i) tickets.push_back(submit(case_of(i)));
  while (!queue_.done(tickets.back())) products_together.push_back(run_product());
  queue_.wait(tickets.back());
  // The last product ended when collectives had: it ran partly alone.
  if (products_together.size() > 1) products_together.pop_back();
  for (const CollectiveQueue::Ticket ticket : tickets)
    collectives_together.push_back(duration_of(ticket));
  return {
      .compute = mean_over_ranks(world_, ratio(median(products_together), median(products_alone))),
      .collective =
          mean_over_ranks(world_, ratio(median(collectives_together), median(collectives_alone)))};
}

}  // namespace shardscope
