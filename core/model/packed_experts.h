// The feed-forward parts of a mixture: experts in two tensors, as transformers 5 keeps them, or one
// by one, as release 4 does; the router; and the tensors of its files.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/model/config_reader.h"
#include "core/model/gated_decoder.h"
#include "core/model/model.h"

namespace shardscope {

/// gate_up_proj [E, 2I, H] and down_proj [E, H, I] of a module of this class.
struct PackedExperts {
  std::string_view class_name;  ///< "MixtralExperts"; of a list, of one expert
  std::int64_t experts = 0;
};
/// `shape.inner` is I. Without `shape.activation` it is a function, no module.
void add_packed_experts(Model& model, const std::string& name, const PackedExperts& packed,
                        const FeedForward& shape);
/// gate_proj, up_proj and down_proj without biases, in a module of this class: a layer without
/// experts, an expert that all tokens go through, or one of those below.
void add_dense_feed_forward(Model& model, const std::string& name, std::string_view class_name,
                            const FeedForward& shape);
/// A ModuleList of such experts.
void add_expert_list(Model& model, const std::string& name, const PackedExperts& list,
                     const FeedForward& shape);
/// The router's weight [E, H] in a module of this class.
void add_router(Model& model, const std::string& name, const PackedExperts& router,
                const FeedForward& shape);

/// How the files call them.
struct ExpertFiles {
  std::array<std::string_view, 3> parts;  ///< gate, up, down: "w1", "w3", "w2"
  std::string_view block = ".mlp.";       ///< what stands in files for ".mlp."
};
/// Fills `model.stored`. Source: transformers 5.23, core_model_loading.py, Chunk and
/// SplitModulelist.
void store_experts_apart(Model& model, const ExpertFiles& files);

/// num_local_experts, which transformers 5 also takes as num_experts; checked as below.
std::int64_t read_local_experts(const ConfigReader& config);
/// Checks that `experts` can be counted, and that a token chooses 1 to all of them. Error names
/// `key`, or the key of what a token chooses.
void check_experts(const ConfigReader& config, std::string_view key, std::int64_t experts,
                   std::string_view key_of_chosen = "num_experts_per_tok");

}  // namespace shardscope
