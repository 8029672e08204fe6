#include "backend/checkpoint/foreign_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/model/read_model.h"

namespace shardscope {
namespace {

bool is_of_state(const std::string& name) {
  return name.starts_with("state.") || name.find(".state.") != std::string::npos;
}

/// Names by the parts that they end in. So a name is found with any prefix.
class Names {
 public:
  explicit Names(const ForeignCheckpoint& checkpoint) {
    constexpr std::int64_t most_ends = std::int64_t{1} << 24;
    std::int64_t ends = 0;
    for (const auto& [name, tensor] : checkpoint.tensors) {
      const bool of_state = is_of_state(name);
      if (of_state) is_numbered_ = is_numbered_ || number_behind_state(name);
      for (std::size_t at = 0; at != std::string::npos;) {
        const auto [found, is_new] =
            by_end_[of_state ? 1 : 0].try_emplace(std::string_view(name).substr(at), &name);
        if (is_new && ++ends > most_ends)
          throw Error({.where = checkpoint.folder.string(),
                       .what = "the names of the tensors have too many parts",
                       .way_out = {}});
        if (!is_new && name.size() < found->second->size()) found->second = &name;
        const std::size_t dot = name.find('.', at);
        at = dot == std::string::npos ? dot : dot + 1;
      }
    }
  }

  /// The name that ends in ".`wanted`", or is it; the shortest of several. `of_state`: whether
  /// names of an optimizer's state count, or the others.
  const std::string* ending_in(std::string_view wanted, bool of_state) const {
    const auto found = by_end_[of_state ? 1 : 0].find(wanted);
    return found == by_end_[of_state ? 1 : 0].end() ? nullptr : found->second;
  }
  /// Whether states go by the parameters' numbers: "state.0.exp_avg".
  bool is_numbered() const { return is_numbered_; }

 private:
  static bool number_behind_state(const std::string& name) {
    const std::size_t at = name.rfind("state.") + std::string_view("state.").size();
    const std::size_t dot = name.find('.', at);
    return dot != std::string::npos && dot > at && name.find_first_not_of("0123456789", at) == dot;
  }

  /// Views of the checkpoint's own names.
  std::array<std::map<std::string_view, const std::string*>, 2> by_end_;
  bool is_numbered_ = false;
};

/// The order in which an optimizer numbers parameters. One group has them in the model's order. Of
/// two groups the first has the matrices, which decay, as in transformers' Trainer. Empty: the
/// order is not known, since there are other groups or another number of parameters.
std::vector<std::size_t> numbered_order(const Model& model,
                                        const std::vector<std::int64_t>& group_sizes) {
  const std::int64_t parameters =
      std::accumulate(group_sizes.begin(), group_sizes.end(), std::int64_t{0});
  std::vector<std::size_t> all(model.parameters.size());
  if (parameters != static_cast<std::int64_t>(all.size())) return {};
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (group_sizes.size() == 1) return all;
  const auto is_matrix = [&](std::size_t p) { return model.parameters[p].shape.size() >= 2; };
  const auto rest = std::stable_partition(all.begin(), all.end(), is_matrix);
  const bool matches = group_sizes.size() == 2 && group_sizes[0] == rest - all.begin() &&
                       group_sizes[1] == all.end() - rest;
  return matches ? all : std::vector<std::size_t>{};
}

class Binding {
 public:
  Binding(const ForeignCheckpoint& checkpoint, const Model& model)
      : checkpoint_(checkpoint), model_(model), names_(checkpoint) {}

  std::map<std::string, const ForeignTensor*> entries() {
    for (const Parameter& parameter : model_.parameters) add_weights(parameter);
    if (names_.is_numbered())
      add_numbered();
    else
      for (const Parameter& parameter : model_.parameters) add_states(parameter);
    return std::move(entries_);
  }

 private:
  Error error(std::string what, std::string way_out) const {
    return Error({.where = checkpoint_.folder.string(),
                  .what = std::move(what),
                  .way_out = std::move(way_out)});
  }

  const ForeignTensor* find(std::string_view wanted, bool of_state) const {
    const std::string* const name = names_.ending_in(wanted, of_state);
    return name ? &checkpoint_.tensors.at(*name) : nullptr;
  }

