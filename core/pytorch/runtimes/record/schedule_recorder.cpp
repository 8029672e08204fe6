#include "core/pytorch/runtimes/record/schedule_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/pytorch/engine/session.h"
#include "core/pytorch/runtimes/record/repeated_step.h"

namespace shardscope::eager {
namespace {

constexpr int no_lane = -1;

/// cudaMemcpyAsync instead of a kernel: between devices, or of memory that lies alike.
bool is_copy(const OperatorCall& call) {
  if (call.op.kind != OperatorKind::copy || call.inputs.empty() || call.outputs.empty())
    return false;
  const TensorImpl& from = *call.inputs.back();
  const TensorImpl& to = *call.outputs.front();
  if (from.storage->device() != to.storage->device()) return true;
  return from.layout.dtype == to.layout.dtype && from.layout.sizes == to.layout.sizes &&
         from.layout.strides == to.layout.strides;
}

bool is_collective_operator(std::string_view name) {
  return name.starts_with("c10d.") || name.starts_with("_c10d_functional.");
}

bool issues_nothing(const Operator& op) {
  return op.kind == OperatorKind::view || op.kind == OperatorKind::allocation ||
         op.kind == OperatorKind::host || is_collective_operator(op.name);
}

Stream word_for(OperationKind kind) {
  const bool gathers = kind == OperationKind::all_gather || kind == OperationKind::broadcast;
  return gathers ? Stream::unshard : Stream::reduce;
}

/// The unit with the longest name that the module's begins with.
UnitId unit_around(const Schedule& schedule, std::string_view module) {
  UnitId best;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < schedule.units.size(); ++i) {
    const std::string_view name = schedule.units[i].name;
    const bool inside =
        name.empty() || module == name || (module.starts_with(name) && module[name.size()] == '.');
    if (!inside || (best && name.size() < longest)) continue;
    best = UnitId::of(i);
    longest = name.size();
  }
  return best;
}

}  // namespace

ScheduleRecorder::ScheduleRecorder(KernelDevice device, Device place)
    : writer_(schedule_), device_(device), place_(place), shapes_(schedule_.shapes) {
  schedule_.memory = MemorySource::caching_allocator;
  writer_.add_lane({.name = "compute", .stream = Stream::compute});
  lanes_.push_back(0);
  allocating_ = intern("storage");
}

// Names and tables.

std::uint32_t ScheduleRecorder::intern(std::string_view name) {
  const auto [found, fresh] =
      names_.try_emplace(std::string(name), static_cast<std::uint32_t>(schedule_.names.size()));
  if (fresh) schedule_.names.emplace_back(name);
  return found->second;
}

std::uint32_t ScheduleRecorder::intern(const Collective& collective) {
  auto& all = schedule_.collectives;
  const auto found = std::find(all.begin(), all.end(), collective);
  if (found != all.end()) return static_cast<std::uint32_t>(found - all.begin());
  all.push_back(collective);
  return static_cast<std::uint32_t>(all.size() - 1);
}

std::uint32_t ScheduleRecorder::intern(const DeviceWork& work) {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio
  const std::uint64_t mixed = (static_cast<std::uint64_t>(work.bytes.count) +
                               3 * static_cast<std::uint64_t>(work.flops.count)) *
                              odd;
  std::uint32_t& near = near_works_[mixed >> 56];
  if (near < schedule_.works.size() && schedule_.works[near] == work) return near;
  const auto [found, fresh] =
      device_works_.try_emplace(work, static_cast<std::uint32_t>(schedule_.works.size()));
  if (fresh) schedule_.works.push_back(work);
  return near = found->second;
}

const ScheduleRecorder::Known& ScheduleRecorder::known(const Operator& op) {
  Near& near = near_[reinterpret_cast<std::uintptr_t>(&op) / sizeof(Operator) % near_.size()];
  if (near.op == &op) return *near.known;
  const auto [found, fresh] = operators_.try_emplace(&op);
  if (fresh)
    found->second = {intern(op.name), place_ == Device::cuda ? scratch_rule_of(op.name) : nullptr,
                     !issues_nothing(op), trait_of(op)};
  near = {.op = &op, .known = &found->second};
  return found->second;
}

void ScheduleRecorder::name_group(const ProcessGroup& group, std::string name) {
  const auto id = static_cast<std::size_t>(group.id);
  if (schedule_.groups.size() <= id) schedule_.groups.resize(id + 1);
  schedule_.groups[id] = {.name = std::move(name), .ranks = group.ranks};
}

