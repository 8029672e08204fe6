#include "sim/validate/unsloth_notebooks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace shardscope {
namespace {

/// "Unsloth 2024.11.6: Fast Qwen2 patching" is 2024'11'06.
constexpr int cut_from = 2024'11'07, parts_from = 2025'08'00;
/// Dynamic RoPE came within 2024.7, on 18 July, for Mistral Nemo.
constexpr int grown_from = 2024'07'00, shared_from = 2025'01'01;
/// unsloth/__init__.py sets sizes that are rounded up from 2024-11-17 on (ccf03389), finer ones
/// from 2025-01-07 on (63782ea3). From PyTorch 2.9 on unsloth_zoo leaves the rounding out
/// (e120cac1).
constexpr int rounds_from = 2024'11'08, rounds_finely_from = 2025'01'01;

/// transformers 4.50 came on 2025-03-21.
constexpr int warms_from = 2025'04'00;

struct Notebook {
  std::string_view name;  ///< what every copy of it has in its name; the first that fits counts
  int release;
  /// 10^9 bytes that it loads, of a model in dynamic 4 bits. 0: not printed, or all in 4 bits.
  double file_gb = 0;
};

/// Saved outputs at unslothai/notebooks bdda2efc. Falcon_H1_(0.5B)'s is that of Gemma2_(2B).
constexpr std::array<Notebook, 26> notebooks{{{"TinyLlama_(1.1B)", 2024'01'00},
                                              {"CodeGemma_(7B)", 2024'04'00},
                                              {"Llama3_(8B)-Ollama", 2024'09'00},
                                              {"Llama3_(8B)-", 2024'05'00},
                                              {"Mistral_(7B)-", 2024'05'00},
                                              {"Mistral_v0.3_(7B)", 2024'05'00},
                                              {"Phi_3_Medium", 2024'05'00},
                                              {"Qwen2_(7B)", 2024'06'00},
                                              {"Gemma2_(9B)", 2024'07'00},
                                              {"Mistral_Nemo", 2024'07'00},
                                              {"Gemma2_(2B)", 2024'08'00},
                                              {"Falcon_H1_(0.5B)", 2024'08'00},
                                              {"Llama3.1_(8B)-Alp", 2024'08'00},
                                              {"Phi_3.5_Mini", 2024'08'00},
                                              {"Mistral_Small_(22", 2024'09'00},
                                              {"Qwen2.5_(7B)", 2024'09'00},
                                              {"Llama3.2_(1B_and_3B)", 2024'10'00},
                                              {"Qwen2.5_Coder", 2024'11'06},
                                              {"Phi_4-Conv", 2025'01'05, 10.39},
                                              {"CodeForces-cot", 2025'03'15},
                                              {"Meta-Synthetic-Data", 2025'04'01, 2.35},
                                              {"Meta_Synthetic_Data_", 2025'04'03, 2.35},
                                              {"Qwen3_(14B)", 2025'04'04, 11.12},
                                              {"Llama3.2_(1B)-RAFT", 2025'04'07},
                                              {"Magistral_(24B)", 2025'06'01, 14.90},
                                              {"Qwen3_(32B)", 2025'09'01}}};

/// Null: not known.
const Notebook* notebook_of(std::string_view source) {
  const auto found = std::ranges::find_if(notebooks, [&](const Notebook& notebook) {
    return source.find(notebook.name) != std::string_view::npos;
  });
  return found == notebooks.end() ? nullptr : &*found;
}

/// bitsandbytes' 4 bits with a byte of scale for 64 weights and a float for 256 scales.
constexpr double bytes_in_4_bits = 0.5 + 1.0 / 64 + 4.0 / (64 * 256), bytes_in_16_bits = 2;

/// A file of the model: linear layers of blocks in 4 bits, the rest in 16.
double bytes_of_file(const Model& base) {
  double bytes = 0;
  for (const Parameter& p : base.parameters) {
    const bool packed = p.shape.size() > 1 && p.name.find(".layers.") != std::string::npos;
    bytes += static_cast<double>(p.elements()) * (packed ? bytes_in_4_bits : bytes_in_16_bits);
  }
  return bytes;
}

constexpr std::string_view feed_forward = ".mlp";

double weights_below(const Model& base, const std::string& module) {
  std::int64_t weights = 0;
  for (const Parameter& p : base.parameters)
    if (p.name.starts_with(module + ".")) weights += p.elements();
  return static_cast<double>(weights);
}

}  // namespace

eager::UnslothLoss unsloth_loss_of(std::string_view source) {
  const Notebook* notebook = notebook_of(source);
  if (notebook == nullptr || notebook->release >= parts_from) return eager::UnslothLoss::parts;
  return notebook->release >= cut_from ? eager::UnslothLoss::cut : eager::UnslothLoss::whole;
}

eager::WarmUp unsloth_warm_up_of(std::string_view source) {
  const Notebook* notebook = notebook_of(source);
  if (notebook == nullptr) return eager::WarmUp::by_parameter;
  return notebook->release >= warms_from ? eager::WarmUp::with_tied : eager::WarmUp::none;
}

AllocatorSettings unsloth_allocator_of(std::string_view source) {
  const Notebook* notebook = notebook_of(source);
  std::string_view settings = "expandable_segments:True";
  if (notebook != nullptr && notebook->release >= rounds_finely_from)
    settings = "expandable_segments:True,roundup_power2_divisions:[32:256,64:128,256:64,>:32]";
  else if (notebook != nullptr && notebook->release >= rounds_from)
    settings = "expandable_segments:True,roundup_power2_divisions:[64:128,256:64,>:32]";
  return parse_allocator_settings(settings, "PYTORCH_CUDA_ALLOC_CONF");
}

eager::UnslothRotary unsloth_rotary_of(std::string_view source) {
  const Notebook* notebook = notebook_of(source);
  if (notebook == nullptr || notebook->release >= shared_from) return eager::UnslothRotary::shared;
  return notebook->release >= grown_from ? eager::UnslothRotary::grown_of_layers
                                         : eager::UnslothRotary::whole_of_layers;
}

std::vector<std::string> unsloth_unquantized(std::string_view source, const Model& base) {
  const Notebook* notebook = notebook_of(source);
  if (notebook == nullptr || notebook->file_gb == 0) return {};
  constexpr double bytes_of_gb = 1e9;
  double left = notebook->file_gb * bytes_of_gb - bytes_of_file(base);
  std::vector<std::string> modules;
  for (const Module& module : base.modules) {
    if (!module.name.ends_with(feed_forward)) continue;
    const double more = weights_below(base, module.name) * (bytes_in_16_bits - bytes_in_4_bits);
    if (left < more / 2) break;
    left -= more;
    modules.push_back(module.name);
  }
  if (!modules.empty()) modules.emplace_back("lm_head");
  return modules;
}

}  // namespace shardscope