  /// Under its name, or a name that is tied to it.
  void add_weights(const Parameter& parameter) {
    const ForeignTensor* saved = find(parameter.name, false);
    for (const TiedName& tied : model_.tied)
      if (!saved && tied.first == parameter.name) saved = find(tied.later, false);
    constexpr const char* way_out = "give the config.json of the model that was saved";
    if (!saved) throw error(fmt::format("{} is not there", parameter.name), way_out);
    if (saved->shape != parameter.shape)
      throw error(fmt::format("{} has the shape [{}], and the model's [{}]", parameter.name,
                              fmt::join(saved->shape, ", "), fmt::join(parameter.shape, ", ")),
                  way_out);
    entries_.emplace(tensor_name(parameters_state, parameter.name), saved);
  }

  void add_states(const Parameter& parameter) {
    for (const std::string_view state : states_of_torch) {
      const ForeignTensor* const kept =
          find(fmt::format("state.{}.{}", parameter.name, state), true);
      if (kept && kept->shape == parameter.shape)
        entries_.emplace(tensor_name(state, parameter.name), kept);
    }
  }

  void add_numbered() {
    const std::vector<std::size_t> order = numbered_order(model_, checkpoint_.group_sizes);
    if (order.empty()) refuse_numbers();
    for (std::size_t number = 0; number < order.size(); ++number) {
      const Parameter& parameter = model_.parameters[order[number]];
      for (const std::string_view state : states_of_torch) {
        const ForeignTensor* const kept = find(fmt::format("state.{}.{}", number, state), true);
        if (kept && kept->shape != parameter.shape) refuse_numbers();
        if (kept) entries_.emplace(tensor_name(state, parameter.name), kept);
      }
    }
  }

  [[noreturn]] void refuse_numbers() const {
    throw error(
        fmt::format("the optimizer's states have numbers, in groups of [{}] parameters, and whose "
                    "they are is not known",
                    fmt::join(checkpoint_.group_sizes, ", ")),
        "save with all parameters in one group or in two (matrices first), or by "
        "torch.distributed.checkpoint, which saves names");
  }

  const ForeignCheckpoint& checkpoint_;
  const Model& model_;
  Names names_;
  std::map<std::string, const ForeignTensor*> entries_;
};

}  // namespace

std::int64_t step_of(const ForeignCheckpoint& checkpoint) {
  if (checkpoint.step) return *checkpoint.step;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (!name.ends_with(".step") || !is_of_state(name) || !tensor.shape.empty()) continue;
    float step = 0;
    tensor.read(0, {&step, 1});
    return step >= 0 && step <= static_cast<float>(most_steps) ? static_cast<std::int64_t>(step)
                                                               : 0;
  }
  return 0;
}

ForeignReader::ForeignReader(ForeignCheckpoint checkpoint, const ForeignModel& model)
    : checkpoint_(std::move(checkpoint)),
      config_(model.config),
      index_{
          .kind = CheckpointKind::sharded,
          .progress = {.step = step_of(checkpoint_),
                       .skipped_steps = checkpoint_.skipped_steps,
                       .next_token = model.next_token},
          .layout = {.world = checkpoint_.world,
                     .strategy = checkpoint_.strategy.empty() ? "of PyTorch" : checkpoint_.strategy,
                     .mesh = {},
                     .wrap = {},
                     .precision = "fp32"},
          .job = "{}",
          .files = {}},
      entries_(
          Binding(checkpoint_, read_model(config_, {.class_name = {}, .dtype = Dtype::float32}))
              .entries()) {}

std::vector<Checkpoint::Tensor> ForeignReader::tensors() const {
  std::vector<Tensor> all;
  for (const auto& [name, tensor] : entries_) all.push_back({.name = name, .shape = tensor->shape});
  return all;
}

std::optional<Checkpoint::Tensor> ForeignReader::find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return std::nullopt;
  return Tensor{.name = name, .shape = found->second->shape};
}

void ForeignReader::read(const std::string& tensor, std::int64_t first, std::span<float> out) {
  const auto found = entries_.find(tensor);
  if (found == entries_.end())
    throw Error({.where = folder().string(),
                 .what = tensor + " is not in the checkpoint",
                 .way_out = "take another checkpoint"});
  found->second->read(first, out);
}

}  // namespace shardscope