Buffer* ScheduleRecorder::buffer_under(const Tensor& tensor) {
  if (!tensor.defined() || !on_device(tensor.impl())) return nullptr;
  catch_up();
  const BufferId id = buffer_of(tensor.storage()->id());
  return id ? &schedule_.buffers[id.value] : nullptr;
}

void ScheduleRecorder::set_category(const Tensor& tensor, MemoryCategory category) {
  if (Buffer* buffer = buffer_under(tensor)) buffer->category = category;
}

void ScheduleRecorder::name_buffer(const Tensor& tensor, MemoryCategory category,
                                   std::string_view name) {
  Buffer* buffer = buffer_under(tensor);
  if (buffer == nullptr) return;
  buffer->category = category;
  buffer->name = intern(name);
}

void ScheduleRecorder::name_model(Module& root) {
  for (const auto& [name, buffer] : named_buffers_of(root))
    name_buffer(buffer, MemoryCategory::inputs, name);
  for (const NamedParameter& parameter : named_parameters_of(root))
    name_buffer(parameter.tensor(), MemoryCategory::parameters, parameter.name);
}

UnitId ScheduleRecorder::unit_of(const std::string* name) {
  if (name == nullptr) return {};
  const auto [found, fresh] = units_.try_emplace(name);
  if (!fresh) return found->second;
  auto& all = schedule_.units;
  const auto known =
      std::find_if(all.begin(), all.end(), [&](const Unit& unit) { return unit.name == *name; });
  found->second = UnitId::of(static_cast<std::size_t>(known - all.begin()));
  if (known == all.end()) all.push_back({.name = *name});
  return found->second;
}

ScheduleRecorder::Owner ScheduleRecorder::owner_of(const Session& s) {
  const Module* inner = s.current_module();
  const Module* module = inner != nullptr ? inner : module_;
  if (module == last_.module && s.unit == last_.unit) return last_.owner;
  last_ = {.module = module, .unit = s.unit, .owner = {.module = {}, .unit = unit_of(s.unit)}};
  if (module == nullptr) return last_.owner;
  const auto [found, fresh] = owners_.try_emplace(module, OwnerId::of(schedule_.owners.size()));
  if (fresh) schedule_.owners.push_back(module->name);
  last_.owner.module = found->second;
  return last_.owner;
}

/// Work in a module that no runtime claims belongs to the module's unit.
void ScheduleRecorder::fill_units() {
  std::vector<UnitId> of_owner;
  for (const std::string& module : schedule_.owners)
    of_owner.push_back(unit_around(schedule_, module));
  for (Operation& op : schedule_.operations)
    if (!op.unit && op.owner) op.unit = of_owner[op.owner.value];
  for (Buffer& buffer : schedule_.buffers)
    if (!buffer.unit && buffer.owner) buffer.unit = of_owner[buffer.owner.value];
}

// Lanes.

ScheduleRecorder::LaneIndex ScheduleRecorder::lane_of(const Session& s, StreamId stream) {
  if (lanes_.size() <= stream.value) lanes_.resize(stream.value + std::size_t{1}, no_lane);
  int& lane = lanes_[stream.value];
  if (lane == no_lane) {
    const StreamUse& use = s.use_of(stream);
    lane = writer_.add_lane({.name = std::string(use.name),
                             .stream = use.stream,
                             .pool_place = static_cast<std::int32_t>(stream.value) - 1});
  }
  return static_cast<LaneIndex>(lane);
}

/// Where ProcessGroupNCCL runs what is not waited for: a stream of its own, one a communicator.
ScheduleRecorder::LaneIndex ScheduleRecorder::nccl_lane(GroupId group, OperationKind kind) {
  if (nccl_lanes_.size() <= group.value) nccl_lanes_.resize(group.value + std::size_t{1}, no_lane);
  int& lane = nccl_lanes_[group.value];
  if (lane == no_lane)
    lane =
        writer_.add_lane({.name = fmt::format("nccl {}", group.value), .stream = word_for(kind)});
  return static_cast<LaneIndex>(lane);
}

// Steps and phases.

void ScheduleRecorder::begin_step(std::string label) {
  end_step();
  if (schedule_.steps.size() == 1) writer_.expect_more(2);
  schedule_.steps.push_back({.label = std::move(label),
                             .operations = {writer_.next_operation(), writer_.next_operation()},
                             .actions = {writer_.next_action(), writer_.next_action()}});
  step_open_ = true;
}

