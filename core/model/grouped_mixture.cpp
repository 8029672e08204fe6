// Source: transformers 5.24 and 4.57, models/deepseek_v3/modeling_deepseek_v3.py.
#include "core/model/grouped_mixture.h"

#include <fmt/format.h>

#include "core/model/modules.h"
#include "core/model/packed_experts.h"

namespace shardscope {
namespace {

/// Release 5 keeps its weight in float32, both a bias beside the scores.
void add_scored_router(const std::string& name, const PackedExperts& router,
                       const FeedForward& shape, Model& model) {
  add_router(model, name, router, shape);
  if (model.transformers == TransformersVersion::v5) model.parameters.back().dtype = Dtype::float32;
  model.buffers.push_back({.name = name + ".e_score_correction_bias",
                           .shape = {router.experts},
                           .dtype = Dtype::float32,
                           .persistent = true});
}

void check_groups(const ConfigReader& config, std::int64_t experts) {
  const std::int64_t groups = config.layers({"n_group"});
  if (experts % groups != 0)
    throw config.error("n_group", fmt::format("{} experts do not divide into {}", experts, groups));
  if (const std::int64_t chosen = config.layers({"topk_group"}); chosen > groups)
    throw config.error("topk_group", fmt::format("expected 1 to {}, got {}", groups, chosen));
  // A group is judged by its two best experts.
  if (experts / groups < 2)
    throw config.error("n_group", fmt::format("a group needs two of the {} experts", experts));
}

}  // namespace

void build_grouped_mixture(const ConfigReader& config, const std::string& layer,
                           std::string_view family, const FeedForward& shape, Model& model) {
  const std::string mlp = layer + ".mlp";
  const auto of_family = [&](const char* part) { return std::string(family) + part; };
  const std::string dense = of_family("MLP"), router = of_family("TopkRouter"),
                    packed = of_family("Experts");
  if (shape.layer < config.integer("first_k_dense_replace"))
    return add_dense_feed_forward(model, mlp, dense, shape);
  const std::int64_t experts = config.layers({"num_local_experts", "n_routed_experts"});
  check_experts(config, "n_routed_experts", experts);
  check_groups(config, experts);
  FeedForward expert = shape;
  expert.inner = config.size({"moe_intermediate_size"});
  add_module(model, mlp, of_family("MoE"));
  if (model.transformers == TransformersVersion::v5) {
    add_packed_experts(model, mlp + ".experts", {packed, experts}, expert);
  } else {
    add_expert_list(model, mlp + ".experts", {dense, experts}, expert);
  }
  add_scored_router(mlp + ".gate", {router, experts}, expert, model);
  FeedForward shared = expert;
  shared.inner *= config.layers({"n_shared_experts"});
  add_dense_feed_forward(model, mlp + ".shared_experts", dense, shared);
}

void finish_grouped_mixtures(Model& model) {
  model.keep_in_fp32_strict = {"e_score_correction_bias"};
  if (model.transformers != TransformersVersion::v5) return;
  model.keep_in_fp32_strict.emplace_back("gate.weight");
  store_experts_apart(model, {.parts = {"gate_proj", "up_proj", "down_proj"}});
}

}  // namespace shardscope
