#include "sim/validate/published_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/base/error.h"
#include "sim/validate/published_words.h"

namespace shardscope {
namespace {

/// Megatron's pretraining scripts pad GPT-2's 50257 tokens to a multiple of 128 a rank.
constexpr std::int64_t usual_vocabulary = 50304;
/// How far the shape's parameters may be from params_b, which sources round or count without
/// embeddings.
constexpr double tolerated_difference = 0.2;

struct FamilyWord {
  std::string_view word;
  std::string_view family;
};
constexpr std::array<FamilyWord, 9> family_words{{{"mpt", "gpt2"},
                                                  {"gpt", "gpt2"},
                                                  {"llama", "llama"},
                                                  {"internlm", "llama"},
                                                  {"mistral", "llama"},
                                                  {"nanotron", "llama"},
                                                  {"qwen2", "qwen2"},
                                                  {"qwen", "qwen2"},
                                                  {"opt", "gpt2"}}};

std::string_view family_of(const PublishedRow& row) {
  if (row.latents) return "deepseek_v3";
  if (row.experts) return has_word(row.model, "qwen3") ? "qwen3_moe" : "mixtral";
  for (const FamilyWord& known : family_words)
    if (has_word(row.model, known.word)) return known.family;
  const bool plain = row.ffn.value_or(4 * *row.hidden) == 4 * *row.hidden;
  return plain ? "gpt2" : "llama";
}

double billions(const ShapedModel& made) {
  return static_cast<double>(made.model.parameter_elements()) * 1e-9;
}

double difference(const ShapedModel& made, double stated) {
  return std::abs(billions(made) - stated) / stated;
}

void check_parameters(const ShapedModel& made, double stated) {
  if (difference(made, stated) <= tolerated_difference) return;
  throw Error(
      {.where = "",
       .what = fmt::format("its shape makes {:.2f} billion parameters, params_b says {:.2f}",
                           billions(made), stated)});
}

}  // namespace

std::string missing_shape(const PublishedRow& row) {
  const std::pair<bool, std::string_view> stated[] = {{row.hidden.has_value(), "hidden size"},
                                                      {row.layers.has_value(), "number of layers"},
                                                      {row.heads.has_value(), "number of heads"},
                                                      {row.seq.has_value(), "sequence length"}};
  for (const auto& [is_stated, name] : stated)
    if (!is_stated) return fmt::format("{} not stated", name);
  return {};
}

namespace {

/// Qwen3's heads have a size of their own: config.json of Qwen3-30B-A3B and Qwen3-235B-A22B.
std::int64_t head_size_of(const PublishedRow& row) {
  constexpr std::int64_t of_qwen3 = 128;
  return family_of(row) == "qwen3_moe" ? of_qwen3 : *row.hidden / *row.heads;
}

}  // namespace

DecoderShape shape_of(const PublishedRow& row) {
  return {.family = family_of(row),
          .hidden = *row.hidden,
          .layers = *row.layers,
          .heads = *row.heads,
          .kv_heads = row.kv_heads.value_or(*row.heads),
          .ffn = row.ffn.value_or(4 * *row.hidden),
          .vocabulary = row.vocabulary.value_or(usual_vocabulary),
          .seq = *row.seq,
          .head_size = head_size_of(row),
          .experts = row.experts.value_or(ExpertShape{}),
          .latents = row.latents.value_or(LatentShape{})};
}

ShapedModel published_model(const PublishedRow& row, double dropout) {
  const DecoderShape shape = shape_of(row);
  const bool usually_tied = family_of(row) == "gpt2";
  ShapedModel result = model_of_shape(shape, dropout, usually_tied);
  if (row.parameters_billions) {
    ShapedModel other = model_of_shape(shape, dropout, !usually_tied);
    const double stated = *row.parameters_billions;
    if (difference(other, stated) < difference(result, stated)) result = std::move(other);
    check_parameters(result, stated);
  }
  if (!row.vocabulary)
    result.assumed.push_back(fmt::format("a vocabulary of {} tokens", shape.vocabulary));
  if (row.seq_in_notes)
    result.assumed.push_back(fmt::format("the notes' sequence length of {} tokens", shape.seq));
  if (!row.ffn && !row.experts)
    result.assumed.push_back("feed-forward layers of four times the hidden size");
  return result;
}

}  // namespace shardscope
