#include "sim/kernels/fusion.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/model/module_names.h"

namespace shardscope {
namespace {

constexpr std::array<std::string_view, 5> fusion_names{"none", "loss", "by_hand", "compiled",
                                                       "xla"};

bool joins(WorkKind kind) {
  switch (kind) {
    case WorkKind::pointwise:
    case WorkKind::reduction:
    case WorkKind::norm_forward:
    case WorkKind::norm_backward:
    case WorkKind::softmax:
    case WorkKind::random:
    case WorkKind::gather:
    case WorkKind::copy:
    case WorkKind::fill:
      return true;
    default:
      return false;
  }
}

/// Of attention itself, not of a module in it.
bool is_of_attention(const Schedule& schedule, const Operation& op) {
  if (!op.owner) return false;
  const std::string_view module = schedule.owners[op.owner.value];
  return module.ends_with(".attn") || module.ends_with(".self_attn");
}

bool is_norm(WorkKind kind) {
  return kind == WorkKind::norm_forward || kind == WorkKind::norm_backward;
}

using Run = FusedRun;

/// Where runs end and which of them become one kernel.
class Rules {
 public:
  Rules(const Schedule& schedule, const KernelChoices& choices)
      : schedule_(schedule),
        fusion_(choices.fusion),
        scope_(choices.fusion == KernelFusion::compiled ? choices.scope : CompileScope::none),
        fuses_attention_(choices.fuses_attention) {}

  bool fits(const Run& run, const Operation& op) const {
    if (op.work == Operation::no_work || op.kind == OperationKind::copy) return false;
    if (!joins(schedule_.works[op.work].kind) || is_complex(op)) return false;
    if (!fuses_attention_ && is_of_attention(schedule_, op)) return false;
    const std::string_view graph = compiled_graph(schedule_, op, scope_);
    if (scope_ != CompileScope::none && graph.empty()) return false;
    if (run.empty()) return true;
    const Operation& last = schedule_.operations[run.back()];
    if (scope_ != CompileScope::none && compiled_graph(schedule_, last, scope_) != graph)
      return false;
    if (last.phase != op.phase && !(last.phase == Phase::forward && op.phase == Phase::backward))
      return false;
    if (begins_another_loss(run, op)) return false;
    if (fusion_ != KernelFusion::by_hand) return true;
    const WorkKind before = kind_of(last), now = kind_of(op);
    if (is_norm(before) || is_norm(now)) return false;
    return begins_with_softmax(op) ? now != WorkKind::softmax : before != WorkKind::softmax;
  }

  bool fuses(const Run& run) const {
    if (run.size() < 2) return false;
    return fusion_ != KernelFusion::loss || std::ranges::any_of(run, [&](std::uint32_t op) {
             return schedule_.name(schedule_.operations[op])
                 .starts_with("aten._log_softmax_backward");
           });
  }

  /// Megatron-LM's causal softmax, which skips the scores above the diagonal. Source:
  /// megatron/fused_kernels/scaled_upper_triang_masked_softmax.h.
  bool reads_half(const Run& run) const {
    return fusion_ == KernelFusion::by_hand && std::ranges::any_of(run, [&](std::uint32_t i) {
             const Operation& op = schedule_.operations[i];
             return kind_of(op) == WorkKind::softmax && is_of_attention(schedule_, op);
           });
  }

 private:
  /// torch.compile makes no kernels of complex numbers. Source: PyTorch torch/_inductor/lowering.py
  /// (unsupported_input_tensor).
  bool is_complex(const Operation& op) const {
    return fusion_ == KernelFusion::compiled && schedule_.name(op) == "aten.mul.complex";
  }
  /// A loss that is compiled by itself is a graph for each of its calls, as torchtune's
  /// CEWithChunkedOutputLoss compiles the cross-entropy of one chunk: in backward one ends before
  /// the next begins.
  bool begins_another_loss(const Run& run, const Operation& op) const {
    constexpr std::string_view first = "aten.nll_loss_backward.default";
    if (scope_ != CompileScope::blocks_and_loss || schedule_.name(op) != first) return false;
    return std::ranges::any_of(
        run, [&](std::uint32_t i) { return schedule_.name(schedule_.operations[i]) == first; });
  }
  /// In the forward the factor of the scores comes before attention's softmax, in the backward
  /// after it.
  bool begins_with_softmax(const Operation& op) const {
    return op.phase == Phase::backward && !op.recomputed && is_of_attention(schedule_, op);
  }
  WorkKind kind_of(const Operation& op) const { return schedule_.works[op.work].kind; }

