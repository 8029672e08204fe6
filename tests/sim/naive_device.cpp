#include "tests/sim/naive_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace shardscope::testing {

NaiveDevice::NaiveDevice(const Schedule& schedule, std::span<const Duration> times,
                         const DeviceClockOptions& options)
    : schedule_(schedule),
      times_(times),
      options_(options),
      sharing_(options.sharing),
      starts_(times.size(), not_started),
      ends_(times.size()),
      collectives_issued_(schedule.groups.size() + 1),
      collectives_ended_(schedule.groups.size() + 1) {}

// The host.

void NaiveDevice::put(DeviceStream stream, Item item) {
  const auto index = static_cast<std::uint8_t>(stream.value);
  if (!in_use_[index]) {
    in_use_[index] = true;
    used_.push_back(index);
  }
  item.issued_ns = host_ns_;
  Queue& queue = queues_[index];
  if (queue.empty() && !queue.busy) settled_ = false;
  queue.items.push_back(item);
}

void NaiveDevice::launch(DeviceStream stream, OperationId operation) {
  host_ns_ += options_.launch.ns;
  const Operation& op = schedule_.at(operation);
  const Share share = share_of(op.kind);
  const std::uint32_t channel = channel_of(schedule_, op, options_.sharing);
  put(stream, {.share = share,
               .subject = operation.value,
               .channel = channel,
               .turn = share == Share::collective ? collectives_issued_[channel]++ : 0});
}

DeviceEvent NaiveDevice::record(DeviceStream stream) {
  const DeviceEvent event = DeviceEvent::of(event_ns_.size());
  event_ns_.push_back(never_ns);
  put(stream, {.kind = ItemKind::record, .subject = event.value});
  return event;
}

void NaiveDevice::stream_waits(DeviceStream stream, DeviceEvent event) {
  put(stream, {.kind = ItemKind::wait, .subject = event.value});
}

bool NaiveDevice::done(DeviceEvent event) {
  if (event_ns_[event.value] == never_ns) run_until(host_ns_);
  return event_ns_[event.value] <= host_ns_;
}

void NaiveDevice::wait(DeviceEvent event) {
  run_until_done(event);
  if (event_ns_[event.value] <= host_ns_) return;
  host_waits_.push_back({{host_ns_}, {event_ns_[event.value]}});
  host_ns_ = event_ns_[event.value];
}

void NaiveDevice::wait(DeviceStream stream) { wait(record(stream)); }

void NaiveDevice::finish() { run_until(never_ns - 1); }

// The device.

/// The head of a queue goes on: whether anything happened.
bool NaiveDevice::pass(Queue& queue, std::uint8_t stream) {
  if (queue.busy || queue.empty()) return false;
  const Item& item = queue.items[queue.head];
  if (item.issued_ns > now_ns_) return false;
  if (item.kind == ItemKind::record) {
    event_ns_[item.subject] = now_ns_;
    ++queue.head;
    return true;
  }
  if (item.kind == ItemKind::wait) {
    if (event_ns_[item.subject] > now_ns_) return false;
    ++queue.head;
    return true;
  }
  const bool its_turn = item.share != Share::collective || !options_.sharing.collectives_serial ||
                        item.turn == collectives_ended_[item.channel];
  if (!its_turn) return false;
  const bool core_is_taken = options_.sharing.compute_waits && item.share == Share::compute &&
                             sharing_.runs(Share::collective);
  if (core_is_taken) return false;
  queue.busy = true;
  starts_[item.subject] = {now_ns_};
  running_.push_back({item, stream, static_cast<double>(times_[item.subject].ns)});
  sharing_.begin(item.share, use_of(item));
  return true;
}

/// Kernels only after all that is not one: a collective takes the core before a kernel does.
bool NaiveDevice::pass_heads() {
  const auto is_kernel = [&](const Queue& queue) {
    return !queue.empty() && queue.items[queue.head].kind == ItemKind::operation &&
           queue.items[queue.head].share == Share::compute;
  };
  bool passed = false;
  for (const std::uint8_t stream : used_)
    while (!is_kernel(queues_[stream]) && pass(queues_[stream], stream)) passed = true;
  if (passed) return true;
  for (const std::uint8_t stream : used_)
    while (is_kernel(queues_[stream]) && pass(queues_[stream], stream)) passed = true;
  return passed;
}

/// If nothing else starts or ends before.
std::int64_t NaiveDevice::end_ns(const Running& running) const {
  return now_ns_ + remaining_ns(running.left_ns, sharing_.slowdown(running.item.share));
}

std::int64_t NaiveDevice::next_event() const {
  std::int64_t next = never_ns;
  for (const Running& running : running_) next = std::min(next, end_ns(running));
  for (const std::uint8_t stream : used_) {
    const Queue& queue = queues_[stream];
    if (queue.busy || queue.empty()) continue;
    const std::int64_t issued_ns = queue.items[queue.head].issued_ns;
    if (issued_ns > now_ns_) next = std::min(next, issued_ns);
  }
  return next;
}

void NaiveDevice::advance_to(std::int64_t next_ns) {
  const double elapsed_ns = static_cast<double>(next_ns - now_ns_);
  ended_.clear();
  for (Running& running : running_) {
    if (end_ns(running) <= next_ns)
      ended_.push_back(running);
    else
      running.left_ns -= elapsed_ns / sharing_.slowdown(running.item.share);
  }
  now_ns_ = next_ns;
  for (const Running& running : ended_) end(running);
}

void NaiveDevice::end(const Running& running) {
  std::erase_if(running_, [&](const Running& other) { return other.stream == running.stream; });
  sharing_.end(running.item.share, use_of(running.item));
  ends_[running.item.subject] = {now_ns_};
  last_end_ns_ = now_ns_;
  if (running.item.share == Share::collective) ++collectives_ended_[running.item.channel];
  Queue& queue = queues_[running.stream];
  ++queue.head;
  queue.busy = false;
}

/// Lets happen what happens up to the limit.
void NaiveDevice::run_until(std::int64_t limit_ns) {
  while (true) {
    if (!settled_) {
      while (pass_heads()) {
      }
      settled_ = true;
      next_event_ns_ = next_event();
    }
    if (next_event_ns_ > limit_ns) return;
    advance_to(next_event_ns_);
    settled_ = false;
  }
}

void NaiveDevice::run_until_done(DeviceEvent event) {
  while (event_ns_[event.value] == never_ns) {
    run_until(now_ns_);
    if (event_ns_[event.value] != never_ns) return;
    if (next_event_ns_ == never_ns)
      throw Error({.where = "simulation",
                   .what = fmt::format("event {} is waited for and never recorded", event.value)});
    run_until(next_event_ns_);
  }
}

}  // namespace shardscope::testing
