#include "core/model/rope_parameters.h"

#include <fmt/format.h>

namespace shardscope {
namespace {

constexpr double default_theta = 10000;
constexpr std::int64_t largest_context = std::int64_t{1} << 40;

/// The object with the parameters, wherever it stands; an older rope_scaling comes first, as in
/// transformers.
std::optional<JsonValue> parameters_of(const ConfigReader& config) {
  if (auto scaling = config.find("rope_scaling"); scaling && scaling->size() > 0) return scaling;
  return config.find("rope_parameters");
}

std::string type_of(const std::optional<JsonValue>& parameters) {
  if (!parameters) return "default";
  if (const auto type = parameters->find("rope_type")) return type->string();
  if (const auto type = parameters->find("type")) return type->string();
  return "default";
}

double theta_of(const ConfigReader& config, const std::optional<JsonValue>& parameters) {
  const auto theta = parameters ? parameters->find("rope_theta") : std::nullopt;
  if (theta) return positive_number(*theta);
  const auto outer = config.find("rope_theta");
  return outer ? positive_number(*outer) : default_theta;
}

double partial_factor_of(const ConfigReader& config, const std::optional<JsonValue>& parameters) {
  const auto inner = parameters ? parameters->find("partial_rotary_factor") : std::nullopt;
  const auto factor = inner ? inner : config.find("partial_rotary_factor");
  return factor ? factor->number(0, 1) : 1;
}

Rope::Llama3 llama3_of(const ConfigReader& config, const JsonValue& parameters,
                       std::int64_t max_positions) {
  Rope::Llama3 llama3{.factor = positive_number(parameters.at("factor")),
                      .low_freq_factor = positive_number(parameters.at("low_freq_factor")),
                      .high_freq_factor = positive_number(parameters.at("high_freq_factor")),
                      .original_max_position_embeddings = max_positions};
  if (llama3.high_freq_factor <= llama3.low_freq_factor)
    throw parameters.error(fmt::format("high_freq_factor {} is not above low_freq_factor {}",
                                       llama3.high_freq_factor, llama3.low_freq_factor));
  constexpr std::string_view original = "original_max_position_embeddings";
  auto context = config.find(original);
  if (!context) context = parameters.find(original);
  if (context) llama3.original_max_position_embeddings = context->integer(1, largest_context);
  return llama3;
}

}  // namespace

RopeParameters read_rope_parameters(const ConfigReader& config, std::int64_t head_dim,
                                    std::int64_t max_positions) {
  const auto parameters = parameters_of(config);
  const std::string type = type_of(parameters);
  const double partial = type == "default" ? 1 : partial_factor_of(config, parameters);
  RopeParameters result;
  result.frequencies = (static_cast<std::int64_t>(static_cast<double>(head_dim) * partial) + 1) / 2;
  Rope rope{.theta = theta_of(config, parameters)};
  if (type == "linear")
    rope.linear_factor = positive_number(parameters->at("factor"));
  else if (type == "llama3")
    rope.llama3 = llama3_of(config, *parameters, max_positions);
  else if (type != "default")
    result.why_not = fmt::format("rope_type {} (known are default, linear, llama3)", type);
  if (partial != 1) result.why_not = fmt::format("partial_rotary_factor {}", partial);
  if (head_dim % 2 != 0)
    result.why_not = fmt::format("head_dim {} is odd, rotary embedding turns pairs", head_dim);
  if (result.why_not.empty()) result.rope = rope;
  return result;
}

}  // namespace shardscope
