#include "backend/executor/executor.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "backend/executor/probe_scopes.h"
#include "backend/executor/resident_memory.h"
#include "core/base/error.h"
#include "core/schedule/host_layout.h"

namespace shardscope {
namespace {

std::vector<OperationId> operations_of(const Schedule& schedule, bool init) {
  std::vector<OperationId> ids;
  for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
    if ((schedule.operations[i].phase == Phase::init) == init) ids.push_back(OperationId::of(i));
  }
  return ids;
}

bool runs_kernel(OperationKind kind) {
  return kind == OperationKind::compute || kind == OperationKind::optimizer;
}

/// Places on the timeline: where the step began, and of each operation its start and end.
constexpr std::size_t step_begin = 0;
std::size_t start_of(OperationId id) { return 1 + 2 * std::size_t{id.value}; }
std::size_t end_of(OperationId id) { return 2 + 2 * std::size_t{id.value}; }

/// Ranks allocate the same size; stages of a pipeline want different ones, and leave the rest of it
/// untouched.
Bytes largest_arena(Bytes own, const Schedule& schedule, Communicator& world) {
  if (schedule.strategy.mesh.pipeline == 1) return own;
  std::vector<std::int64_t> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&own.count, 1)), std::as_writable_bytes(std::span(all)));
  return {*std::ranges::max_element(all)};
}

std::size_t count_collectives(const Schedule& schedule) {
  return static_cast<std::size_t>(std::ranges::count_if(
      schedule.operations, [](const Operation& op) { return is_collective(op.kind); }));
}

}  // namespace

Executor::Executor(const Schedule& schedule, Device& device, Communicator& world,
                   const ExecutorOptions& options)
    : schedule_(schedule),
      device_(device),
      options_(options),
      groups_(schedule, world),
      layout_(arena_layout(schedule, options.check ? canary_bytes : Bytes{})),
      host_layout_(host_layout(schedule)),
      init_(make_pass(true)),
      step_(make_pass(false)),
      expected_(options.check ? shardscope::live_bytes(schedule) : std::vector<CategoryBytes>()),
      live_(schedule.operations.size()),
      recorder_(schedule.operations.size(), options.recorded_steps),
      world_(world),
      tickets_(schedule.operations.size()) {
  if (device.memory().is_host()) queue_.emplace(count_collectives(schedule) + 1);
  note(memory_marks_, "communicator's groups", device.memory());
  prepare_kernels();
  note(memory_marks_, "kernels and their libraries", device.memory());
  take_arena(world);
  note(memory_marks_, "arena", device.memory());
  if (options.recorded_steps > 0 && !device.memory().is_host())
    timeline_ = device.timeline(1 + 2 * schedule.operations.size());
  device.streams().make_events(std::max(init_.order.event_count(), step_.order.event_count()));
}

Executor::Pass Executor::make_pass(bool init) const {
  std::vector<OperationId> operations = operations_of(schedule_, init);
  LiveBytesCounter counter(schedule_, operations);
  StreamOrder order(schedule_, operations);
  return {std::move(operations), std::move(counter), std::move(order)};
}

void Executor::prepare_kernels() {
  for (const Kernel& kernel : schedule_.kernels) device_.prepare(kernel);
}

void Executor::take_arena(Communicator& world) {
  if (options_.check && !device_.memory().is_host()) {
    throw Error(
        {.where = "check",
         .what = "the checking mode looks into the arena, and this device has its own memory",
         .way_out = "check on --device cpu: the schedule is the same"});
  }
  facts_ = {.arena = layout_.size,
            .pss_before = proportional_set_size(),
            .pss_after = {},
            .outside = heap_in_use()};
  arena_ = world.allocate_arena(largest_arena(layout_.size, schedule_, world));
  if (host_layout_.size.count > 0)
    host_arena_ = device_.memory().allocate_host(host_layout_.size, options_.offload_folder);
  bound_.emplace(schedule_, groups_, [this](BufferId buffer) { return address_of(buffer); });
  if (options_.check) {
    guard_.emplace(schedule_, layout_, std::span(arena_->data(), layout_.size.count));
  }
}

std::byte* Executor::address_of(BufferId buffer) const {
  if (schedule_.at(buffer).on_host)
    return host_arena_->data() + host_layout_.offset[buffer.value].count;
  return arena_->data() + layout_.offset[buffer.value].count;
}

std::span<std::byte> Executor::bytes(BufferId buffer) const {
  return {address_of(buffer), static_cast<std::size_t>(schedule_.at(buffer).bytes.count)};
}

std::optional<BufferId> Executor::find(std::string_view name) const {
  for (std::size_t b = 0; b < schedule_.buffers.size(); ++b) {
    const Buffer& buffer = schedule_.buffers[b];
    if (!buffer.allocated_by && schedule_.name(buffer) == name) return BufferId::of(b);
  }
  return std::nullopt;
}

