#include "sim/planner/megatron/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

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
void deal_out_layers(Settings& s) {
  const std::int64_t layers = s.shape.layers;
  const std::int64_t stages = std::int64_t{s.pipeline} * s.stages_per_rank;
  if (s.pipeline == 1 || layers % stages == 0) return;
  if ((layers + 2) % stages == 0) {
    s.embedding_as_layer = s.loss_as_layer = true;
    return;
  }
  const std::int64_t of_stage = (layers + stages - 1) / stages;
  const std::int64_t left = layers - of_stage * s.stages_per_rank * (s.pipeline - 2);
  // The last rank has the output layer, too.
  s.last_rank_layers = left / 2 / s.stages_per_rank * s.stages_per_rank;
  s.first_rank_layers = left - s.last_rank_layers;
}

class Enumerator {
 public:
  Enumerator(const Settings& training, int ranks_per_node)
      : training_(training), ranks_per_node_(std::max(1, ranks_per_node)) {}

  std::vector<Settings> layouts() {
    for (const int tensor : divisors(training_.world, ranks_per_node_))
      for (const int pipeline : divisors(training_.world / tensor, training_.shape.layers))
        for (const int context : contexts(training_.world / tensor / pipeline))
          add_mesh(tensor, pipeline, context);
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

  void add_mesh(int tensor, int pipeline, int context) {
    Settings s = training_;
    s.tensor = tensor;
    s.pipeline = pipeline;
    s.context = context;
    s.sequence_parallel = tensor > 1;
    const std::int64_t experts = s.shape.experts.experts;
    const std::int64_t groups = experts > 0 ? std::gcd(experts, std::int64_t{s.data_context()}) : 1;
    for (const int expert : divisors(groups, groups)) {
      s.expert = expert;
      add_stages(s);
    }
  }

  void add_stages(Settings s) {
    constexpr int most_stages = 8;
    for (int stages = 1; stages <= (s.pipeline > 1 ? most_stages : 1); ++stages) {
      s.stages_per_rank = stages;
      s.embedding_as_layer = s.loss_as_layer = false;
      s.first_rank_layers = s.last_rank_layers = 0;
      deal_out_layers(s);
      add_batches(s);
    }
  }

  void add_batches(Settings s) {
    for (const std::int64_t batch : {1, 2, 4, 8}) {
      s.micro_batch = batch;
      for (const bool shards : {true, false}) {
        if (shards && s.data_context() == 1) continue;
        s.distributed_optimizer = s.overlaps_gradients = s.overlaps_parameters = shards;
        if (megatron::contradictions(s).empty()) result_.push_back(s);
      }
    }
  }

  const Settings& training_;
  int ranks_per_node_;
  std::vector<Settings> result_;
};

}  // namespace

std::vector<Settings> megatron_layouts(const Settings& training, int ranks_per_node) {
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
  return fmt::format("{}batch {} x {}, recomputation {}", stages, s.micro_batch, s.micro_batches(),
                     name_of(s.recompute));
}

}  // namespace shardscope::planner
