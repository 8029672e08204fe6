#include "core/recording/recorded_work.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/pytorch/runtimes/record/operator_work.h"
#include "core/recording/recorded_blocks.h"
#include "core/recording/recorded_operator.h"

namespace shardscope {
namespace {

/// As torch's flop counter has them: of attention every pair of tokens, masked or not.
Flops model_flops_of(const DeviceWork& work) {
  const bool is_backward = work.kind == WorkKind::attention_backward;
  if (!is_backward && work.kind != WorkKind::attention_forward) return work.flops;
  AttentionShape whole = work.attention;
  whole.causal = false;
  return attention_flops(whole, is_backward);
}

void set_work(Operation& operation, std::uint32_t index, const DeviceWork& work) {
  operation.work = index;
  operation.bytes = work.bytes;
  operation.flops = model_flops_of(work);
  operation.dtype = work.dtype;
}

std::vector<int> ranks_in(std::string_view text) {
  std::vector<int> ranks;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    ranks.push_back(std::atoi(std::string(text.substr(begin, end - begin)).c_str()));
    begin = end + 1;
  }
  return ranks;
}

/// Every member gives a group this name, whatever number its process gives the communicator:
/// members create the groups that they share in one order. Example: "ranks 0,2", the second one of
/// these "ranks 0,2 (2)".
std::string name_by_ranks(const Ranks& ranks, const std::vector<Group>& before) {
  const auto alike = std::ranges::count(before, ranks, &Group::ranks);
  std::string name = fmt::format("ranks {}", fmt::join(ranks, ","));
  if (alike > 0) name += fmt::format(" ({})", alike + 1);
  return name;
}

/// The other rank of a transfer; -1: not told, or not known by its number in the job.
int peer_of(const LogLine& line, OperationKind kind, const Ranks& members) {
  constexpr std::size_t field = 6;
  if (kind != OperationKind::send && kind != OperationKind::receive) return -1;
  if (!line.has(field)) return -1;
  const std::int64_t place = line.integer(field, static_cast<std::int64_t>(members.size()) - 1);
  return place < 0 ? -1 : members[static_cast<std::size_t>(place)];
}

}  // namespace

std::uint32_t RecordedWork::work_of_call(const RunningCall& call, std::int64_t outputs,
                                         int launches) {
  const auto [known, fresh] =
      works_.try_emplace({call.name, call.inputs, outputs, launches, call.has_product}, 0);
  if (!fresh) return known->second;
  RecordedCall described =
      recorded_call(schedule_.names[call.name], log_.text(call.inputs), log_.text(outputs));
  described.has_product = call.has_product;
  return known->second = names_.work(launches == on_host ? host_work_of(described)
                                                         : work_of(described, launches));
}

/// A description is read once.
std::uint32_t RecordedWork::shapes_of(const RunningCall& call) {
  const auto [known, fresh] = shapes_.try_emplace(call.inputs, 0);
  if (fresh) known->second = names_.shapes(shapes_text(log_.text(call.inputs)));
  return known->second;
}

void RecordedWork::end(const LogLine& line) {
  RecordedThread& thread = threads_.of(line.thread);
  if (thread.running.empty()) return;
  const RunningCall call = std::move(thread.running.back());
  thread.running.pop_back();
  for (const LaunchedKernels& kernels : call.kernels) {
    const std::uint32_t work = work_of_call(call, line.integer(0), kernels.launches);
    set_work(schedule_.operations[kernels.operation], work, schedule_.works[work]);
  }
  if (call.has_inner || call.is_node || !call.kernels.empty() || schedule_.steps.empty()) return;
  if (takes_host_time(line, call)) return compute_on_host(line, call);
  writer_.add(HostActionKind::dispatch, 0, 0);
}

void RecordedWork::make_views(const LogLine& line) {
  RecordedThread& thread = threads_.of(line.thread);
  if (!thread.running.empty()) thread.running.back().has_inner = true;
  if (schedule_.steps.empty()) return;
  const std::int64_t count = line.integer(0, views_left_);
  views_left_ -= count;
  for (std::int64_t i = 0; i < count; ++i) writer_.add(HostActionKind::dispatch, 0, 0);
}

