#include "sim/validate/known_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cctype>
#include <cstdint>
#include <vector>

#include "core/model/huggingface.h"
#include "sim/validate/known_positions.h"

namespace shardscope {
namespace {

/// Keys of a config.json. `head` of 0: hidden / heads.
struct PublishedShape {
  std::string_view name;  ///< what every spelling of the name holds, without blanks, - and _
  std::string_view family;
  std::int64_t hidden, layers, heads, kv_heads, ffn, vocabulary;
  bool tied = false;
  std::int64_t head = 0;
  std::string_view more = {};  ///< further members, each with a comma behind it
};

constexpr std::string_view qwen3_experts =
    R"("num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": true, )";
constexpr std::string_view mixtral_experts =
    R"("num_local_experts": 8, "num_experts_per_tok": 2, )";
constexpr std::string_view lfm2_attention = R"("full_attn_idxs": [2, 5, 8, 10, 12, 14], )";
constexpr std::string_view lfm2_experts =
    R"("layer_types": ["conv", "conv", "full_attention", "conv", "conv", "conv", "full_attention", "conv", "conv",
"conv", "full_attention", "conv", "conv", "conv", "full_attention", "conv", "conv", "conv", "full_attention", "conv",
"conv", "full_attention", "conv", "conv"], )";
constexpr std::string_view trinity_nano =
    R"("num_experts": 128, "num_experts_per_tok": 8, "num_shared_experts": 1, "moe_intermediate_size": 256,
"num_dense_layers": 2, "sliding_window": 2048, "mup_enabled": true, )";
constexpr std::string_view gemma4_wide =
    R"("hidden_size_per_layer_input": 0, "attention_k_eq_v": true, "num_global_key_value_heads": 4,
"sliding_window": 1024, )";
constexpr std::string_view gemma4_experts =
    R"("hidden_size_per_layer_input": 0, "attention_k_eq_v": true, "num_global_key_value_heads": 2,
"sliding_window": 1024, "enable_moe_block": true, "num_experts": 128, "top_k_experts": 8,
"moe_intermediate_size": 704, )";

