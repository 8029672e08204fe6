// A model: a tree of modules with named parameters, as its framework names them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/quantities.h"

namespace shardscope {

using Shape = std::vector<std::int64_t>;
/// Product of the dimensions; 1 for a scalar.
std::int64_t elements_of(const Shape& shape);

struct ExportedStep;

struct ParameterTag;
using ParameterId = Id<ParameterTag>;  ///< index into Model::parameters

/// How a fresh parameter is drawn.
struct Initialization {
  enum class Kind : std::uint8_t { zeros, ones, normal };
  Kind kind = Kind::normal;
  double standard_deviation = 0.02;  ///< normal only
  bool operator==(const Initialization&) const = default;
};

struct Parameter {
  std::string name;  ///< as named_parameters() gives it
  Shape shape;
  Dtype dtype = Dtype::float32;
  bool trainable = true;
  Initialization initialization;

  std::int64_t elements() const { return elements_of(shape); }
  bool operator==(const Parameter&) const = default;
};

/// A parameter that is an earlier one again, in named_parameters(remove_duplicate=False) order.
struct TiedName {
  std::string later;
  std::string first;
  bool operator==(const TiedName&) const = default;
};

struct ModelBuffer {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::float32;
  bool persistent = true;
  bool operator==(const ModelBuffer&) const = default;
};

struct Module {
  std::string name;        ///< "" is the root
  std::string class_name;  ///< empty: not known
  /// Classes above it, nearest first, up to but without torch.nn.Module; empty where the class says
  /// them (module_class_bases).
  std::vector<std::string> bases = {};
  std::string same_as = {};  ///< name of an earlier module that is the same object; empty: none
  bool operator==(const Module&) const = default;
};

// What the native runtime needs to know of a decoder-only transformer to run it. A model family
// fills this in; core/native/lower.h and nothing else reads it, so that a new family of this
// shape is one file.

/// in_out: y = x W (GPT-2's Conv1D); out_in: y = x W^T (torch.nn.Linear).
enum class WeightLayout : std::uint8_t { in_out, out_in };

struct Linear {
  std::string module;  ///< "transformer.h.0.attn.c_attn"
  ParameterId weight;
  ParameterId bias;  ///< none if there is no bias
  std::int64_t in = 0;
  std::int64_t out = 0;
  WeightLayout layout = WeightLayout::out_in;
};

enum class NormKind : std::uint8_t { layer_norm, rms_norm };

struct Norm {
  std::string module;
  NormKind kind = NormKind::layer_norm;
  ParameterId weight;
  ParameterId bias;  ///< layer_norm only
  double epsilon = 1e-5;
};

enum class MlpKind : std::uint8_t { gelu_tanh, swiglu };

struct DecoderBlock {
  std::string module;  ///< "transformer.h.0": the wrapping unit's name
  Norm attention_norm;
  std::vector<Linear> qkv;  ///< one fused (columns q, k, v) or three: q, k, v
  Linear attention_out;
  Norm mlp_norm;
  MlpKind mlp = MlpKind::gelu_tanh;
  std::vector<Linear> mlp_in;  ///< gelu_tanh: one; swiglu: gate, up
  Linear mlp_out;
};

/// Rotary embedding: element i pairs with i + head_dim/2; angle = position * inverse frequency.
struct Rope {
  double theta = 10000;
  struct Llama3 {
    double factor = 8;
    double low_freq_factor = 1;
    double high_freq_factor = 4;
    std::int64_t original_max_position_embeddings = 8192;
    bool operator==(const Llama3&) const = default;
  };
  std::optional<Llama3> llama3;
  std::optional<double> linear_factor;  ///< rope_type linear: every frequency divided by it
  bool operator==(const Rope&) const = default;
};

struct Decoder {
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_positions = 0;
  double attention_scale = 0;                    ///< of q k^T, usually 1/sqrt(head_dim)
  std::vector<double> attention_scale_by_layer;  ///< empty: attention_scale everywhere
  ParameterId token_embedding;
  ParameterId position_embedding;  ///< none under RoPE
  std::optional<Rope> rope;
  std::vector<DecoderBlock> blocks;
  Norm final_norm;
  Linear head;  ///< weight may be the token embedding (tied); never a bias
};

/// Which release of transformers a model is laid out like: 4.57.6 or 5.23.0.
enum class TransformersVersion : std::uint8_t { v4, v5 };
/// "4" or "5"; Error naming `where` otherwise.
TransformersVersion parse_transformers_version(std::string_view text, std::string_view where);

/// A tensor of the files, where it is not a parameter under that parameter's name: renamed, or a
/// slice of it.
struct StoredTensor {
  std::string key;
  ParameterId parameter;
  std::int64_t first = 0;  ///< element of the parameter at which it begins, row-major
  Shape shape;
  /// Tensors of one block are views of the same memory while they are saved, and go to one file.
  /// -1: alone.
  std::int64_t block = -1;

