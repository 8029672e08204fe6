// Linear layers of bitsandbytes, GPTQ and AWQ: what they keep of a weight, and what they run.
// Source: bitsandbytes 0.50.2; packed.cpp names the others'.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/model/quantization.h"
#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

/// Memory that weights are dequantised into one after the other, as large as the largest of them.
struct DequantizeBuffers {
  Tensor weight, absmax;
};

/// Linear4bit's or Linear8bitLt's state beside the packed weight, which is a parameter of the
/// module.
class QuantizedLayer {
 public:
  QuantizedLayer(Quantization settings, Dims shape, Dtype dtype)
      : settings_(std::move(settings)),
        shape_(shape),
        dtype_(settings_.quantized_from.value_or(dtype)) {}

  bool is_4bit() const { return settings_.is_4bit(); }
  bool is_packed() const { return settings_.is_packed(); }
  bool is_gptq() const { return settings_.kind == QuantizationKind::gptq; }
  const Dims& shape() const { return shape_; }  ///< of the weight: out x in
  /// What PEFT makes adapters in before it casts them: the dtype of a 4-bit base's products, or the
  /// integer that int8 and packed weights are kept in.
  Dtype adapter_dtype() const { return is_4bit() ? settings_.compute_dtype : Dtype::int8; }

  /// Params4bit._quantize or Int8Params._quantize of a weight on the device; returns what is kept.
  /// `codes` is the table of 8-bit numbers that all layers share, made when it is first needed.
  Tensor quantize(Session& s, const Tensor& weight, Tensor& codes);
  /// The same of another weight of that shape, with the table that the layer was made with.
  Tensor requantize(Session& s, const Tensor& weight);
  /// Lets go of the state, tensor by tensor.
  void let_go();
  /// dequantize_module_weight: of 4 bits in the weight's dtype before, of int8 in float32.
  Tensor dequantized(Session& s, const Tensor& packed) const;
  /// The same of 4 bits into `buffers`, which grow where they are too small.
  Tensor dequantized_in(Session& s, const Tensor& packed, DequantizeBuffers& buffers) const;
  /// copy.deepcopy of the module: its tensors live until the copy is let go.
  struct Copy {
    Tensors tensors;
    Tensor packed;
  };
  Copy copied(Session& s, const Module& module) const;

  /// Linear4bit.forward or Linear8bitLt.forward; of the module {weight, bias}.
  Tensor forward(Session& s, Module& module, Tensor x) const;

  /// The tensors beside the packed weight, with bitsandbytes' names.
  std::vector<std::pair<std::string, Tensor>> state() const;
  /// The entries beside the packed weight that the module adds to a state dict, by name behind the
  /// module's; the second table as a copy. Source: nn/modules.py, _save_to_state_dict, and
  /// functional.py, QuantState.as_dict.
  std::vector<std::pair<std::string, Tensor>> saved_state(Session& s) const;

 private:
  Tensor packed_description(Session& s) const;
  Tensor quantize_4bit(Session& s, const Tensor& weight, Tensor& codes);
  Tensor quantize_int8(Session& s, const Tensor& weight);
  Tensor dequantize_4bit(Session& s, const Tensor& packed) const;
  Tensor gemm_4bit(Session& s, const Tensor& x, const Tensor& packed, const Tensor& bias) const;
  Tensor matmul_4bit(Session& s, Tensor x, const Tensor& packed, const Tensor& bias) const;
  Tensor matmul_int8(Session& s, const Tensor& x, const Tensor& packed, const Tensor& bias) const;
  Tensor load_packed(Session& s, Device device);
  Tensor dequantize_gptq(Session& s, const Tensor& packed) const;
  Tensor dequantize_awq(Session& s, const Tensor& packed) const;
  Tensor matmul_gptq(Session& s, const Tensor& x, const Tensor& packed) const;
  Tensor matmul_awq(Session& s, const Tensor& x, const Tensor& packed) const;
  Tensor forward_packed(Session& s, Module& module, const Tensor& x) const;
  Tensor int8_product(Session& s, Tensor x, const Tensor& packed, const Tensor& bias) const;

  Quantization settings_;
  Dims shape_;
  Dtype dtype_;
  Tensor absmax_, code_;  // of 4 bits
  Tensor offset_;         // of double quantisation, as is what follows
  Tensor second_absmax_, second_code_;
  Tensor scales_;         // of int8: SCB; of a packed weight: of its groups
  Tensor zeros_, order_;  // of a packed weight: qzeros, g_idx
  Tensor codes_;          // shared by all layers
};

/// The quantised layers of a model.
class QuantizedLayers {
 public:
  struct Entry {
    const Module* module;
    std::shared_ptr<QuantizedLayer> layer;
  };
  void add(Entry entry) { entries_.push_back(std::move(entry)); }
  /// Null: the module is not quantised.
  std::shared_ptr<const QuantizedLayer> find(const Module* module) const;
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

/// Whether bitsandbytes multiplies by 4-bit weights with a kernel of its own, instead of
/// dequantising them: `rows` of x, and a weight of `out` x `in`. Source: backends/cuda/ops.py,
/// gemm_4bit and _gemm_4bit_use_custom_cuda.
struct Gemm4bit {
  int compute_capability;
  Dtype dtype;
  std::int64_t rows, out, in;
};
bool uses_own_kernel(const Gemm4bit& product);

}  // namespace shardscope::eager