/// The first that the name holds counts. Source: config.json of each repository on the Hub, July
/// 2026. 63 shapes were written from memory on 2026-11-30; docs/measured/2026-11-30_fine_tuning.md
/// says which of their totals were checked. The intermediate_size of Qwen of
/// 2023 is twice `ffn`. Falcon stands as litgpt builds it: Phi's blocks, whose biases are a
/// thousandth of its weights. torchao's own Llama: pytorch/ao 65ac4ecd,
/// benchmarks/quantized_training/pretrain_llama2.py.
constexpr std::array<PublishedShape, 163> shapes{
    {{"torchaollama21b", "llama", 1536, 24, 24, 24, 6144, 32000},
     {"qwen3coder30ba3b", "qwen3_moe", 2048, 48, 32, 4, 5472, 151936, false, 128, qwen3_experts},
     {"qwen330ba3b", "qwen3_moe", 2048, 48, 32, 4, 6144, 151936, false, 128, qwen3_experts},
     {"distillqwen1.5b", "qwen2", 1536, 28, 12, 2, 8960, 151936},
     {"distillqwen7b", "qwen2", 3584, 28, 28, 4, 18944, 152064},
     {"distillqwen14b", "qwen2", 5120, 48, 40, 8, 13824, 152064},
     {"distillqwen32b", "qwen2", 5120, 64, 40, 8, 27648, 152064},
     {"distillllama8b", "llama", 4096, 32, 32, 8, 14336, 128256},
     {"distillllama70b", "llama", 8192, 80, 64, 8, 28672, 128256},
     {"qwen1.50.5b", "qwen2", 1024, 24, 16, 16, 2816, 151936, true},
     {"qwen1.51.8b", "qwen2", 2048, 24, 16, 16, 5504, 151936},
     {"qwen1.54b", "qwen2", 2560, 40, 20, 20, 6912, 151936},
     {"qwen1.57b", "qwen2", 4096, 32, 32, 32, 11008, 151936},
     {"qwen1.514b", "qwen2", 5120, 40, 40, 40, 13696, 152064},
     {"tinyllama", "llama", 2048, 22, 32, 4, 5632, 32000},
     {"llama21b", "llama", 2048, 22, 32, 4, 5632, 32000},
     {"llama270b", "llama", 8192, 80, 64, 8, 28672, 32000},
     {"llama213b", "llama", 5120, 40, 40, 40, 13824, 32000},
     {"llama27b", "llama", 4096, 32, 32, 32, 11008, 32000},
     {"llama3.21b", "llama", 2048, 16, 32, 8, 8192, 128256, true},
     {"llama3.23b", "llama", 3072, 28, 24, 8, 8192, 128256, true, 128},
     {"llama3.370b", "llama", 8192, 80, 64, 8, 28672, 128256},
     {"llama3.170b", "llama", 8192, 80, 64, 8, 28672, 128256},
     {"llama370b", "llama", 8192, 80, 64, 8, 28672, 128256},
     {"llama3.18b", "llama", 4096, 32, 32, 8, 14336, 128256},
     {"llama38b", "llama", 4096, 32, 32, 8, 14336, 128256},
     {"mistral7bv0.3", "mistral", 4096, 32, 32, 8, 14336, 32768},
     {"mistral7b", "mistral", 4096, 32, 32, 8, 14336, 32000},
     {"phi3mini", "phi3", 3072, 32, 32, 32, 8192, 32064},
     {"seedoss36b", "seed_oss", 5120, 64, 80, 8, 27648, 155136, false, 128},
     {"mimo7b", "qwen2", 4096, 36, 32, 8, 11008, 151680},
     {"falcon7b", "phi", 4544, 32, 71, 1, 18176, 65024},
     {"falcon40b", "phi", 8192, 60, 128, 8, 32768, 65024},
     {"yi34b", "llama", 7168, 60, 56, 8, 20480, 64000},
     {"qwen2.50.5b", "qwen2", 896, 24, 14, 2, 4864, 151936, true},
     {"qwen2.51.5b", "qwen2", 1536, 28, 12, 2, 8960, 151936, true},
     {"qwen2.53b", "qwen2", 2048, 36, 16, 2, 11008, 151936, true},
     {"qwen2.57b", "qwen2", 3584, 28, 28, 4, 18944, 152064},
     {"qwen2.514b", "qwen2", 5120, 48, 40, 8, 13824, 152064},
     {"qwen2.5coder0.5b", "qwen2", 896, 24, 14, 2, 4864, 151936, true},
     {"qwen2.5coder1.5b", "qwen2", 1536, 28, 12, 2, 8960, 151936, true},
     {"qwen2.5coder3b", "qwen2", 2048, 36, 16, 2, 11008, 151936, true},
     {"qwen2.5coder7b", "qwen2", 3584, 28, 28, 4, 18944, 152064},
     {"qwen2.5coder32b", "qwen2", 5120, 64, 40, 8, 27648, 152064},
     {"qwen2.5coder14b", "qwen2", 5120, 48, 40, 8, 13824, 152064},
     {"qwen2.532b", "qwen2", 5120, 64, 40, 8, 27648, 152064},
     {"qwen30.6b", "qwen3", 1024, 28, 16, 8, 3072, 151936, true, 128},
     {"qwen314b", "qwen3", 5120, 40, 40, 8, 17408, 151936, false, 128},
     {"qwen1.8b", "qwen", 2048, 24, 16, 16, 5504, 151936},
     {"qwen7b", "qwen", 4096, 32, 32, 32, 11008, 151936},
     {"qwen14b", "qwen", 5120, 40, 40, 40, 13696, 152064},
     {"qwen72b", "qwen", 8192, 80, 64, 64, 24576, 152064},
     {"gemma22b", "gemma2", 2304, 26, 8, 4, 9216, 256000, true, 256},
     {"gemma29b", "gemma2", 3584, 42, 16, 8, 14336, 256000, true, 256},
     {"gemma227b", "gemma2", 4608, 46, 32, 16, 36864, 256000, true, 128},
     {"gemma3270m", "gemma3_text", 640, 18, 4, 1, 2048, 262144, true, 256},
     {"gemma31b", "gemma3_text", 1152, 26, 4, 1, 6912, 262144, true, 256},
     {"gemma34b", "gemma3_text", 2560, 34, 8, 4, 10240, 262208, true, 256},
     {"gemma312b", "gemma3_text", 3840, 48, 16, 8, 15360, 262208, true, 256},
     {"gemma327b", "gemma3_text", 5376, 62, 32, 16, 21504, 262208, true, 128},
     {"gemma2b", "gemma", 2048, 18, 8, 1, 16384, 256000, true, 256},
     {"gemma7b", "gemma", 3072, 28, 16, 16, 24576, 256000, true, 256},
     {"phi1.5", "phi", 2048, 24, 32, 32, 8192, 51200},
     {"phi2", "phi", 2560, 32, 32, 32, 10240, 51200},
     {"smollm33b", "smollm3", 2048, 36, 16, 4, 11008, 128256, true},
     {"stablelm3b", "stablelm", 2560, 32, 32, 32, 6912, 50304},
     {"starcoder23b", "starcoder2", 3072, 30, 24, 2, 12288, 49152, true},
     {"codellama7b", "llama", 4096, 32, 32, 32, 11008, 32016},
     {"codellama13b", "llama", 5120, 40, 40, 40, 13824, 32016},
     {"codellama34b", "llama", 8192, 48, 64, 8, 22016, 32000},
     {"openllama3b", "llama", 3200, 26, 32, 32, 8640, 32000},
     {"llama7b", "llama", 4096, 32, 32, 32, 11008, 32000},
     {"llama13b", "llama", 5120, 40, 40, 40, 13824, 32000},
     {"llama33b", "llama", 6656, 60, 52, 52, 17920, 32000},
     {"llama30b", "llama", 6656, 60, 52, 52, 17920, 32000},
     {"llama65b", "llama", 8192, 80, 64, 64, 22016, 32000},
     {"smollm21.7b", "llama", 2048, 24, 32, 32, 8192, 49152, true},
     {"smollm2360m", "llama", 960, 32, 15, 5, 2560, 49152, true},
     {"smollm2135m", "llama", 576, 30, 9, 3, 1536, 49152, true},
     {"yi6b", "llama", 4096, 32, 32, 4, 11008, 64000},
     {"mistralsmall3.124b", "mistral", 5120, 40, 32, 8, 32768, 131072, false, 128},
     {"mistralsmall22b", "mistral", 6144, 56, 48, 8, 16384, 32768, false, 128},
     {"mistralsmallinstruct2409", "mistral", 6144, 56, 48, 8, 16384, 32768, false, 128},
     {"magistralsmall", "mistral", 5120, 40, 32, 8, 32768, 131072, false, 128},
     {"devstralsmall", "mistral", 5120, 40, 32, 8, 32768, 131072, false, 128},
     {"zephyr7b", "mistral", 4096, 32, 32, 8, 14336, 32000},
     {"solar10.7b", "llama", 4096, 48, 32, 8, 14336, 32000},
     {"mistralnemo", "mistral", 5120, 40, 32, 8, 14336, 131072, false, 128},
     {"mistralsmall24b", "mistral", 5120, 40, 32, 8, 32768, 131072, false, 128},
     {"phi3.5mini", "phi3", 3072, 32, 32, 32, 8192, 32064},
     {"phi3medium", "phi3", 5120, 40, 40, 10, 17920, 32064},
     {"phi4mini", "phi3", 3072, 32, 24, 8, 8192, 200064, true},
     {"phi4", "phi3", 5120, 40, 40, 10, 17920, 100352},
     {"qwen20.5b", "qwen2", 896, 24, 14, 2, 4864, 151936, true},
     {"qwen21.5b", "qwen2", 1536, 28, 12, 2, 8960, 151936, true},
     {"qwen27b", "qwen2", 3584, 28, 28, 4, 18944, 152064},
     {"qwen272b", "qwen2", 8192, 80, 64, 8, 29568, 152064},
     {"qwen2.572b", "qwen2", 8192, 80, 64, 8, 29568, 152064},
     {"qwen31.7b", "qwen3", 2048, 28, 16, 8, 6144, 151936, true, 128},
     {"qwen34b", "qwen3", 2560, 36, 32, 8, 9728, 151936, true, 128},
     {"qwen38b", "qwen3", 4096, 36, 32, 8, 12288, 151936, false, 128},
     {"qwen332b", "qwen3", 5120, 64, 64, 8, 25600, 151936, false, 128},
     {"pythia70m", "gpt_neox", 512, 6, 8, 8, 2048, 50304},
     {"pythia160m", "gpt_neox", 768, 12, 12, 12, 3072, 50304},
     {"pythia410m", "gpt_neox", 1024, 24, 16, 16, 4096, 50304},
     {"pythia1b", "gpt_neox", 2048, 16, 8, 8, 8192, 50304},
     {"pythia1.4b", "gpt_neox", 2048, 24, 16, 16, 8192, 50304},
     {"pythia2.8b", "gpt_neox", 2560, 32, 32, 32, 10240, 50304},
     {"pythia6.9b", "gpt_neox", 4096, 32, 32, 32, 16384, 50432},
     {"pythia12b", "gpt_neox", 5120, 36, 40, 40, 20480, 50688},
     {"stablelmalpha7b", "gpt_neox", 6144, 16, 48, 48, 24576, 50432},
     {"gptoss20b", "gpt_oss", 2880, 24, 64, 8, 2880, 201088, false, 64,
      R"("num_local_experts": 32, "sliding_window": 128, )"},
     {"gptoss120b", "gpt_oss", 2880, 36, 64, 8, 2880, 201088, false, 64,
      R"("num_local_experts": 128, "sliding_window": 128, )"},
     {"mixtral8x7b", "mixtral", 4096, 32, 32, 8, 14336, 32000, false, 0, mixtral_experts},
     {"mixtral8x22b", "mixtral", 6144, 56, 48, 8, 16384, 32768, false, 0, mixtral_experts},
     {"gemma431b", "gemma4_text", 5376, 60, 32, 16, 21504, 262144, true, 256, gemma4_wide},
     {"gemma426ba4b", "gemma4_text", 2816, 30, 16, 8, 2112, 262144, true, 256, gemma4_experts},
     {"gemma4e2b", "gemma4_text", 1536, 35, 8, 1, 6144, 262144, true, 256,
      R"("num_kv_shared_layers": 20, "use_double_wide_mlp": true, )"},
     {"gemma4e4b", "gemma4_text", 2560, 42, 8, 2, 10240, 262144, true, 256,
      R"("num_kv_shared_layers": 18, )"},
     {"medgemma4b", "gemma3_text", 2560, 34, 8, 4, 10240, 262208, true, 256},
     {"granite4.0350m", "granitemoehybrid", 1024, 28, 16, 4, 2048, 100352, true},
     {"granite4.01b", "granitemoehybrid", 2048, 40, 16, 4, 4096, 100352, true},
     {"granite4.0micro", "granitemoehybrid", 2560, 40, 40, 8, 8192, 100352, true},
     {"granite3.12b", "granite", 2048, 40, 32, 8, 8192, 49155, true},
     {"granite3.22b", "granite", 2048, 40, 32, 8, 8192, 49155, true},
     {"granite3.32b", "granite", 2048, 40, 32, 8, 8192, 49159, true},
     {"granite3.18b", "granite", 4096, 40, 32, 8, 12800, 49155, true},
     {"granite3.28b", "granite", 4096, 40, 32, 8, 12800, 49155, true},
     {"granite3.38b", "granite", 4096, 40, 32, 8, 12800, 49159, true},
     {"ministral33b", "ministral3", 3072, 26, 32, 8, 9216, 131072, true, 128},
     {"ministral38b", "ministral3", 4096, 34, 32, 8, 14336, 131072, false, 128},
     {"ministral314b", "ministral3", 5120, 40, 32, 8, 16384, 131072, false, 128},
     {"ministral8b", "mistral", 4096, 36, 32, 8, 12288, 131072, false, 128},
     {"mathstral7b", "mistral", 4096, 32, 32, 8, 14336, 32768},
     {"mistralsmall3.224b", "mistral", 5120, 40, 32, 8, 32768, 131072, false, 128},
     {"olmo37b", "olmo3", 4096, 32, 32, 32, 11008, 100278, false, 0, R"("sliding_window": 4096, )"},
     {"olmo332b", "olmo3", 5120, 64, 40, 8, 27648, 100278, false, 0, R"("sliding_window": 4096, )"},
     {"olmo204251b", "olmo2", 2048, 16, 16, 16, 8192, 100352},
     {"olmo211247b", "olmo2", 4096, 32, 32, 32, 11008, 100352},
     {"olmo2112413b", "olmo2", 5120, 40, 40, 40, 13824, 100352},
     {"olmo2032532b", "olmo2", 5120, 64, 40, 8, 27648, 100352},
     {"exaone4.01.2b", "exaone4", 2048, 30, 32, 8, 4096, 102400, true, 64},
     {"exaone4.032b", "exaone4", 5120, 64, 40, 8, 27392, 102400, false, 128,
      R"("sliding_window": 4096, )"},
     {"glm49bchat", "glm", 4096, 40, 32, 2, 13696, 151552, false, 128},
     {"glm49b0414", "glm4", 4096, 40, 32, 2, 13696, 151552, false, 128},
     {"glm432b0414", "glm4", 6144, 61, 48, 2, 23040, 151552, false, 128},
     {"ernie4.50.3b", "ernie4_5", 1024, 18, 16, 2, 3072, 103424, true, 128},
     {"qwq32b", "qwen2", 5120, 64, 40, 8, 27648, 152064},
     {"stablelm21.6b", "stablelm", 2048, 24, 32, 32, 5632, 100352},
     {"yi1.56b", "llama", 4096, 32, 32, 4, 11008, 64000},
     {"yi1.59b", "llama", 4096, 48, 32, 4, 11008, 64000},
     {"yi1.534b", "llama", 7168, 60, 56, 8, 20480, 64000},
     {"smollm1.7b", "llama", 2048, 24, 32, 32, 8192, 49152, true},
     {"smollm360m", "llama", 960, 32, 15, 5, 2560, 49152, true},
     {"smollm135m", "llama", 576, 30, 9, 3, 1536, 49152, true},
     {"lfm2350m", "lfm2", 1024, 16, 16, 8, 6656, 65536, true, 0, lfm2_attention},
     {"lfm2700m", "lfm2", 1536, 16, 24, 8, 10240, 65536, true, 0, lfm2_attention},
     {"lfm21.2b", "lfm2", 2048, 16, 32, 8, 12288, 65536, true, 0, lfm2_attention},
     {"lfm2.51.2b", "lfm2", 2048, 16, 32, 8, 12288, 65536, true, 0, lfm2_attention},
     {"lfm28ba1b", "lfm2_moe", 2048, 24, 32, 8, 7168, 65536, true, 0, lfm2_experts},
     {"trinitynano", "afmoe", 1024, 56, 8, 2, 3072, 200192, false, 128, trinity_nano},
     {"afm4.5b", "arcee", 2560, 36, 20, 4, 18432, 128004, false, 128},
     {"stablelmalpha3b", "gpt_neox", 4096, 16, 32, 32, 16384, 50688}}};

