// Flags of Megatron-LM that the reader of command lines has no setting for.
#pragma once

#include <optional>
#include <string_view>

namespace shardscope::megatron {

/// Whether the flag changes neither time nor memory of a step as they are predicted, or is a
/// launcher's. Names without dashes: "lr".
bool has_no_bearing(std::string_view flag);

/// Whether torchrun takes the flag, with dashes or underscores.
bool is_launchers(std::string_view flag);

/// What is predicted where the flag's effect is left out: "kernels are launched one by one"; none
/// for other flags.
std::optional<std::string_view> left_out(std::string_view flag);

/// The way out where the flag makes another training, which is not predicted: "give equal stages";
/// none for other flags.
std::optional<std::string_view> not_predicted(std::string_view flag);

}  // namespace shardscope::megatron