/// A view moves nothing. A thread that pins batches works beside the script.
bool RecordedWork::takes_host_time(const LogLine& end, const RunningCall& call) const {
  const auto has_host_tensor = [&](std::int64_t text) {
    return log_.text(text).find("cpu:") != std::string_view::npos;
  };
  const bool is_view = end.has(1);
  return !is_view && threads_.holds_up_script(end.thread) &&
         (has_host_tensor(call.inputs) || has_host_tensor(end.integer(0)));
}

/// An operator on tensors of the host is done when it returns.
void RecordedWork::compute_on_host(const LogLine& end, const RunningCall& call) {
  const std::uint32_t index = work_of_call(call, end.integer(0), on_host);
  const DeviceWork& work = schedule_.works[index];
  if (work.bytes < eager::least_host_work) return writer_.add(HostActionKind::dispatch, 0, 0);
  if (!host_lane_) host_lane_ = writer_.add_lane({.name = "host work", .stream = Stream::host});
  Operation operation = operation_of(threads_.of(end.thread), call.name, OperationKind::host);
  operation.shapes = shapes_of(call);
  set_work(operation, index, work);
  writer_.run(*host_lane_, operation);
}

OperationKind RecordedWork::compute_kind() const {
  return threads_.is_optimizing() ? OperationKind::optimizer : OperationKind::compute;
}

Operation RecordedWork::operation_of(RecordedThread& thread, std::uint32_t name,
                                     OperationKind kind) const {
  const Phase phase = threads_.phase_of(thread);
  const bool follows_in_graph = std::exchange(thread.has_issued_graph, thread.plays_graph);
  return {.name = name,
          .kind = kind,
          .phase = phase,
          .recomputed = !thread.modules.empty() && phase == Phase::backward,
          .issued_with_graph = follows_in_graph,
          .step = std::max<std::int32_t>(0, static_cast<std::int32_t>(schedule_.steps.size()) - 1),
          .owner = RecordedThreads::owner_of(thread),
          .detail = Operation::no_kernel};
}

std::uint32_t RecordedWork::put(LaneIndex lane, const Operation& operation) {
  return last_on_lane_[lane] = writer_.launch(lane, operation).value;
}

/// The innermost one, but of attention the one that PyTorch dispatched on, whose tensors say what
/// is computed. The tensors of a whole graph of torch.compile are not those of one kernel.
RunningCall* RecordedWork::call_of_kernel(RecordedThread& thread) const {
  const auto name = [&](const RunningCall& call) -> std::string_view {
    return schedule_.names[call.name];
  };
  if (thread.running.empty() || name(thread.running.back()).starts_with("CompiledFunction"))
    return nullptr;
  for (RunningCall& one : thread.running)
    if (name(one).starts_with("aten._scaled_dot_product_")) return &one;
  return &thread.running.back();
}

void RecordedWork::launch_kernel(const LogLine& line) {
  RecordedThread& thread = threads_.of(line.thread);
  const LaneIndex lane = streams_.lane_of(line.integer(0));
  ++launches_.all;
  RunningCall* const call = call_of_kernel(thread);
  if (call == nullptr) {
    ++launches_.of_no_operator;
    const std::uint32_t name =
        names_.name(line.kind == LogKind::dnn ? "cuDNN" : log_.text(line.integer(1)));
    Operation operation = operation_of(thread, name, compute_kind());
    operation.work = names_.work(DeviceWork{});
    put(lane, operation);
    return;
  }
  // Kernels of one call that follow each other are one operation.
  if (!call->kernels.empty() && call->kernels.back().operation == last_on_lane_[lane]) {
    ++call->kernels.back().launches;
    return;
  }
  Operation operation = operation_of(thread, call->name, compute_kind());
  operation.shapes = shapes_of(*call);
  call->kernels.push_back({put(lane, operation)});
}

void RecordedWork::launch_product(const LogLine& line) {
  RecordedThread& thread = threads_.of(line.thread);
  const LaneIndex lane = streams_.lane_of(line.integer(0));
  ++launches_.all;
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const RecordedProduct product{.shape = {.batch = line.integer(4, most),
                                          .m = line.integer(1, most),
                                          .n = line.integer(2, most),
                                          .k = line.integer(3, most)},
                                .type = static_cast<int>(line.integer(5))};
  const DeviceWork work = work_of(product);
  Operation operation = operation_of(thread, threads_.name_of(thread), compute_kind());
  set_work(operation, names_.work(work), work);
  if (!thread.running.empty()) operation.shapes = shapes_of(thread.running.back());
  put(lane, operation);
  if (!thread.running.empty())
    thread.running.back().has_inner = thread.running.back().has_product = true;
}

