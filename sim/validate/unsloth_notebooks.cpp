#include "sim/validate/unsloth_notebooks.h"

#include <algorithm>
#include <array>

namespace shardscope {
namespace {

/// What the saved output of a notebook calls its release ("Unsloth 2024.11.6: Fast Qwen2
/// patching"), at unslothai/notebooks bdda2efc: 2024.1 to 2024.11.6.
constexpr std::array<std::string_view, 17> whole{
    "TinyLlama_(1.1B)",  "CodeGemma_(7B)", "Llama3_(8B)-",      "Mistral_(7B)-",
    "Mistral_v0.3_(7B)", "Phi_3_Medium",   "Qwen2_(7B)",        "Gemma2_(9B)",
    "Gemma2_(2B)",       "Mistral_Nemo",   "Llama3.1_(8B)-Alp", "Phi_3.5_Mini",
    "Mistral_Small_(22", "Qwen2.5_(7B)",   "Qwen2.5_Coder",     "Llama3.2_(1B_and_3B)",
    "Falcon_H1_(0.5B)"};
/// 2025.1.5 to 2025.6.1.
constexpr std::array<std::string_view, 7> cut{
    "Phi_4-Conv",           "CodeForces-cot", "Llama3.2_(1B)-RAFT", "Meta-Synthetic-Data",
    "Meta_Synthetic_Data_", "Qwen3_(14B)",    "Magistral_(24B)"};

template <std::size_t n>
bool names_one(std::string_view source, const std::array<std::string_view, n>& notebooks) {
  return std::ranges::any_of(notebooks, [&](std::string_view notebook) {
    return source.find(notebook) != std::string_view::npos;
  });
}

}  // namespace

eager::UnslothLoss unsloth_loss_of(std::string_view source) {
  if (names_one(source, whole)) return eager::UnslothLoss::whole;
  return names_one(source, cut) ? eager::UnslothLoss::cut : eager::UnslothLoss::parts;
}

}  // namespace shardscope