void ScheduleRecorder::end_step() {
  catch_up();
  if (!std::exchange(step_open_, false)) return;
  schedule_.steps.back().operations.end = writer_.next_operation();
  schedule_.steps.back().actions.end = writer_.next_action();
}

bool ScheduleRecorder::repeat_step(std::string label) {
  end_step();
  return repeat_last_step(schedule_, writer_, std::move(label));
}

void ScheduleRecorder::begin_phase(Phase phase, int micro_batch) {
  catch_up();
  phase_ = phase;
  micro_batch_ = static_cast<std::int16_t>(micro_batch);
}

void ScheduleRecorder::note_gradients(const Tensors& parameters) {
  for (const Tensor& parameter : parameters)
    set_category(parameter.grad(), MemoryCategory::gradients);
}

Schedule ScheduleRecorder::finish() {
  end_step();
  fill_units();
  live_.clear();  // what is let go of from here on is in no schedule
  return std::move(schedule_);
}

void ScheduleRecorder::grown() {
  if (listener_ != nullptr) listener_->on_program(schedule_);
}

// Buffers.

BufferId& ScheduleRecorder::buffer_of(std::uint64_t storage) {
  if (storage >= live_.size()) live_.resize(storage + 1 + storage / 2);
  return live_[storage];
}

/// By default: what a forward makes outside of no_grad is kept or passed on.
MemoryCategory ScheduleRecorder::category_now(const Session& s) const {
  const bool computes = phase_ == Phase::forward || phase_ == Phase::backward;
  return computes && s.grad_enabled ? MemoryCategory::activations : MemoryCategory::temporaries;
}

BufferId ScheduleRecorder::add_buffer(Buffer buffer) {
  const BufferId id = BufferId::of(schedule_.buffers.size());
  if (phase_ != Phase::init) buffer.allocated_by = OperationId{writer_.next_operation()};
  schedule_.buffers.push_back(buffer);
  writer_.add(HostActionKind::allocate, buffer.lane, id.value);
  return id;
}

void ScheduleRecorder::free(BufferId id) {
  Buffer& buffer = schedule_.buffers[id.value];
  if (const std::uint32_t next = writer_.next_operation(); next > 0 && phase_ != Phase::init)
    buffer.freed_by = OperationId{next - 1};
  writer_.add(HostActionKind::free, buffer.lane, id.value);
}

std::optional<std::uint32_t> ScheduleRecorder::name_of_tag(const StorageTag& tag) {
  if (tag.category != MemoryCategory::parameters) return std::nullopt;
  return intern("gathered parameters");
}

void ScheduleRecorder::allocate(const Asked& asked) {
  buffer_of(asked.storage) = add_buffer({.name = asked.name.value_or(allocating_),
                                         .category = asked.category,
                                         .lane = asked.lane,
                                         .bytes = asked.bytes,
                                         .copies = asked.copies,
                                         .unit = asked.owner.unit,
                                         .owner = asked.owner.module});
}

void ScheduleRecorder::catch_up() {
  for (const Asked& asked : asked_) allocate(asked);
  asked_.clear();
}

void ScheduleRecorder::ask(Session& s, const StorageImpl& storage) {
  const MemoryCategory told = storage.tag.category;
  asked_.push_back({.storage = storage.id(),
                    .bytes = storage.bytes() * times_,
                    .copies = times_,
                    .lane = lane_of(s, storage.stream()),
                    .category = told == MemoryCategory::temporaries ? category_now(s) : told,
                    .name = name_of_tag(storage.tag),
                    .owner = owner_of(s)});
}

void ScheduleRecorder::on_storage_allocated(Session& s, StorageImpl& storage) {
  if (on_device(storage) && storage.bytes().count > 0) ask(s, storage);
}

void ScheduleRecorder::on_storage_resized(Session& s, StorageImpl& storage, Bytes before) {
  if (!on_device(storage)) return;
  catch_up();
  const BufferId old = std::exchange(buffer_of(storage.id()), {});
  if (storage.bytes().count > 0) {
    ask(s, storage);
    if (old) asked_.back().category = schedule_.at(old).category;
    catch_up();
  }
  if (before.count > 0 && old) let_go(storage, old);
  grown();
}

void ScheduleRecorder::on_storage_freed(Session&, StorageImpl& storage) {
  if (!on_device(storage)) return;
  catch_up();
  if (const BufferId id = std::exchange(buffer_of(storage.id()), {})) let_go(storage, id);
}