  const Schedule& schedule_;
  KernelFusion fusion_;
  CompileScope scope_;
  bool fuses_attention_;
};

/// Runs of each lane; a wait or a record of the lane ends its run, as does whatever joins none.
std::vector<Run> runs_of(const Schedule& schedule, const Rules& rules) {
  std::vector<Run> done;
  std::vector<Run> open(schedule.program.lanes.size());
  const auto close = [&](std::uint8_t lane) {
    if (!open[lane].empty()) done.push_back(std::exchange(open[lane], {}));
  };
  for (const HostAction& action : schedule.program.actions) {
    if (action.kind == HostActionKind::launch) {
      const Operation& op = schedule.operations[action.subject];
      if (!rules.fits(open[action.lane], op)) close(action.lane);
      if (rules.fits(open[action.lane], op)) open[action.lane].push_back(action.subject);
    } else if (action.kind == HostActionKind::record_event ||
               action.kind == HostActionKind::wait_event ||
               action.kind == HostActionKind::host_sync) {
      close(action.lane);
    }
  }
  for (std::size_t lane = 0; lane < open.size(); ++lane) close(static_cast<std::uint8_t>(lane));
  std::ranges::sort(done, {}, [](const Run& run) { return run.front(); });
  return done;
}

/// By buffer: the last operation that reads it, plus one.
std::vector<std::uint32_t> last_reads(const Schedule& schedule) {
  std::vector<std::uint32_t> last(schedule.buffers.size());
  for (std::uint32_t i = 0; i < schedule.operations.size(); ++i)
    for (const Operand& operand : schedule.operands_of(schedule.operations[i]))
      if (operand.buffer && operand.access != Access::write) last[operand.buffer.value] = i + 1;
  return last;
}

/// What one kernel in a run's place moves.
class RunBytes {
 public:
  RunBytes(const Schedule& schedule, const std::vector<std::uint32_t>& last_read)
      : schedule_(schedule), last_read_(last_read) {}

  Bytes of(const Run& run, bool reads_half) {
    read_.clear();
    written_.clear();
    for (const std::uint32_t op : run)
      for (const Operand& operand : schedule_.operands_of(schedule_.operations[op])) add(operand);
    std::int64_t bytes = 0;
    for (const auto& [place, count] : read_) bytes += reads_half ? count / 2 : count;
    for (const auto& [place, count] : written_)
      if (is_wanted(place.first, run)) bytes += count;
    return {bytes};
  }

 private:
  using Place = std::pair<std::uint32_t, std::int64_t>;  // buffer and offset

  void add(const Operand& operand) {
    if (!operand.buffer) return;
    const Place place{operand.buffer.value, operand.offset.count};
    if (operand.access != Access::write && !written_.contains(place))
      keep_larger(read_[place], operand.bytes);
    if (operand.access != Access::read) keep_larger(written_[place], operand.bytes);
  }

  static void keep_larger(std::int64_t& known, Bytes bytes) {
    known = std::max(known, bytes.count);
  }

  /// Of somebody after the run, or of a buffer that outlives what is recorded.
  bool is_wanted(std::uint32_t buffer, const Run& run) const {
    const Buffer& of = schedule_.buffers[buffer];
    return last_read_[buffer] > run.back() + 1 || !of.freed_by || !of.allocated_by ||
           of.allocated_by.value < run.front();
  }

