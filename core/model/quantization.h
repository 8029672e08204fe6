// A base model whose linear layers are kept in fewer bits: transformers' BitsAndBytesConfig,
// GPTQConfig and AwqConfig.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dtype.h"

namespace shardscope {

enum class QuantizationKind : std::uint8_t { nf4, fp4, int8, gptq, awq };

struct Quantization {
  QuantizationKind kind = QuantizationKind::nf4;
  bool double_quantization = false;          ///< bnb_4bit_use_double_quant
  Dtype compute_dtype = Dtype::float32;      ///< bnb_4bit_compute_dtype
  Dtype storage_dtype = Dtype::uint8;        ///< bnb_4bit_quant_storage
  double outlier_threshold = 6;              ///< llm_int8_threshold
  std::vector<std::string> skipped_modules;  ///< llm_int8_skip_modules; empty: the output embedding
  bool quantizes_output = false;             ///< the output embedding, too
  std::int64_t group_size = 128;             ///< inputs that share a scale, of GPTQ and AWQ
  /// Linear4bit keeps its input until autograd's node goes: bitsandbytes before 0.43.2 (its pull
  /// request 1270).
  bool keeps_inputs = false;
  /// What 4-bit weights are dequantised to before they are cast to what is computed in, if that is
  /// not the dtype that they had: Lightning quantises a copy in float16.
  std::optional<Dtype> quantized_from = {};
  /// bitsandbytes' Linear4bit.
  bool is_4bit() const { return kind == QuantizationKind::nf4 || kind == QuantizationKind::fp4; }
  /// Packed by GPTQ or AWQ before it is loaded: 4 bits, eight in an int32.
  bool is_packed() const { return kind == QuantizationKind::gptq || kind == QuantizationKind::awq; }
  bool operator==(const Quantization&) const = default;
};

}  // namespace shardscope
