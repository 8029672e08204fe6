#include "sim/validate/sample_lengths.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>

#include "sim/planner/sequence_lengths.h"

namespace shardscope {
namespace {

/// ms-swift 3602360a, docs/source_en/Instruction/Supported-models-and-datasets.md, in tokens of
/// Qwen 2.5.
constexpr SampleLengths self_cognition{58.9, 20.3, 32, 131};
constexpr SampleLengths dpo_emoji{334.0, 162.8, 36, 1801};  // shareAI-Llama3-DPO-zh-en-emoji
constexpr SampleLengths alpaca_cleaned{170.1, 122.9, 29, 1028};
/// 500 samples each of alpaca-gpt4-data-zh, alpaca-gpt4-data-en and self-cognition: "Dataset Token
/// Length" in the public log of such a run, ms-swift 3.8.1, whose address was not kept.
constexpr SampleLengths alpaca_gpt4{130.8, 104.0, 29, 550};

constexpr SampleLengths function_calls{465.3, 320.1, 36, 6106};  // function-calling-chatml

constexpr std::uint32_t orders = 101;

/// What each script of the same commit names after --dataset, or a notebook of unslothai/notebooks
/// bdda2efc in load_dataset.
struct Script {
  std::string_view part;  ///< of the source
  SampleLengths samples;
};
constexpr std::array<Script, 31> scripts{
    {{"examples/train/multi-gpu/ddp/", self_cognition},
     {"examples/train/multi-gpu/ddp_device", self_cognition},
     {"examples/train/multi-gpu/deepspeed/", self_cognition},
     {"examples/train/multi-gpu/fsdp2_lora/", self_cognition},
     {"examples/train/multi-gpu/fsdp_qlora/", self_cognition},
     {"examples/train/streaming/lazy_", self_cognition},
     {"examples/train/tuners/", self_cognition},
     {"examples/models/gpt_oss/train", alpaca_gpt4},
     {"qwen2_5-self-cognition/sft", alpaca_gpt4},
     {"examples/train/early_stop/", alpaca_gpt4},
     // Its figure is of 2024-12-05 (b40f31df), when it named this set.
     {"examples/train/full/train", self_cognition},
     {"examples/train/lora_sft", alpaca_gpt4},
     {"examples/train/optimizer/muon", alpaca_gpt4},
     {"examples/train/qlora/awq/", alpaca_gpt4},
     {"examples/train/qlora/bnb/", alpaca_gpt4},
     {"examples/train/qlora/hqq", alpaca_gpt4},
     {"examples/train/rlhf/dpo/", dpo_emoji},
     {"examples/train/rlhf/simpo", dpo_emoji},
     {"examples/megatron/lora/dense", alpaca_gpt4},
     {"examples/megatron/lora/loss_scale", function_calls},
     {"examples/megatron/muon", alpaca_gpt4},
     {"examples/megatron/sft", alpaca_gpt4},
     {"nb/Gemma2_(2B)-Alpaca", alpaca_cleaned},
     {"nb/Gemma2_(9B)-Alpaca", alpaca_cleaned},
     {"nb/Llama3.1_(8B)-Alpaca", alpaca_cleaned},
     {"nb/Llama3_(8B)-Alpaca", alpaca_cleaned},
     {"nb/Mistral_Nemo_(12B)-Alpaca", alpaca_cleaned},
     {"nb/Mistral_v0.3_(7B)-Alpaca", alpaca_cleaned},
     {"nb/Qwen2.5_(7B)-Alpaca", alpaca_cleaned},
     {"nb/Qwen2_(7B)-Alpaca", alpaca_cleaned},
     {"nb/Qwen3_(14B)-Alpaca", alpaca_cleaned}}};

class LengthGenerator {
 public:
  LengthGenerator(const SampleLengths& samples, std::uint32_t order)
      : samples_(samples), bits_(order) {}

  std::int64_t next() {
    const auto least = static_cast<double>(samples_.least);
    const auto greatest = static_cast<double>(samples_.greatest);
    return static_cast<std::int64_t>(std::clamp(std::round(log_normal()), least, greatest));
  }

 private:
  double uniform() { return (static_cast<double>(bits_()) + 0.5) / 4294967296.0; }

  double log_normal() {
    const double relative = samples_.deviation / samples_.mean;
    const double variance = std::log1p(relative * relative);
    const double radius = std::sqrt(-2 * std::log(uniform()));  // Box and Muller
    const double normal = radius * std::cos(2 * std::numbers::pi * uniform());
    return samples_.mean * std::exp(std::sqrt(variance) * normal - variance / 2);
  }

  SampleLengths samples_;
  std::mt19937 bits_;
};

}  // namespace

std::optional<SampleLengths> sample_lengths(std::string_view source) {
  if (!source.starts_with("modelscope/ms-swift ") && !source.starts_with("unslothai/notebooks "))
    return std::nullopt;
  const auto found = std::ranges::find_if(scripts, [&](const Script& script) {
    return source.find(script.part) != std::string_view::npos;
  });
  return found == scripts.end() ? std::nullopt : std::optional(found->samples);
}

std::vector<std::int64_t> drawn_lengths(const SampleLengths& samples,
                                        std::optional<std::int64_t> cap, std::int64_t sequences,
                                        int micro_batches, std::uint32_t order) {
  LengthGenerator generator(samples, order);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(micro_batches), 0);
  for (std::int64_t& length : lengths) {
    for (std::int64_t i = 0; i < sequences; ++i) length = std::max(length, generator.next());
    if (cap) length = std::min(length, *cap);
  }
  return lengths;
}

std::int64_t greatest_sum(const SampleLengths& samples, std::optional<std::int64_t> cap,
                          std::int64_t sequences, int micro_batches) {
  std::vector<std::int64_t> greatest;
  for (std::uint32_t order = 1; order <= orders; ++order) {
    const std::vector<std::int64_t> lengths =
        drawn_lengths(samples, cap, 1, micro_batches * static_cast<int>(sequences), order);
    greatest.push_back(0);
    for (auto first = lengths.begin(); first != lengths.end(); first += sequences)
      greatest.back() =
          std::max(greatest.back(), std::accumulate(first, first + sequences, std::int64_t{0}));
  }
  std::ranges::sort(greatest);
  return greatest[orders / 2];
}

std::vector<std::int64_t> growing_lengths(const SampleLengths& samples,
                                          std::optional<std::int64_t> cap, std::int64_t sequences,
                                          int micro_batches) {
  return planner::growing_lengths([&](std::uint32_t order) {
    return drawn_lengths(samples, cap, sequences, micro_batches, order);
  });
}

}  // namespace shardscope
