#include "sim/megatron/tensor_parallel.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/ranks.h"
#include "core/model/module_names.h"
#include "sim/kernels/steady_step.h"

namespace shardscope {
namespace {

constexpr std::int64_t bytes_of_activation = 2;
constexpr std::int64_t bytes_of_loss = 4;

/// What is summed where a module has run.
struct Sum {
  std::string_view part;  ///< of the module: products that get one sum have the same
  std::int64_t elements = 0;
  std::int64_t bytes_of_element = bytes_of_activation;
  int times = 1;
};

/// The ends of modules' names and what they are part of.
struct Divided {
  std::string_view end, part;
};
constexpr std::array<Divided, 6> by_rows{{{".c_proj", "out"},
                                          {".o_proj", "out"},
                                          {".down_proj", "out"},
                                          {"wte", "embedding"},
                                          {"embed_tokens", "embedding"},
                                          {"lm_head", "loss"}}};
constexpr std::array<Divided, 8> by_columns{{{".c_attn", "qkv"},
                                             {".q_proj", "qkv"},
                                             {".k_proj", "qkv"},
                                             {".v_proj", "qkv"},
                                             {".c_fc", "in"},
                                             {".gate_proj", "in"},
                                             {".up_proj", "in"},
                                             {"lm_head", "head"}}};

template <std::size_t N>
std::optional<std::string_view> part_of(const std::array<Divided, N>& table,
                                        std::string_view module) {
  for (const Divided& row : table)
    if (module.ends_with(row.end)) return row.part;
  return std::nullopt;
}

std::optional<Sum> sum_after(const Schedule& schedule, const Operation& op,
                             const TensorParallel& tensor) {
  if (!op.owner || is_collective(op.kind)) return std::nullopt;
  const std::string& module = schedule.owners[op.owner.value];
  const bool forward = op.phase == Phase::forward || op.recomputed;
  if (!forward && op.phase != Phase::backward) return std::nullopt;
  const auto part = forward ? part_of(by_rows, module) : part_of(by_columns, module);
  if (!part) return std::nullopt;
  if (*part == "loss")
    return Sum{
        .part = *part, .elements = tensor.tokens, .bytes_of_element = bytes_of_loss, .times = 3};
  return Sum{.part = *part, .elements = tensor.tokens * tensor.hidden};
}

/// One use of a module's part: in which micro-batch, forward or backward, first or again.
using Use = std::tuple<std::string, std::string_view, int, Phase, bool>;

std::string parent_of(std::string_view module) {
  return std::string(module.substr(0, module.rfind('.') + 1));
}

/// Every so-and-so-many-th rank in the place of neighbours.
Ranks spread(const Ranks& ranks, int distance) {
  std::vector<int> apart = ranks.list();
  for (int& rank : apart) rank *= distance;
  return Ranks(std::move(apart));
}

class Inserter {
 public:
  Inserter(Schedule schedule, const TensorParallel& tensor)
      : schedule_(std::move(schedule)), tensor_(tensor) {}

  Schedule insert() {
    spread_groups();
    find_ends();
    rewrite_steady_step(schedule_, [&](std::uint32_t i, std::vector<HostAction>& changed) {
      changed.push_back(schedule_.program.actions[i]);
      if (const auto sum = ends_.find(i); sum != ends_.end()) add(changed, sum->second);
    });
    return std::move(schedule_);
  }

 private:
  void spread_groups() {
    for (Group& group : schedule_.groups) group.ranks = spread(group.ranks, tensor_.ranks);
    schedule_.groups.push_back({.name = "tensor", .ranks = Ranks::up_to(tensor_.ranks)});
    group_ = GroupId::of(schedule_.groups.size() - 1);
  }

  /// The last launch of each use, of all the modules that share a sum.
  void find_ends() {
    std::map<Use, std::uint32_t> last;
    const IndexRange range = schedule_.steps.back().actions;
    for (std::uint32_t i = range.begin; i < range.end; ++i) {
      const HostAction& action = schedule_.program.actions[i];
      if (action.kind != HostActionKind::launch) continue;
      const Operation& op = schedule_.operations[action.subject];
      const std::optional<Sum> sum = sum_after(schedule_, op, tensor_);
      if (!sum) continue;
      const Use use{parent_of(schedule_.owners[op.owner.value]), sum->part, op.micro_batch,
                    op.phase, op.recomputed};
      if (const auto before = last.find(use); before != last.end()) ends_.erase(before->second);
      last[use] = i;
      ends_.emplace(i, *sum);
    }
  }

  /// Where sums run that compute does not wait for.
  std::uint8_t own_lane() {
    if (!lane_) {
      schedule_.program.lanes.push_back({.name = "tensor", .stream = Stream::reduce});
      lane_ = static_cast<std::uint8_t>(schedule_.program.lanes.size() - 1);
    }
    return *lane_;
  }

  /// The lane of what is summed after `action`; it has come as far as that.
  std::uint8_t lane_behind(const HostAction& action, std::vector<HostAction>& actions) {
    if (!tensor_.overlaps) return action.lane;
    const std::uint32_t event = schedule_.program.events++;
    actions.push_back(
        {.kind = HostActionKind::record_event, .lane = action.lane, .subject = event});
    actions.push_back({.kind = HostActionKind::wait_event, .lane = own_lane(), .subject = event});
    return own_lane();
  }