BufferId Executor::required(std::string_view name) const {
  const std::optional<BufferId> found = find(name);
  if (!found) broken(fmt::format("the schedule has no persistent buffer \"{}\"", name));
  return *found;
}

void Executor::run_init() { run(init_, {}); }

void Executor::run_step(const StepState& state, bool timed) {
  recorder_.begin(state.step, timed);
  timing_ = timed && timeline_;
  device_.begin_step(state);
  launch_step(state, timed);
  if (timing_) read_timeline();
  if (options_.check) check_step(state.step);
}

void Executor::launch_step(const StepState& state, bool timed) {
  const StepScope told(probes_, state.step);
  if (!timed && options_.use_graph && !graph_ && device_.streams().has_graphs())
    capture_step(state);
  if (!timed && graph_)
    graph_->launch();
  else
    walk_step(state);
  wait_for_device();
  recorder_.end();
}

/// The communicator first: it knows of a peer for which the device would wait for ever.
void Executor::wait_for_device() {
  world_.wait();
  device_.memory().wait();
}

void Executor::walk_step(const StepState& state) {
  mark(step_begin);
  run(step_, state);
}

/// Where it cannot be had, steps are walked as before.
void Executor::capture_step(const StepState& state) {
  std::string refused;
  device_.streams().begin_capture();
  for (Probe* probe : probes_) probe->begin_capture();
  try {
    walk_step(state);
  } catch (const Error& error) {
    // A call that may not be captured; an error of another kind comes again without a capture.
    refused = error.what();
  }
  device_.streams().select(Stream::compute);
  for (Probe* probe : probes_) probe->end_capture();
  Capture capture = device_.streams().end_capture();
  if (refused.empty()) graph_ = std::move(capture.graph);
  why_no_graph_ = refused.empty() ? std::move(capture.why_not) : std::move(refused);
  if (graph_) return;
  options_.use_graph = false;
  fmt::print(stderr, "rank {}: steps are not replayed as a graph ({})\n", schedule_.rank,
             why_no_graph_);
}

void Executor::run(Pass& pass, const StepState& state) {
  if (!options_.check) return walk(pass, state);
  const CountAllocations counting(compute_allocations_);
  walk(pass, state);
}

void Executor::walk(Pass& pass, const StepState& state) {
  pass.counter.restart();
  if (device_.memory().is_host()) {
    for (const OperationId id : pass.operations) issue(pass, id, state);
    return;
  }
  device_.streams().record(StreamOrder::begin);
  for (const OperationId id : pass.operations) issue_queued(pass, id, state);
  device_.streams().select(Stream::compute);
  wait_on_selected(pass.order.waits_at_end());
}

/// What the device does for itself in order of its streams, collectives too: nothing waits here.
void Executor::issue_queued(Pass& pass, OperationId id, const StepState& state) {
  recorder_.at(id).issued_ns = monotonic_ns();
  note_issued(pass, id);
  const Operation& operation = schedule_.at(id);
  device_.streams().select(queue_of(operation));
  wait_on_selected(pass.order.waits_of(id));
  if (is_collective(operation.kind)) {
    announce(id);
    run_collective(id);
  } else {
    run_local(id, state);
    note_ended(pass, id);
  }
  if (const auto event = pass.order.mark_of(id)) device_.streams().record(*event);
}

void Executor::wait_on_selected(std::span<const std::uint32_t> events) {
  for (const std::uint32_t event : events) device_.streams().wait_for(event);
}

void Executor::issue(Pass& pass, OperationId id, const StepState& state) {
  recorder_.at(id).issued_ns = monotonic_ns();
  note_issued(pass, id);
  if (is_collective(schedule_.at(id).kind)) {
    launch_collective(id);
    return;
  }
  wait_for_dependencies(id);
  run_local(id, state);
  note_ended(pass, id);
}

/// What it depends on has ended or is queued before it: kernels have ended when the next operation
/// is issued, and there is one communication thread, which takes collectives in this order.
void Executor::launch_collective(OperationId id) {
  announce(id);
  tickets_[id.value] = queue_->submit([this, id] { run_collective(id); });
}

void Executor::announce(OperationId id) const {
  const Operation& operation = schedule_.at(id);
  std::string_view unit;
  if (operation.unit) unit = schedule_.units[operation.unit.value].name;
  if (operation.unit && unit.empty()) unit = "root";
  bound_->collective(id).communicator->announce(
      {.operation = name_of(operation.kind),
       .unit = unit,
       .bytes = operation.bytes,
       .dtype = schedule_.collectives[operation.detail].dtype});
}

