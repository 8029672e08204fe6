#include "sim/planner/megatron/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "sim/megatron/pipeline.h"

namespace shardscope::planner {
namespace {

using megatron::Settings;

std::vector<int> divisors(std::int64_t number, std::int64_t most) {
  std::vector<int> result;
  for (std::int64_t i = 1; i <= std::min(number, most); ++i)
    if (number % i == 0) result.push_back(static_cast<int>(i));
  return result;
}

/// Layers of the first and last rank where those of all do not divide over stages.
void deal_out_layers(std::int64_t layers, MegatronLayout& layout) {
  const std::int64_t stages = std::int64_t{layout.pipeline} * layout.stages_per_rank;
  if (layout.pipeline == 1 || layers % stages == 0) return;
  if (divide_with_ends(layers, stages)) {
    layout.embedding_and_loss_as_layers = true;
    return;
  }
  const std::int64_t of_stage = (layers + stages - 1) / stages;
  const std::int64_t left = layers - of_stage * layout.stages_per_rank * (layout.pipeline - 2);
  // The last rank has the output layer, too.
  layout.last_rank_layers =
      static_cast<std::int32_t>(left / 2 / layout.stages_per_rank * layout.stages_per_rank);
  layout.first_rank_layers = static_cast<std::int32_t>(left - layout.last_rank_layers);
}

class Enumerator {
 public:
  Enumerator(const Settings& training, int ranks_per_node)
      : training_(training), ranks_per_node_(std::max(1, ranks_per_node)) {}

  std::vector<MegatronLayout> layouts() {
    for (const int tensor : divisors(training_.world, ranks_per_node_))
      for (const int pipeline : divisors(training_.world / tensor, training_.shape.layers))
        for (const int context : contexts(training_.world / tensor / pipeline))
          add_mesh({.tensor = tensor, .pipeline = pipeline, .context = context});
    return std::move(result_);
  }

 private:
  std::vector<int> contexts(int ranks) const {
    constexpr std::int64_t fewest_tokens = 2048;
    std::vector<int> result{1};
    for (int context = 2; ranks % context == 0 && training_.shape.seq / context >= fewest_tokens;
         context *= 2)
      result.push_back(context);
    return result;
  }

  int data_context(const MegatronLayout& layout) const {
    return training_.world / (layout.tensor * layout.pipeline);
  }

  void add_mesh(MegatronLayout layout) {
    const std::int64_t experts = training_.shape.experts.experts;
    const std::int64_t groups =
        experts > 0 ? std::gcd(experts, std::int64_t{data_context(layout)}) : 1;
    for (const int expert : divisors(groups, groups)) {
      layout.expert = expert;
      add_stages(layout);
    }
  }

  void add_stages(MegatronLayout layout) {
    constexpr int most_stages = 8;
    for (int stages = 1; stages <= (layout.pipeline > 1 ? most_stages : 1); ++stages) {
      layout.stages_per_rank = stages;
      layout.embedding_and_loss_as_layers = false;
      layout.first_rank_layers = layout.last_rank_layers = 0;
      deal_out_layers(training_.shape.layers, layout);
      add_batches(layout);
    }
  }

  void add_batches(MegatronLayout layout) {
    constexpr int most = 8;
    for (int batch = 1; batch <= most; ++batch) {
      layout.micro_batch = batch;
      add_switches(layout);
    }
  }

  void add_switches(MegatronLayout layout) {
    // Only Transformer Engine's layers overlap it.
    const bool may_overlap_tensor =
        layout.tensor > 1 && training_.attention != megatron::Attention::unfused;
    constexpr std::pair<bool, bool> optimizers[] = {{true, true}, {true, false}, {false, false}};
    for (const auto& [shards, overlaps] : optimizers) {
      if (shards && data_context(layout) == 1) continue;
      layout.shards = shards;
      layout.overlaps = overlaps;
      for (const bool overlaps_tensor : {false, true}) {
        if (overlaps_tensor && !may_overlap_tensor) continue;
        layout.overlaps_tensor = overlaps_tensor;
        if (!megatron::contradictions(layout.of(training_)).empty()) break;
        result_.push_back(layout);
      }
    }
  }

  const Settings& training_;
  int ranks_per_node_;
  std::vector<MegatronLayout> result_;
};

}  // namespace

Settings MegatronLayout::of(const Settings& training) const {
  Settings s = training;
  s.tensor = tensor;
  s.pipeline = pipeline;
  s.context = context;
  s.expert = expert;
  s.stages_per_rank = stages_per_rank;
  s.micro_batch = micro_batch;
  s.first_rank_layers = first_rank_layers;
  s.last_rank_layers = last_rank_layers;
  s.embedding_as_layer = s.loss_as_layer = embedding_and_loss_as_layers;
  s.sequence_parallel = tensor > 1;
  s.distributed_optimizer = shards;
  s.overlaps_gradients = s.overlaps_parameters = overlaps;
  s.overlaps_tensor = overlaps_tensor;
  return s;
}

std::vector<MegatronLayout> megatron_layouts(const Settings& training, int ranks_per_node) {
  return Enumerator(training, ranks_per_node).layouts();
}

std::string megatron_mesh_text(const Settings& s) {
  return fmt::format("tensor={},pipeline={},context={},{}={}{}", s.tensor, s.pipeline, s.context,
                     s.distributed_optimizer ? "shard" : "replicate", s.data(),
                     s.expert > 1 ? fmt::format(",expert={}", s.expert) : "");
}

std::string megatron_settings_text(const Settings& s) {
  const std::string stages =
      s.stages_per_rank > 1 ? fmt::format("{} stages a rank, ", s.stages_per_rank) : "";
  const bool of_several = s.recompute == megatron::Recompute::full && s.recompute_layers > 1;
  return fmt::format("{}batch {} x {}, recomputation {}{}{}{}", stages, s.micro_batch,
                     s.micro_batches(), name_of(s.recompute),
                     of_several ? fmt::format(" of {} layers at once", s.recompute_layers) : "",
                     s.distributed_optimizer && !s.overlaps_gradients
                         ? ", gradients reduced behind the backward"
                         : "",
                     s.overlaps_tensor ? ", tp-comm-overlap" : "");
}

}  // namespace shardscope::planner
