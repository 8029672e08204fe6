// What transformers knows of a model beyond its module tree, and wrapping goes by.
// Source: transformers 5.23, modeling_utils.py (PreTrainedModel, EmbeddingAccessMixin) and the
// models' own get_input_embeddings and get_output_embeddings.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/model/model.h"
#include "core/pytorch/plans/module_tree.h"

namespace shardscope {

/// Of a plain torch module: all empty.
struct TransformersFacts {
  std::string base_model_prefix;  ///< attribute of the base model; empty: the model is its own
  std::vector<std::string> no_split_classes;      ///< _no_split_modules
  std::optional<std::int32_t> input_embeddings;   ///< module; get_input_embeddings()
  std::optional<std::int32_t> output_embeddings;  ///< module; get_output_embeddings()
  bool operator==(const TransformersFacts&) const = default;
};

/// Facts of a model of a known family; `tree` is its tree (tree_of).
TransformersFacts transformers_facts(const Model& model, const ModuleTree& tree);

/// Whether the tree is that of PeftModel around LoraModel.
bool is_adapted(const ModuleTree& tree);
/// What PEFT's policy for FSDP1 wraps, by name: modules of `classes`, and leaves whose weight
/// trains. Source: peft 0.21 utils/other.py, fsdp_auto_wrap_policy.
std::set<std::string> peft_units(const ModuleTree& tree, const std::vector<std::string>& classes);

/// The module `path` ("decoder.embed_tokens") inside `module`; none if there is no such module.
std::optional<std::int32_t> find_module(const ModuleTree& tree, std::int32_t module,
                                        const std::string& path);

}  // namespace shardscope