void Executor::run_collective(OperationId id) {
  const OperationScope told(probes_, id);
  begin_operation(id);
  if (options_.check) {
    const CountAllocations counting(communication_allocations_);
    const LibraryCall library;
    bound_->collective(id).run();
  } else {
    bound_->collective(id).run();
  }
  end_operation(id);
}

void Executor::wait_for_dependencies(OperationId id) {
  for (const OperationId other : schedule_.after_of(schedule_.at(id))) {
    if (is_collective(schedule_.at(other).kind)) queue_->wait(tickets_[other.value]);
  }
}

void Executor::run_local(OperationId id, const StepState& state) {
  const Operation& operation = schedule_.at(id);
  const OperationScope told(probes_, id);
  begin_operation(id);
  if (operation.kind == OperationKind::copy) copy(id);
  if (runs_kernel(operation.kind)) {
    const LibraryCall library;
    const Kernel& kernel = schedule_.kernels[operation.detail];
    const KernelCall call{
        .operands = bound_->operands(id), .slices = schedule_.slices_of(operation), .state = state};
    if (operation.stream == Stream::host)
      device_.run_on_host(kernel, call);
    else
      device_.run(kernel, call);
  }
  end_operation(id);
}

void Executor::copy(OperationId id) {
  const auto operands = bound_->operands(id);
  device_.memory().copy(static_cast<std::byte*>(operands[1]),
                        {static_cast<const std::byte*>(operands[0]),
                         static_cast<std::size_t>(schedule_.at(id).bytes.count)});
}

void Executor::begin_operation(OperationId id) {
  recorder_.at(id).start_ns = monotonic_ns();
  mark(start_of(id));
}

void Executor::end_operation(OperationId id) {
  mark(end_of(id));
  recorder_.at(id).end_ns = monotonic_ns();
}

void Executor::mark(std::size_t place) {
  if (timing_) timeline_->mark(place);
}

/// The host's times of issuing become the device's of running, counted from the step's begin.
void Executor::read_timeline() {
  const auto at = [&](std::size_t place) {
    return recorder_.begin_ns() + timeline_->between(step_begin, place).ns;
  };
  for (const OperationId id : step_.operations) {
    recorder_.at(id).start_ns = at(start_of(id));
    recorder_.at(id).end_ns = at(end_of(id));
  }
}

void Executor::note_issued(Pass& pass, OperationId id) {
  const std::span<const BufferId> fresh = pass.counter.issued(id);
  live_[id.value] = pass.counter.live();
  if (!options_.check) return;
  for (const BufferId buffer : fresh) guard_->became_live(buffer);
  if (live_[id.value] == expected_[id.value]) return;
  broken(fmt::format("{} bytes are live at operation {} ({}), but the schedule says {}",
                     live_[id.value].total().count, id.value, schedule_.name(schedule_.at(id)),
                     expected_[id.value].total().count));
}

/// By the end of what another stream does memory is free only where compute waits for it.
void Executor::note_ended(Pass& pass, OperationId id) {
  if (schedule_.at(id).stream != Stream::compute) return;
  for (const BufferId buffer : pass.counter.ended(id)) {
    if (!guard_ || guard_->became_dead(buffer)) continue;
    broken(fmt::format(
        "something was written behind buffer {} ({}), found at the end of operation {} ({})",
        buffer.value, schedule_.name(schedule_.at(buffer)), id.value,
        schedule_.name(schedule_.at(id))));
  }
}

void Executor::check_step(std::int64_t step) const {
  if (const auto damaged = guard_->damaged_persistent()) {
    broken(fmt::format("something was written behind buffer {} ({}) in step {}", damaged->value,
                       schedule_.at(*damaged).name, step));
  }
  const AllocationCounts counts = allocations();
  if (counts.ours == 0) return;
  broken(fmt::format("{} allocations of {} bytes in all were made inside step {}, the first by {}",
                     counts.ours, counts.ours_bytes, step,
                     describe_code_address(counts.first_caller)));
}

void Executor::broken(std::string_view what) const {
  fmt::print(stderr, "shardscope: rank {}: broken invariant: {}\n", schedule_.rank, what);
  std::fflush(stderr);
  std::abort();
}

void Executor::between_steps(const std::function<void()>& call) {
  if (queue_) return queue_->wait(queue_->submit([&call] { call(); }));
  call();
  wait_for_device();
}

AllocationCounts Executor::allocations() const {
  AllocationCounts sum = compute_allocations_;
  sum += communication_allocations_;
  return sum;
}

MemoryFacts Executor::memory() const {
  MemoryFacts facts = facts_;
  give_back_free_heap();
  facts.pss_after = proportional_set_size();
  facts.outside = std::max(heap_in_use() - facts_.outside, Bytes{});
  return facts;
}

}  // namespace shardscope