/// What has been said of the storage by now counts for all of its buffer's life.
void ScheduleRecorder::let_go(const StorageImpl& storage, BufferId id) {
  Buffer& buffer = schedule_.buffers[id.value];
  if (storage.tag.category != MemoryCategory::temporaries) buffer.category = storage.tag.category;
  buffer.name = name_of_tag(storage.tag).value_or(buffer.name);
  free(id);
}

/// Of the storages asked for, those that are the operator's outputs, or the others.
void ScheduleRecorder::allocate_outputs(const OperatorCall& call, bool outputs) {
  if (asked_.empty()) return;
  std::vector<decltype(Asked::storage)> ids;
  for (const auto* tensor : call.outputs) ids.push_back(tensor->storage->id());
  std::sort(ids.begin(), ids.end());
  const auto is_output = [&](const Asked& asked) {
    return std::binary_search(ids.begin(), ids.end(), asked.storage);
  };
  std::erase_if(asked_, [&](const Asked& asked) {
    const bool now = is_output(asked) == outputs;
    if (now) allocate(asked);
    return now;
  });
}

// Operators.

Operation ScheduleRecorder::operation_now(const Session& s, std::uint32_t name, LaneIndex lane) {
  const Owner owner = owner_of(s);
  return {.name = name,
          .stream = schedule_.program.lanes[lane].stream,
          .phase = phase_,
          .micro_batch = micro_batch_,
          .step = static_cast<std::int32_t>(schedule_.steps.size()) - (step_open_ ? 1 : 0),
          .unit = owner.unit,
          .owner = owner.module,
          .detail = Operation::no_kernel};
}

void ScheduleRecorder::add_operand(const TensorImpl& tensor, Access access, Bytes bytes) {
  if (!on_device(&tensor)) return;
  schedule_.operands.push_back(
      {.buffer = buffer_of(tensor.storage->id()),
       .offset = shardscope::bytes_of(tensor.layout.offset, tensor.layout.dtype),
       .bytes = bytes,
       .access = access});
}

/// Inputs in their order, then outputs. Of what is indexed no more is read than comes out.
IndexRange ScheduleRecorder::add_operands(const OperatorCall& call, const OperatorTrait& trait) {
  IndexRange range{.begin = static_cast<std::uint32_t>(schedule_.operands.size())};
  std::int64_t written = 0;
  for (const TensorImpl* tensor : call.outputs) written += bytes_touched(*tensor);
  const bool indexes = call.op.kind == OperatorKind::indexing;
  const std::size_t changed = changed_inputs(call, trait);
  std::size_t at = 0;
  for_each_input(call, [&](const TensorImpl& input, std::uint32_t times) {
    const std::int64_t all = bytes_touched(input) * times;
    add_operand(input, at++ < changed ? Access::read_write : Access::read,
                {indexes ? std::min(all, written) : all});
  });
  for (const TensorImpl* tensor : call.outputs)
    add_operand(*tensor, Access::write, {bytes_touched(*tensor)});
  range.end = static_cast<std::uint32_t>(schedule_.operands.size());
  return range;
}

void ScheduleRecorder::launch(const Session& s, const OperatorCall& call,
                              const OperatorTrait& trait, LaneIndex lane) {
  if (times_ > 1)
    throw Error({.where = std::string(call.op.name), .what = "a kernel cannot be repeated"});
  Operation operation = operation_now(s, allocating_, lane);
  operation.kind = is_copy(call)                ? OperationKind::copy
                   : phase_ == Phase::optimizer ? OperationKind::optimizer
                                                : OperationKind::compute;
  const DeviceWork work = work_of(call, trait);
  operation.work = intern(work);
  if (notes_shapes_) operation.shapes = shapes_.index_of(call);
  operation.operands = add_operands(call, trait);
  operation.bytes = work.bytes;
  // torch's flop_counter has no formula for grouped products.
  operation.flops = call.flops == OperatorCall::flops_unknown ? work.flops : Flops{call.flops};
  operation.recomputed = s.recomputing;
  if (!call.outputs.empty()) operation.dtype = call.outputs.front()->layout.dtype;
  writer_.launch(lane, operation);
}

bool ScheduleRecorder::takes_host_time(const OperatorCall& call, const OperatorTrait& trait) const {
  return step_open_ && times_ == 1 && work_of(call, trait).bytes >= least_host_work;
}