void RecordedWork::copy(const LogLine& line) {
  RecordedThread& thread = threads_.of(line.thread);
  const LaneIndex lane = streams_.lane_of(line.integer(0));
  const bool is_set = line.kind == LogKind::set;
  const Bytes bytes = bytes_in(line, is_set ? 1 : 2);
  Operation operation =
      operation_of(thread, threads_.name_of(thread), is_set ? compute_kind() : OperationKind::copy);
  const bool to_device = !is_set && line.text(1) == "HtoD";
  const bool to_host = !is_set && line.text(1) == "DtoH";
  const bool is_within = !is_set && !to_device && !to_host;
  operation.bytes = is_within ? bytes * 2 : bytes;
  operation.work = names_.work(DeviceWork{.kind = is_set ? WorkKind::fill : WorkKind::copy,
                                          .dtype = Dtype::uint8,
                                          .bytes = operation.bytes});
  if (to_device || to_host)
    operation.operands =
        moved_operands(bytes, to_host ? Access::read : Access::write, line.text(3) == "pageable");
  if (!thread.running.empty()) operation.shapes = shapes_of(thread.running.back());
  put(lane, operation);
  if (!thread.running.empty()) thread.running.back().has_inner = true;
}

IndexRange RecordedWork::moved_operands(Bytes bytes, Access access, bool is_pageable) {
  auto& all = schedule_.operands;
  const auto begin = static_cast<std::uint32_t>(all.size());
  all.push_back({.buffer = {}, .offset = {}, .bytes = bytes, .access = access});
  if (is_pageable)
    all.push_back({.buffer = {}, .offset = {}, .bytes = bytes, .access = Access::read_write});
  return {begin, static_cast<std::uint32_t>(all.size())};
}

void RecordedWork::communicate(const LogLine& line) {
  RecordedThread& thread = threads_.of(line.thread);
  const LaneIndex lane = streams_.lane_of(line.integer(0));
  const auto group = groups_.find(line.integer(2));
  if (group == groups_.end()) return;
  const OperationKind kind = kind_of_collective(line.text(1));
  const auto ranks = static_cast<std::int64_t>(schedule_.groups[group->second.value].ranks.size());
  constexpr std::int64_t most_elements = std::int64_t{1} << 36;
  const std::int64_t count = std::max<std::int64_t>(0, line.integer(3, most_elements));
  Collective collective = collective_of(kind, count, line.integer(4), ranks);
  collective.group = group->second;
  collective.peer = peer_of(line, kind, schedule_.groups[group->second.value].ranks);
  auto& all = schedule_.collectives;
  const auto same = std::find(all.begin(), all.end(), collective);
  Operation operation =
      operation_of(thread, names_.name(fmt::format("nccl.{}", line.text(1))), kind);
  operation.detail = static_cast<std::uint32_t>(same - all.begin());
  if (same == all.end()) all.push_back(collective);
  operation.dtype = collective.dtype;
  operation.bytes =
      bytes_of(std::max(collective.elements_in, collective.elements_out), collective.dtype);
  put(lane, operation);
  if (!thread.running.empty()) thread.running.back().has_inner = true;
}

void RecordedWork::make_communicator(const LogLine& line) {
  constexpr std::int64_t most_ranks = std::int64_t{1} << 20;
  const std::int64_t size = std::max<std::int64_t>(1, line.integer(2, most_ranks));
  std::vector<int> ranks = ranks_in(std::exchange(next_group_, {}));
  const bool is_told = static_cast<std::int64_t>(ranks.size()) == size;
  Group group{.name = fmt::format("group {}", line.integer(0)),
              .ranks = is_told ? Ranks(std::move(ranks)) : Ranks::up_to(static_cast<int>(size))};
  if (size == schedule_.world)
    group.name = "world";
  else if (is_told)
    group.name = name_by_ranks(group.ranks, schedule_.groups);
  groups_[line.integer(0)] = GroupId::of(schedule_.groups.size());
  schedule_.groups.push_back(std::move(group));
}

}  // namespace shardscope