/// Small letters, without what people put between the parts of a name.
std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (c != ' ' && c != '-' && c != '_')
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// layer_types of a class that has none of its own which fit.
std::string full_layers(std::int64_t layers) {
  std::vector<std::string_view> types(static_cast<std::size_t>(layers), R"("full_attention")");
  return fmt::format("\"layer_types\": [{}], ", fmt::join(types, ", "));
}

/// Granite 4's dense models: their feed-forward part is what the others have beside experts.
std::string granite4_members(const PublishedShape& shape) {
  return full_layers(shape.layers) +
         fmt::format(R"("num_local_experts": 0, "position_embedding_type": "rope",
"shared_intermediate_size": {}, )",
                     shape.ffn);
}

std::string further_members(const PublishedShape& shape) {
  if (shape.family == "granitemoehybrid") return granite4_members(shape);
  const bool windowless = shape.family == "exaone4" && shape.more.empty();
  return windowless ? full_layers(shape.layers) : std::string(shape.more);
}

std::string qwen_config(const PublishedShape& shape) {
  return fmt::format(
      R"({{"model_type": "qwen", "hidden_size": {}, "num_hidden_layers": {}, "num_attention_heads": {},
"kv_channels": {}, "intermediate_size": {}, "vocab_size": {}, "torch_dtype": "bfloat16"}})",
      shape.hidden, shape.layers, shape.heads, shape.hidden / shape.heads, 2 * shape.ffn,
      shape.vocabulary);
}