  std::int64_t elements() const { return elements_of(shape); }
  bool operator==(const StoredTensor&) const = default;
};

/// One forward in training mode, as examples/pytorch/export_model.py traced it.
struct ModelTrace {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::vector<std::string> execution_order;  ///< modules as their forward began, each time
  struct OfModule {
    std::string module;
    std::int64_t operators = 0;
    /// What autograd keeps for backward: storages that are no parameter, buffer or input, each
    /// counted where it was kept first.
    Bytes saved;
    bool operator==(const OfModule&) const = default;
  };
  std::vector<OfModule> by_module;  ///< in the order of Model::modules, those with operators

  std::int64_t operators() const;
  Bytes saved() const;
};

/// One of the names under which a parameter is registered.
struct ParameterName {
  std::string_view name;
  ParameterId parameter;
  bool is_first = true;  ///< not a tied one
};

struct Model {
  std::string family;      ///< model_type: "gpt2", "llama"
  std::string class_name;  ///< "GPT2LMHeadModel"
  TransformersVersion transformers = TransformersVersion::v5;
  Dtype dtype = Dtype::float32;
  std::vector<Parameter> parameters;  ///< named_parameters() order, a shared one once
  std::vector<TiedName> tied;
  std::vector<ModelBuffer> buffers;
  std::vector<Module> modules;  ///< named_modules() order
  /// Every name of every parameter as registered, where that is known; empty: in each module its
  /// own before the tied ones, and weights before biases where one is tied.
  std::vector<std::string> registered_names;
  std::string base_model_prefix;  ///< attribute that holds the base model: "transformer", "model"
  /// _no_split_modules: what FSDP wraps by default, sorted; and the same attribute of the class
  /// alone, before the model's parts are asked.
  std::vector<std::string> no_split_classes;
  std::vector<std::string> no_split_classes_of_class;
  /// _keep_in_fp32_modules and _keep_in_fp32_modules_strict, sorted.
  std::vector<std::string> keep_in_fp32;
  std::vector<std::string> keep_in_fp32_strict;
  /// What the files hold, in the order in which they are filled; empty: every parameter under its
  /// own name.
  std::vector<StoredTensor> stored;
  /// Longest sequence that the table of positions has rows for; 0: no table.
  std::int64_t positions = 0;
  /// Largest dropout probability of the config; the native runtime trains without.
  double dropout = 0;
  std::optional<Decoder> decoder;  ///< absent: the native runtime cannot run this class
  std::string why_no_decoder;  ///< then: the reason, for the user ("activation_function relu", ...)
  std::optional<ModelTrace> trace;                ///< of an export that was traced
  std::shared_ptr<const ExportedStep> step = {};  ///< of an export with programs, else null
  std::vector<std::string> assumed;               ///< what its file does not say, for the user

  std::int64_t parameter_elements() const;
  std::int64_t trainable_elements() const;
  /// By first or tied name; none if there is no such parameter.
  ParameterId find(std::string_view name) const;
  /// named_parameters(remove_duplicate=False) order; views of this model's names.
  std::vector<ParameterName> parameter_names() const;
  /// state_dict() order: parameters under every name they have, and persistent buffers.
  std::vector<std::string> state_dict_keys() const;
};

/// All parameters in `dtype`.
Model with_dtype(Model model, Dtype dtype);

/// Error naming `where` for more than 9e15 parameters: below, 16 bytes of each still fit an int64.
void check_size(const Model& model, std::string_view where);

}  // namespace shardscope