/// An operator on tensors of the host is done when it returns.
void ScheduleRecorder::compute_on_host(const Session& s, const DeviceWork& work) {
  if (!host_lane_) host_lane_ = writer_.add_lane({.name = "host work", .stream = Stream::host});
  Operation operation = operation_now(s, allocating_, *host_lane_);
  operation.kind = OperationKind::host;
  operation.stream = Stream::host;
  operation.work = intern(work);
  operation.bytes = work.bytes;
  operation.flops = work.flops;
  writer_.run(*host_lane_, operation);
}

/// The operator's own requests in their order, its kernel, and what it gives back after it.
void ScheduleRecorder::play(const Session& s, const OperatorCall& call, const OperatorTrait& trait,
                            LaneIndex lane) {
  using Kind = ScratchPlan::Kind;
  allocate_outputs(call, false);
  pieces_.clear();
  const auto steps = plan_.steps();
  std::size_t launched_at = steps.size();
  while (launched_at > 0 && steps[launched_at - 1].kind == Kind::give_back) --launched_at;
  for (std::size_t i = 0; i <= steps.size(); ++i) {
    if (i == launched_at) {
      catch_up();
      launch(s, call, trait, lane);
    }
    if (i == steps.size()) break;
    if (steps[i].kind == Kind::outputs) {
      allocate_outputs(call, true);
    } else if (steps[i].kind == Kind::give_back) {
      free(pieces_[static_cast<std::size_t>(steps[i].value)]);
    } else {
      const Owner owner = owner_of(s);
      pieces_.push_back(add_buffer({.name = allocating_,
                                    .category = MemoryCategory::workspace,
                                    .lane = lane,
                                    .bytes = {steps[i].value},
                                    .unit = owner.unit,
                                    .owner = owner.module}));
    }
  }
}

void ScheduleRecorder::on_operator(Session& s, const OperatorCall& call) {
  const Known& op = known(call.op);
  allocating_ = op.name;
  const LaneIndex lane = lane_of(s, s.stream);
  const auto is_here = [this](const auto* tensor) { return on_device(tensor); };
  // What runs on meta tensors takes nothing of the device.
  const bool here =
      std::ranges::any_of(call.outputs, is_here) || std::ranges::any_of(call.inputs, is_here);
  const bool issues = op.issues && here;
  const bool takes_scratch = op.scratch != nullptr && here;
  if (takes_scratch) {
    plan_.clear();
    op.scratch(call, device_, plan_);
    plan_.finish();
  }
  if (!takes_scratch || plan_.empty()) {
    catch_up();
    if (issues)
      launch(s, call, op.trait, lane);
    else if (!op.issues || !takes_host_time(call, op.trait))
      writer_.add(HostActionKind::dispatch, lane, op.name);
    else
      compute_on_host(s, work_of(call, op.trait));
  } else {
    play(s, call, op.trait, lane);
  }
  grown();
}

void ScheduleRecorder::on_node_begin(Session&, Node& node) { module_ = node.module(); }

void ScheduleRecorder::on_node_end(Session&, Node&) { module_ = nullptr; }

// Communication, streams and events.

void ScheduleRecorder::become_communication(const TensorImpl& tensor) {
  if (!on_device(&tensor)) return;
  const BufferId id = buffer_of(tensor.storage->id());
  if (!id) return;
  MemoryCategory& category = schedule_.buffers[id.value].category;
  if (category == MemoryCategory::activations || category == MemoryCategory::temporaries)
    category = MemoryCategory::communication;
}

namespace {

bool is_transfer(OperationKind kind) {
  return kind == OperationKind::send || kind == OperationKind::receive;
}

}  // namespace

/// Transfers with nothing between them are one ncclGroup (torch.distributed.batch_isend_irecv).
bool ScheduleRecorder::joins_last_transfer(OperationKind kind, LaneIndex lane) const {
  const std::vector<HostAction>& actions = schedule_.program.actions;
  if (!is_transfer(kind) || actions.size() < 2) return false;
  const HostAction& event = actions.back();
  const HostAction& before = actions[actions.size() - 2];
  return event.kind == HostActionKind::record_event && event.lane == lane &&
         before.kind == HostActionKind::launch && before.lane == lane &&
         is_transfer(schedule_.operations[before.subject].kind);
}

int ScheduleRecorder::peer_of(const CollectiveCall& call) const {
  if (!is_transfer(call.kind) || call.root < 0 || call.group.value >= schedule_.groups.size())
    return -1;
  const Ranks& ranks = schedule_.groups[call.group.value].ranks;
  const auto place = static_cast<std::size_t>(call.root);
  return place < ranks.size() ? ranks[place] : -1;
}