/// What litgpt's Config has beside the sizes. Source: litgpt 00af8b0d, config.py.
struct LitgptKind {
  std::string_view name;  ///< of a family, or the beginning of a shape's name
  std::string_view norm, feed_forward;
  bool parallel = false, shared_norm = false, bias = false, head_bias = false, scales = false;
  double turned = 1;
};
constexpr std::array<LitgptKind, 10> litgpt_kinds{
    {{"falcon7b", "LayerNorm", "GptNeoxMLP", true, true},
     {"falcon40b", "LayerNorm", "GptNeoxMLP", true, false},
     {"phi2", "LayerNorm", "GptNeoxMLP", true, true, true, true, false, 0.4},
     {"llama", "RMSNorm", "LLaMAMLP"},
     {"mistral", "RMSNorm", "LLaMAMLP"},
     {"phi3", "RMSNorm", "LLaMAMLP"},
     {"gemma", "RMSNorm", "GemmaMLP", false, false, false, false, true},
     {"phi", "LayerNorm", "GptNeoxMLP", true, true, true, true, false, 0.5},
     {"gpt_neox", "LayerNorm", "GptNeoxMLP", true, false, true, false, false, 0.25},
     {"stablelm", "LayerNorm", "LLaMAMLP", false, false, false, false, false, 0.25}}};