  void add(std::vector<HostAction>& actions, const Sum& sum) {
    const HostAction after = actions.back();
    const std::uint8_t lane = lane_behind(after, actions);
    // The loss sums what each rank has of every token.
    const bool in_parts = tensor_.divides_sequence && sum.part != "loss";
    for (int i = 0; i < sum.times; ++i) {
      if (!in_parts) {
        launch(actions, after, lane, OperationKind::all_reduce, sum);
        continue;
      }
      if (tensor_.copies_tokens) copy_tokens(actions, after, lane, sum);
      launch(actions, after, lane, OperationKind::reduce_scatter, sum);
      launch(actions, after, lane, OperationKind::all_gather, sum);
      if (tensor_.copies_tokens) copy_tokens(actions, after, lane, sum);
    }
  }

  /// A copy of what all ranks have of the tokens.
  void copy_tokens(std::vector<HostAction>& actions, const HostAction& after, std::uint8_t lane,
                   const Sum& sum) {
    constexpr std::int64_t read_and_written = 2;
    Operation op = bare_operation(schedule_, after);
    op.kind = OperationKind::compute;
    op.stream = schedule_.program.lanes[lane].stream;
    op.owner = {};  // belongs to no module: only float8 changes it, by its name
    op.name = name_of_copies();
    op.bytes = Bytes{read_and_written * sum.elements * sum.bytes_of_element};
    const auto [work, fresh] =
        copies_.try_emplace(op.bytes.count, static_cast<std::uint32_t>(schedule_.works.size()));
    if (fresh)
      schedule_.works.push_back(
          {.kind = WorkKind::copy, .dtype = Dtype::bfloat16, .bytes = op.bytes});
    op.work = work->second;
    add_launch(schedule_, op, lane, actions);
  }

  std::uint32_t name_of_copies() {
    if (!name_) {
      schedule_.names.emplace_back(copied_tokens);
      name_ = static_cast<std::uint32_t>(schedule_.names.size() - 1);
    }
    return *name_;
  }

  void launch(std::vector<HostAction>& actions, const HostAction& after, std::uint8_t lane,
              OperationKind kind, const Sum& sum) {
    Operation op = bare_operation(schedule_, after);
    op.kind = kind;
    op.stream = schedule_.program.lanes[lane].stream;
    op.bytes = Bytes{sum.elements * sum.bytes_of_element};
    op.detail = collective_of(sum, kind);
    add_launch(schedule_, op, lane, actions);
  }

  std::uint32_t collective_of(const Sum& sum, OperationKind kind) {
    const std::int64_t part = (sum.elements + tensor_.ranks - 1) / tensor_.ranks;
    Collective made{.group = group_,
                    .elements_in = kind == OperationKind::all_gather ? part : sum.elements,
                    .elements_out = kind == OperationKind::reduce_scatter ? part : sum.elements};
    made.dtype = sum.bytes_of_element == bytes_of_loss ? Dtype::float32 : Dtype::bfloat16;
    schedule_.collectives.push_back(made);
    return static_cast<std::uint32_t>(schedule_.collectives.size() - 1);
  }

  Schedule schedule_;
  const TensorParallel& tensor_;
  GroupId group_;
  std::optional<std::uint8_t> lane_;
  std::optional<std::uint32_t> name_;             ///< of copies
  std::map<std::int64_t, std::uint32_t> copies_;  ///< works, by bytes
  std::map<std::uint32_t, Sum> ends_;             // by action
};

/// The ends of names of modules whose work sequence parallelism divides; blocks, which have the
/// residual sums, too.
constexpr std::array<std::string_view, 9> by_tokens{
    ".ln_1", ".ln_2",          ".ln_f",        ".input_layernorm", ".post_attention_layernorm",
    ".norm", ".resid_dropout", ".mlp.dropout", "transformer.drop"};

bool divides_tokens(std::string_view module) {
  return numbered_module_of(module) == module ||
         std::ranges::any_of(by_tokens,
                             [&](std::string_view end) { return module.ends_with(end); });
}

}  // namespace

Schedule with_divided_sequence(Schedule schedule, int ranks) {
  std::map<std::uint32_t, std::uint32_t> divided;  // works
  const IndexRange steady = schedule.steps.back().operations;
  for (std::uint32_t i = steady.begin; i < steady.end; ++i) {
    Operation& op = schedule.operations[i];
    if (!op.owner || op.work == Operation::no_work) continue;
    if (op.phase != Phase::forward && op.phase != Phase::backward) continue;
    const std::string& module = schedule.owners[op.owner.value];
    if (module.empty() || !divides_tokens(module)) continue;
    const auto [found, fresh] =
        divided.try_emplace(op.work, static_cast<std::uint32_t>(schedule.works.size()));
    if (fresh) {
      DeviceWork part = schedule.works[op.work];
      part.bytes = part.bytes / ranks;
      schedule.works.push_back(part);
    }
    op.work = found->second;
    op.bytes = op.bytes / ranks;
  }
  return schedule;
}

Schedule with_tensor_parallel(Schedule schedule, const TensorParallel& tensor) {
  return Inserter(std::move(schedule), tensor).insert();
}

}  // namespace shardscope
