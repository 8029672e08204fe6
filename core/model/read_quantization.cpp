#include "core/model/read_quantization.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "core/base/error.h"

namespace shardscope {
namespace {

bool flag(const JsonValue& config, std::string_view key) {
  const auto value = config.find(key);
  return value && value->boolean();
}

Dtype dtype_in(const JsonValue& config, std::string_view key, Dtype otherwise) {
  const auto value = config.find(key);
  return value ? parse_dtype(value->string(), value->where()) : otherwise;
}

QuantizationKind kind_of_4bit(const JsonValue& config) {
  const auto type = config.find("bnb_4bit_quant_type");
  if (!type || type->string() == "fp4") return QuantizationKind::fp4;
  if (type->string() == "nf4") return QuantizationKind::nf4;
  throw type->error(fmt::format("\"{}\" is no type of bitsandbytes", type->string()),
                    "give nf4 or fp4");
}

Quantization of_bitsandbytes(const JsonValue& config) {
  Quantization result;
  if (flag(config, "load_in_8bit"))
    result.kind = QuantizationKind::int8;
  else if (flag(config, "load_in_4bit"))
    result.kind = kind_of_4bit(config);
  else
    throw config.error("sets neither load_in_4bit nor load_in_8bit", "set one of the two to true");
  result.double_quantization = flag(config, "bnb_4bit_use_double_quant");
  result.compute_dtype = dtype_in(config, "bnb_4bit_compute_dtype", Dtype::float32);
  result.storage_dtype = dtype_in(config, "bnb_4bit_quant_storage", Dtype::uint8);
  if (const auto threshold = config.find("llm_int8_threshold"))
    result.outlier_threshold = threshold->number(0);
  if (const auto skipped = config.find("llm_int8_skip_modules"))
    for (const JsonValue& name : skipped->elements())
      result.skipped_modules.push_back(name.string());
  return result;
}

std::int64_t integer_of(const JsonValue& config, std::string_view key, std::string_view alias,
                        std::int64_t otherwise) {
  for (const std::string_view name : {key, alias})
    if (const auto value = config.find(name)) return value->integer();
  return otherwise;
}

/// GPTQConfig and AwqConfig, whose weights lie packed in the files.
Quantization of_packed(const JsonValue& config, QuantizationKind kind) {
  Quantization result{.kind = kind, .compute_dtype = Dtype::float16};
  const std::int64_t bits = integer_of(config, "bits", "w_bit", 4);
  if (bits != 4)
    throw config.error(fmt::format("weights of {} bits are not modelled", bits),
                       "4 bits are; without quantization_config the weights are whole");
  result.group_size = integer_of(config, "group_size", "q_group_size", 128);
  constexpr std::int64_t whole_row = std::int64_t{1} << 40;
  if (result.group_size == -1) result.group_size = whole_row;
  if (result.group_size < 1)
    throw config.error(fmt::format("group_size is {}", result.group_size),
                       "give a positive number, or -1 for whole rows");
  const auto skipped = config.find("modules_to_not_convert");
  if (skipped && skipped->is_array())
    for (const JsonValue& name : skipped->elements())
      result.skipped_modules.push_back(name.string());
  return result;
}

}  // namespace

std::optional<Quantization> read_quantization(const JsonValue& config) {
  const auto given = config.find("quantization_config");
  if (!given) return std::nullopt;
  const auto method = given->find("quant_method");
  if (method && method->string() == "mxfp4") return std::nullopt;  // made whole to be trained
  if (method && method->string() == "gptq") return of_packed(*given, QuantizationKind::gptq);
  if (method && method->string() == "awq") return of_packed(*given, QuantizationKind::awq);
  if (method && method->string() != "bitsandbytes")
    throw method->error(fmt::format("the method {} is not modelled", method->string()),
                        "bitsandbytes, gptq and awq are; without quantization_config the weights "
                        "are whole");
  return of_bitsandbytes(*given);
}

namespace {

template <class Refusal>
std::int64_t group_of(std::string_view text, const Refusal& refusal) {
  std::int64_t group = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), group);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || group < 1)
    throw refusal(fmt::format("group={} is no positive number", text));
  return group;
}

constexpr std::string_view version_key = "bitsandbytes=";

/// Quantization::keeps_inputs of a version such as 0.43.1.
template <class Refusal>
bool keeps_inputs(std::string_view version, const Refusal& refusal) {
  std::array<int, 3> parts{};
  std::string_view rest = version;
  for (int& part : parts) {
    const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), part);
    if (read.ec != std::errc() || part < 0)
      throw refusal(fmt::format("bitsandbytes={} is no version", version));
    rest.remove_prefix(static_cast<std::size_t>(read.ptr - rest.data()));
    if (rest.empty()) break;
    if (rest.front() != '.') throw refusal(fmt::format("bitsandbytes={} is no version", version));
    rest.remove_prefix(1);
  }
  return parts < std::array{0, 43, 2};
}

}  // namespace

Quantization parse_quantization(std::string_view text, std::string_view where) {
  const auto refusal = [&](std::string what) {
    return Error({.where = std::string(where),
                  .what = std::move(what),
                  .way_out = "for example nf4,double or int8 or nf4,storage=bfloat16"});
  };
  Quantization result{.compute_dtype = Dtype::bfloat16};
  bool first = true;
  while (!text.empty() || first) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const auto dtype_after = [&](std::string_view key) {
      return parse_dtype(part.substr(key.size()), where);
    };
    if (first && part == "nf4")
      result.kind = QuantizationKind::nf4;
    else if (first && part == "fp4")
      result.kind = QuantizationKind::fp4;
    else if (first && part == "int8")
      result.kind = QuantizationKind::int8;
    else if (first && part == "gptq")
      result = {.kind = QuantizationKind::gptq, .compute_dtype = Dtype::float16};
    else if (first && part == "awq")
      result = {.kind = QuantizationKind::awq, .compute_dtype = Dtype::float16};
    else if (first)
      throw refusal(fmt::format("\"{}\" is none of nf4, fp4, int8, gptq, awq", part));
    else if (result.is_packed() && part.starts_with("group="))
      result.group_size = group_of(part.substr(6), refusal);
    else if (result.is_packed())
      throw refusal(fmt::format("\"{}\" is no setting of a packed base; group=128 is", part));
    else if (!result.is_4bit())
      throw refusal(fmt::format("\"{}\" is a setting of 4 bits, not of int8", part));
    else if (part == "double")
      result.double_quantization = true;
    else if (part.starts_with("compute="))
      result.compute_dtype = dtype_after("compute=");
    else if (part.starts_with("storage="))
      result.storage_dtype = dtype_after("storage=");
    else if (part.starts_with(version_key))
      result.keeps_inputs = keeps_inputs(part.substr(version_key.size()), refusal);
    else
      throw refusal(fmt::format("\"{}\" is no setting of a quantised base", part));
    first = false;
  }
  return result;
}

}  // namespace shardscope
