#include "sim/validate/published_experts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "sim/validate/published_row.h"
#include "sim/validate/published_words.h"

namespace shardscope {
namespace {

/// A model of the config.json that its repository publishes.
struct KnownMixture {
  std::string_view name;  ///< letters and digits alone
  std::int64_t hidden, layers, heads, kv_heads, ffn, vocabulary;
  ExpertShape experts;
  std::optional<LatentShape> latents;
};

constexpr LatentShape deepseek_latents{
    .query_rank = 1536, .rank = 512, .plain = 128, .rotary = 64, .value = 128};

/// Source: config.json of deepseek-ai/DeepSeek-V2-Lite, -V2, -V3, moonshotai/Kimi-K2-Base,
/// mistralai/Mixtral-8x22B-v0.1 and -8x7B-v0.1, Qwen/Qwen3-30B-A3B and -235B-A22B. The first name
/// that a model begins with decides.
constexpr std::array<KnownMixture, 10> known_mixtures{
    {{"deepseekv2lite",
      2048,
      27,
      16,
      16,
      10944,
      102400,
      {64, 6, 1408, 2, 1},
      LatentShape{.query_rank = 0, .rank = 512, .plain = 128, .rotary = 64, .value = 128}},
     {"deepseekv2", 5120, 60, 128, 128, 12288, 102400, {160, 6, 1536, 2, 1}, deepseek_latents},
     {"deepseekv3", 7168, 61, 128, 128, 18432, 129280, {256, 8, 2048, 1, 3}, deepseek_latents},
     {"deepseekr1", 7168, 61, 128, 128, 18432, 129280, {256, 8, 2048, 1, 3}, deepseek_latents},
     {"kimi1t", 7168, 61, 64, 64, 18432, 163840, {384, 8, 2048, 1, 1}, deepseek_latents},
     {"kimik2", 7168, 61, 64, 64, 18432, 163840, {384, 8, 2048, 1, 1}, deepseek_latents},
     {"mixtral8x22b", 6144, 56, 48, 8, 16384, 32768, {8, 2, 16384, 0, 0}, {}},
     {"mixtral8x7b", 4096, 32, 32, 8, 14336, 32000, {8, 2, 14336, 0, 0}, {}},
     {"qwen330ba3b", 2048, 48, 32, 4, 6144, 151936, {128, 8, 768, 0, 0}, {}},
     {"qwen3235ba22b", 4096, 94, 64, 4, 12288, 151936, {128, 8, 1536, 0, 0}, {}}}};

/// Models that are cut keep one layer without experts. Source: SimuMax
/// simu_tools/megatron_scripts/scripts/run_pretrain_deepseekv2.sh (MOE_LAYER_FREQ "[0]*1 + ...").
constexpr std::int64_t dense_layers_of_cut = 1;

std::string letters_and_digits(std::string_view text) {
  std::string kept;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)))
      kept += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return kept;
}

template <class T>
void fill(std::optional<T>& field, T value) {
  if (!field) field = value;
}

}  // namespace

std::optional<ExpertShape> stated_experts(std::string_view text) {
  constexpr std::int64_t most_columns = 1 << 22, most_experts = 1 << 12;
  if (!has_word(text, "experts")) return std::nullopt;
  const auto inner = number_after(text, "");
  const auto experts = number_after(text, "x ");
  const auto chosen = number_after(text, "top-");
  if (!inner || !experts || !chosen) return std::nullopt;
  const bool possible = *inner > 0 && *inner <= most_columns && *experts > 0 &&
                        *experts <= most_experts && *chosen > 0 && *chosen <= *experts;
  if (!possible) return std::nullopt;
  return ExpertShape{.experts = *experts, .chosen = *chosen, .inner = *inner};
}

void fill_known_mixture(PublishedRow& row) {
  if (row.hidden) return;
  const std::string name = letters_and_digits(row.model);
  const auto known = std::ranges::find_if(
      known_mixtures, [&](const KnownMixture& mixture) { return name.starts_with(mixture.name); });
  if (known == known_mixtures.end()) return;
  const bool cut = row.layers && *row.layers < known->layers;
  fill(row.hidden, known->hidden);
  fill(row.layers, known->layers);
  fill(row.heads, known->heads);
  fill(row.kv_heads, known->kv_heads);
  fill(row.ffn, known->ffn);
  fill(row.vocabulary, known->vocabulary);
  row.latents = known->latents;
  row.experts = known->experts;
  if (cut) row.experts->dense_layers = std::min(known->experts.dense_layers, dense_layers_of_cut);
}

std::int64_t expert_ranks(const PublishedRow& row) {
  return std::max(1, number_after(row.strategy, "EP").value_or(1));
}

std::string_view why_no_experts(const PublishedRow& row) {
  const std::int64_t ranks = expert_ranks(row);
  if (ranks > 1 && !row.experts) return "expert parallelism: experts not stated";
  if (!row.experts) return {};
  if (row.tensor_parallel.value_or(1) > 1) return "experts with tensor parallelism";
  if (row.experts->experts % ranks != 0) return "expert parallelism: experts do not divide";
  return {};
}

}  // namespace shardscope
