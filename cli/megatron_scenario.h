// `--runtime megatron`: a decoder under Megatron-LM with tensor, pipeline, context and expert
// parallelism.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/pytorch_scenario.h"
#include "core/config/megatron/arguments.h"

namespace shardscope {

inline constexpr std::string_view megatron_runtime = "megatron";

struct MegatronScenario {
  megatron::Settings settings;
  std::string model;  ///< "LlamaForCausalLM", or "decoder of 32 layers" of a command line
  int rank = 0;
  std::vector<std::string> assumed;
};

/// `arguments` are those of --config, in `file`; options go before them. Throws Error naming
/// option, file or flag: what does not divide, and what is not modelled.
MegatronScenario resolve_megatron_scenario(const PytorchQuestion& question,
                                           const std::optional<megatron::Arguments>& arguments,
                                           const std::string& file);

/// Throws Error naming the first option that means nothing, or something else, under Megatron-LM.
void refuse_foreign_to_megatron(const PytorchQuestion& question);

/// --dropout: off for none; on for the command line's, or 0.1 of a model that is given by its
/// configuration. Throws Error naming the option.
void take_megatron_dropout(const std::optional<std::string>& dropout, bool has_config,
                           megatron::Settings& settings);

/// --attention and --precision. Throw Error naming the option and the choices.
megatron::Attention megatron_attention(const std::string& name);
Dtype megatron_dtype(const std::string& precision);

/// "--frobnicate (line 20), ...": flags that no prediction looks at; "" where there are none.
std::string unknown_flags(const megatron::Arguments& arguments);

/// The pipeline rank of the scenario's rank.
std::size_t own_stage(const MegatronScenario& scenario);

/// "megatron with distributed optimizer of LlamaForCausalLM on 64 ranks
/// (tensor=8,pipeline=4,shard=2), ...".
std::string headline(const MegatronScenario& scenario);

}  // namespace shardscope