void ScheduleRecorder::on_collective(Session& s, const CollectiveCall& call) {
  catch_up();
  const LaneIndex current = lane_of(s, call.stream);
  const LaneIndex lane = call.asynchronous ? nccl_lane(call.group, call.kind) : current;
  const bool joins = call.asynchronous && joins_last_transfer(call.kind, lane);
  if (lane != current && !joins) writer_.wait_event(lane, writer_.record_event(current));
  for (const TensorImpl* tensor : call.inputs) become_communication(*tensor);
  for (const TensorImpl* tensor : call.outputs) become_communication(*tensor);
  Operation operation = operation_now(s, intern(call.name), lane);
  operation.kind = call.kind;
  operation.dtype = call.dtype;
  operation.detail = intern(Collective{.group = call.group,
                                       .elements_in = call.elements_in,
                                       .elements_out = call.elements_out,
                                       .dtype = call.dtype,
                                       .peer = peer_of(call)});
  operation.bytes = shardscope::bytes_of(std::max(call.elements_in, call.elements_out), call.dtype);
  operation.operands.begin = static_cast<std::uint32_t>(schedule_.operands.size());
  for (const TensorImpl* tensor : call.inputs)
    add_operand(*tensor, Access::read, {bytes_touched(*tensor)});
  for (const TensorImpl* tensor : call.outputs)
    add_operand(*tensor, Access::write, {bytes_touched(*tensor)});
  operation.operands.end = static_cast<std::uint32_t>(schedule_.operands.size());
  if (joins)
    writer_.launch_before_event(lane, operation);
  else
    writer_.launch(lane, operation);
  if (!call.work) return;
  works_.resize(call.work.value + std::size_t{1});
  works_[call.work.value] =
      joins ? schedule_.program.actions.back().subject : writer_.record_event(lane);
}

void ScheduleRecorder::on_work_wait(Session& s, WorkId work, StreamId waiting) {
  catch_up();
  writer_.wait_event(lane_of(s, waiting), works_[work.value]);
}

void ScheduleRecorder::on_record_stream(Session& s, StorageImpl& storage, StreamId stream) {
  catch_up();
  if (const BufferId id = buffer_of(storage.id()))
    writer_.add(HostActionKind::record_stream, lane_of(s, stream), id.value);
}

void ScheduleRecorder::on_event_record(Session& s, EventId event, StreamId stream) {
  catch_up();
  if (event.value >= events_.size()) events_.resize(event.value + std::size_t{1});
  events_[event.value] = writer_.record_event(lane_of(s, stream));
}

void ScheduleRecorder::on_event_wait(Session& s, EventId event, StreamId waiting) {
  catch_up();
  writer_.wait_event(lane_of(s, waiting), events_[event.value]);
}

void ScheduleRecorder::on_stream_wait(Session& s, StreamId waiting, StreamId of) {
  catch_up();
  writer_.wait_event(lane_of(s, waiting), writer_.record_event(lane_of(s, of)));
}

void ScheduleRecorder::on_host_wait(Session&, EventId event) {
  catch_up();
  writer_.add(HostActionKind::host_wait, 0, events_[event.value]);
}

void ScheduleRecorder::on_host_sync(Session& s) {
  catch_up();
  writer_.add(HostActionKind::host_sync, lane_of(s, s.stream), 0);
}

void ScheduleRecorder::on_cache_emptied(Session&) {
  catch_up();
  writer_.add(HostActionKind::empty_cache, 0, 0);
}

void ScheduleRecorder::on_repeat_begin(Session&, std::uint32_t times) {
  catch_up();
  writer_.begin_repeat(times);
  times_ = times;
}

void ScheduleRecorder::on_repeat_end(Session&) {
  catch_up();
  writer_.end_repeat();
  times_ = 1;
}

void ScheduleRecorder::on_module_hook(Session&, std::string_view name) {
  catch_up();
  writer_.add(HostActionKind::hook, 0, intern(name));
}

void ScheduleRecorder::on_mark(Session&, const Mark& mark) {
  catch_up();
  schedule_.program.marks.push_back(
      {intern(mark.what), intern(mark.subject), static_cast<std::int32_t>(mark.number)});
  writer_.add(HostActionKind::mark, 0,
              static_cast<std::uint32_t>(schedule_.program.marks.size() - 1));
}

}  // namespace shardscope::eager