  const Schedule& schedule_;
  const std::vector<std::uint32_t>& last_read_;
  std::map<Place, std::int64_t> read_;
  std::map<Place, std::int64_t> written_;
};

/// Adds rows to the table of works, each once.
class WorkTable {
 public:
  explicit WorkTable(std::vector<DeviceWork>& works) : works_(works) {}
  std::uint32_t of(const DeviceWork& work) {
    const auto [found, fresh] = added_.try_emplace(work, static_cast<std::uint32_t>(works_.size()));
    if (fresh) works_.push_back(work);
    return found->second;
  }

 private:
  std::vector<DeviceWork>& works_;
  std::unordered_map<DeviceWork, std::uint32_t, DeviceWorkHash> added_;
};

DeviceWork one_kernel(const Schedule& schedule, const Run& run, Bytes bytes) {
  DeviceWork work{.kind = WorkKind::pointwise, .bytes = bytes};
  for (const std::uint32_t op : run) {
    const DeviceWork& part = schedule.works[schedule.operations[op].work];
    const bool reduces =
        part.kind == WorkKind::reduction || part.kind == WorkKind::softmax || is_norm(part.kind);
    if (reduces) work.kind = WorkKind::reduction;
    work.dtype = part.dtype;
  }
  return work;
}

/// Takes actions out of the host program.
template <class Unwanted>
void drop_actions(Schedule& schedule, Unwanted unwanted) {
  std::vector<std::uint32_t> before(schedule.program.actions.size() + 1);
  std::vector<HostAction> kept;
  for (std::size_t i = 0; i < schedule.program.actions.size(); ++i) {
    before[i] = static_cast<std::uint32_t>(kept.size());
    const HostAction& action = schedule.program.actions[i];
    if (!unwanted(action)) kept.push_back(action);
  }
  before.back() = static_cast<std::uint32_t>(kept.size());
  schedule.program.actions = std::move(kept);
  for (Step& step : schedule.steps)
    step.actions = {before[step.actions.begin], before[step.actions.end]};
}

void fuse(Schedule& schedule, const KernelChoices& choices) {
  const Rules rules(schedule, choices);
  const std::vector<std::uint32_t> last_read = last_reads(schedule);
  RunBytes bytes(schedule, last_read);
  WorkTable table(schedule.works);
  std::vector<bool> absorbed(schedule.operations.size());
  for (const Run& run : runs_of(schedule, rules)) {
    if (!rules.fuses(run)) continue;
    const DeviceWork whole = one_kernel(schedule, run, bytes.of(run, rules.reads_half(run)));
    Operation& first = schedule.operations[run.front()];
    first.work = table.of(whole);
    first.bytes = whole.bytes;
    for (const std::uint32_t op : run) absorbed[op] = op != run.front();
  }
  drop_actions(schedule, [&](const HostAction& action) {
    return action.kind == HostActionKind::launch && absorbed[action.subject];
  });
}

}  // namespace

std::vector<FusedRun> fused_runs(const Schedule& schedule, const KernelChoices& choices) {
  return runs_of(schedule, Rules(schedule, choices));
}

std::string_view compiled_graph(const Schedule& schedule, const Operation& op, CompileScope scope) {
  if (!op.owner) return scope == CompileScope::blocks_and_loss ? "loss" : "";
  const std::string_view module = schedule.owners[op.owner.value];
  const bool whole = scope == CompileScope::model || scope == CompileScope::model_in_parts;
  return whole ? "model" : numbered_module_of(module);
}

std::string_view name_of(KernelFusion fusion) {
  return fusion_names[static_cast<std::size_t>(fusion)];
}

Schedule with_kernels(Schedule schedule, const KernelChoices& choices) {
  if (choices.attention)
    for (DeviceWork& work : schedule.works)
      if (work.attention.library != AttentionLibrary::none)
        work.attention.library = *choices.attention;
  if (choices.fusion != KernelFusion::none) fuse(schedule, choices);
  if (choices.fusion == KernelFusion::compiled || choices.fusion == KernelFusion::xla)
    drop_actions(schedule, [](const HostAction& action) {
      return action.kind == HostActionKind::dispatch;  // settled when the program is compiled
    });
  return schedule;
}

}  // namespace shardscope
