// Models of models.json on the eager engine, to be run as their recorders ran them.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/plans/module_tree.h"

namespace shardscope::recordings {

/// The model of a spec, its parameters trainable and of the dtypes that `tree` says. A transformers
/// model runs its own forward; of other trees the children run one after the other, and `order`
/// names those of the root that do (empty: all).
std::shared_ptr<eager::Module> eager_module(eager::Session& s, const nlohmann::ordered_json& spec,
                                            const ModuleTree& tree,
                                            const std::vector<std::string>& order = {});

/// The recorders' made-up input: of transformers models with labels.
eager::Arguments eager_input(eager::Session& s, const nlohmann::ordered_json& spec);

/// The loss that the recorders take backward: the model's own, or the sum of what it returns.
eager::Tensor eager_loss(eager::Session& s, const nlohmann::ordered_json& spec,
                         const eager::Tensors& outputs);

}  // namespace shardscope::recordings