/// Null: litgpt's model of it is not known.
const LitgptKind* litgpt_kind(const PublishedShape& shape) {
  for (const LitgptKind& kind : litgpt_kinds)
    if (kind.name == shape.name || kind.name == shape.family) return &kind;
  return nullptr;
}

std::string litgpt_config(const PublishedShape& shape, const LitgptKind& kind) {
  return fmt::format(
      R"({{"model_type": "litgpt", "hidden_size": {}, "num_hidden_layers": {}, "num_attention_heads": {},
"num_key_value_heads": {}, "head_dim": {}, "intermediate_size": {}, "vocab_size": {},
"norm_class_name": "{}", "mlp_class_name": "{}", "parallel_residual": {}, "shared_attention_norm": {},
"bias": {}, "lm_head_bias": {}, "scale_embeddings": {}, "rotary_percentage": {:.2f},
"torch_dtype": "bfloat16"}})",
      shape.hidden, shape.layers, shape.heads, shape.kv_heads,
      shape.head > 0 ? shape.head : shape.hidden / shape.heads, shape.ffn, shape.vocabulary,
      kind.norm, kind.feed_forward, kind.parallel, kind.shared_norm, kind.bias, kind.head_bias,
      kind.scales, kind.turned);
}

/// `name` is the whole one, which may say more than the shape's.
std::string config_of(const PublishedShape& shape, std::string_view name,
                      const KnownModelForm& form) {
  if (const LitgptKind* kind = form.litgpt ? litgpt_kind(shape) : nullptr)
    return litgpt_config(shape, *kind);
  if (shape.family == "qwen") return qwen_config(shape);
  const std::string head =
      shape.head > 0 ? fmt::format("\"head_dim\": {}, ", shape.head) : std::string();
  // Gemma's windows are its config's default; most others' runs had none.
  const bool slides =
      shape.family.starts_with("gemma") || shape.more.find("sliding_window") != std::string::npos;
  const std::string window = slides ? "" : "\"sliding_window\": null, ";
  const std::string activation =
      shape.family == "phi" && form.fused_gelu ? "\"hidden_act\": \"gelu\", " : "";
  const bool split = form.splits_projections && shape.family == "phi3";
  const std::string_view family = split ? "mistral" : shape.family;
  constexpr std::int64_t usual_positions = 131072;
  const std::int64_t positions = form.published_positions ? known_positions(name) : usual_positions;
  return fmt::format(
      R"({{"model_type": "{}", "hidden_size": {}, "num_hidden_layers": {},
"num_attention_heads": {}, "num_key_value_heads": {}, "intermediate_size": {}, "vocab_size": {},
{}{}"max_position_embeddings": {}, {}{}"torch_dtype": "bfloat16",
"tie_word_embeddings": {}}})",
      family, shape.hidden, shape.layers, shape.heads, shape.kv_heads, shape.ffn, shape.vocabulary,
      head, further_members(shape), positions, window, activation, shape.tied && form.may_tie);
}

}  // namespace

std::optional<KnownModel> known_model(std::string_view name, const KnownModelForm& form) {
  const std::string text = std::string(form.own_of) + plain(name);
  for (const PublishedShape& shape : shapes) {
    if (text.find(shape.name) == std::string::npos) continue;
    JsonValue config = JsonValue::parse(config_of(shape, text, form), "shape");
    // Until January 2026 AFMoE ran from the models' own repositories, under transformers 4. LFM2's
    // mixture has run in a main branch before release 5.
    const bool own_file = shape.family == "afmoe" || shape.family == "lfm2_moe";
    Model model = model_of_config(
        config, {.transformers = own_file ? TransformersVersion::v4 : TransformersVersion::v5});
    return KnownModel{
        .name = std::string(shape.name), .model = std::move(model), .config = std::move(config)};
  }
  return std::nullopt;
}

}  // namespace shardscope
