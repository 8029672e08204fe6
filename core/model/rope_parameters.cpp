#include "core/model/rope_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/utf8.h"

namespace shardscope {
namespace {

constexpr std::int64_t largest_context = std::int64_t{1} << 40;

struct RopeType {
  std::string_view name;
  std::vector<std::string_view> needed;
};

/// Source: ROPE_INIT_FUNCTIONS and the required keys of their validation functions. What release 5
/// fills in is not needed there.
const std::vector<RopeType>& rope_types(TransformersVersion version) {
  static const std::vector<RopeType> types_5{
      {"default", {}},
      {"dynamic", {"factor"}},
      {"linear", {"factor"}},
      {"llama3", {"factor", "low_freq_factor", "high_freq_factor"}},
      {"longrope", {"short_factor", "long_factor"}},
      {"proportional", {}},
      {"yarn", {"factor"}},
  };
  static const std::vector<RopeType> types_4{
      {"default", {}},
      {"dynamic", {"factor"}},
      {"linear", {"factor"}},
      {"llama3",
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}},
      {"longrope", {"short_factor", "long_factor"}},
      {"yarn", {"factor"}},
  };
  return version == TransformersVersion::v4 ? types_4 : types_5;
}

/// The object with the parameters, wherever it stands; an older rope_scaling comes first, as in
/// transformers.
std::optional<JsonValue> parameters_of(const ConfigReader& config) {
  auto scaling = config.find("rope_scaling");
  if (config.version() == TransformersVersion::v4) return scaling;
  return scaling && scaling->size() > 0 ? scaling : config.find("rope_parameters");
}

std::string type_of(const ConfigReader& config, const std::optional<JsonValue>& parameters) {
  if (!parameters) return "default";
  if (const auto type = parameters->find("rope_type")) return type->string();
  if (const auto type = parameters->find("type")) return type->string();
  if (config.version() == TransformersVersion::v4) parameters->at("rope_type");
  return "default";
}

/// Source: configuration_phi3.py, validate_rope and _rope_scaling_validation.
void check_longrope(const std::optional<JsonValue>& parameters, std::string_view type,
                    std::int64_t turned) {
  if (!parameters) return;
  if (type != "default" && type != "longrope")
    throw parameters->error(fmt::format("unknown rope_type \"{}\"", shown(type)),
                            "known are default, longrope");
  for (const char* key : {"short_factor", "long_factor"}) {
    const auto factors = parameters->find(key);
    if (factors && static_cast<std::int64_t>(factors->elements().size()) != turned / 2)
      throw factors->error(fmt::format("has {} numbers, {} dimensions of a head turn by {}",
                                       factors->size(), turned, turned / 2));
  }
}

void check_type(const ConfigReader& config, const std::optional<JsonValue>& parameters,
                std::string_view type) {
  const auto& types = rope_types(config.version());
  const auto known = std::find_if(types.begin(), types.end(),
                                  [&](const RopeType& row) { return row.name == type; });
  if (known != types.end()) {
    for (const std::string_view key : known->needed) parameters->at(key);
    return;
  }
  std::string names;
  for (const RopeType& row : types) names += (names.empty() ? "" : ", ") + std::string(row.name);
  throw parameters->error(fmt::format("unknown rope_type \"{}\"", shown(type)),
                          "known are " + names);
}

double number_or(std::string_view json, double otherwise) {
  return json.empty() ? otherwise : JsonValue::parse(json, "default").number();
}

double theta_of(const ConfigReader& config, const RopeKeys& keys,
                const std::optional<JsonValue>& parameters) {
  const bool inside = parameters && config.version() == TransformersVersion::v5;
  if (const auto theta = inside ? parameters->find("rope_theta") : std::nullopt)
    return positive_number(*theta);
  const auto outer = config.find(keys.theta);
  return outer ? positive_number(*outer) : number_or(keys.default_theta, 0);
}

/// The share of each head that is turned.
double partial_factor_of(const ConfigReader& config, const RopeKeys& keys,
                         const std::optional<JsonValue>& parameters, std::string_view type) {
  const bool older = config.version() == TransformersVersion::v4;
  if (!older && type == "default" && !keys.default_is_partial) return 1;
  // The frequencies of the rest are zeros.
  if (type == "proportional") return 1;
  const auto inner =
      parameters && !older ? parameters->find("partial_rotary_factor") : std::nullopt;
  const auto factor = inner ? inner : config.find(keys.partial);
  return factor ? factor->number(0, 1) : number_or(keys.default_partial, 1);
}

Rope::Llama3 llama3_of(const JsonValue& parameters, std::int64_t max_positions) {
  Rope::Llama3 llama3{.factor = positive_number(parameters.at("factor")),
                      .low_freq_factor = positive_number(parameters.at("low_freq_factor")),
                      .high_freq_factor = positive_number(parameters.at("high_freq_factor")),
                      .original_max_position_embeddings = max_positions};
  if (llama3.high_freq_factor <= llama3.low_freq_factor)
    throw parameters.error(fmt::format("high_freq_factor {} is not above low_freq_factor {}",
                                       llama3.high_freq_factor, llama3.low_freq_factor));
  if (const auto context = parameters.find("original_max_position_embeddings"))
    llama3.original_max_position_embeddings = context->integer(1, largest_context);
  return llama3;
}

/// Small odd heads stand in test fixtures, and transformers lets them pass.
void check_even(const ConfigReader& config, std::int64_t head_dim, std::int64_t turned) {
  constexpr std::int64_t largest_fixture = 4;
  if (config.version() == TransformersVersion::v4 || !config.find("head_dim")) return;
  if (head_dim > largest_fixture && head_dim % 2 != 0 && turned == head_dim)
    throw config.error("head_dim",
                       fmt::format("head_dim {} is odd, rotary embedding turns pairs", head_dim));
}

/// The kind of scaling, checked to be one that transformers computes for such a config.
std::string checked_type(const ConfigReader& config, const RopeKeys& keys,
                         const std::optional<JsonValue>& parameters) {
  std::string type = type_of(config, parameters);
  if (keys.only_longrope && (type == "su" || type == "yarn")) {
    // Release 5 knows this name too late to fill in what it misses.
    if (type == "su" && config.version() == TransformersVersion::v5)
      parameters->at("original_max_position_embeddings");
    type = "longrope";
  }
  check_type(config, parameters, type);
  const bool multiplies = type == "dynamic" || type == "yarn" || type == "longrope";
  if (keys.null_head_dim && multiplies && !config.find("head_dim"))
    throw parameters->error(fmt::format("rope_type {} needs head_dim", type));
  return type;
}

/// Fills in the rope, or why the native runtime lacks it.
void set_rope(const ConfigReader& config, const RopeKeys& keys,
              const std::optional<JsonValue>& parameters, std::string_view type,
              std::int64_t max_positions, RopeParameters& result) {
  Rope rope{.theta = theta_of(config, keys, parameters)};
  if (type == "linear")
    rope.linear_factor = positive_number(parameters->at("factor"));
  else if (type == "llama3")
    rope.llama3 = llama3_of(*parameters, max_positions);
  else if (type != "default")
    result.why_not = fmt::format("rope_type {} (known are default, linear, llama3)", type);
  if (result.why_not.empty()) result.rope = rope;
}

}  // namespace

RopeParameters read_rope_parameters(const ConfigReader& config, const RopeKeys& keys,
                                    std::int64_t head_dim, std::int64_t max_positions) {
  const auto parameters = parameters_of(config);
  const std::string type = checked_type(config, keys, parameters);
  const double partial = partial_factor_of(config, keys, parameters, type);
  const auto turned = static_cast<std::int64_t>(static_cast<double>(head_dim) * partial);
  check_even(config, head_dim, turned);
  if (keys.only_longrope) check_longrope(parameters, type, turned);
  RopeParameters result;
  result.frequencies = (turned + 1) / 2;
  if (partial != 1) result.why_not = fmt::format("partial rotary, {} of each head", partial);
  if (head_dim % 2 != 0)
    result.why_not = fmt::format("head_dim {} is odd, rotary embedding turns pairs", head_dim);
  set_rope(config, keys, parameters, type, max_positions, result);
  return result;
}

}  // namespace shardscope
