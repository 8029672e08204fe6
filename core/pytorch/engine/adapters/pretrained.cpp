#include "core/pytorch/engine/adapters/pretrained.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/model/natural_order.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

bool is_linear(const Module& module) {
  return module.class_name == "Linear" || module.class_name == "Conv1D";
}

/// Whether a name is among llm_int8_skip_modules; without any, the output embedding is.
bool is_skipped(const Quantization& quantization, const std::string& name) {
  if (quantization.skipped_modules.empty())
    return name == "lm_head" && !quantization.quantizes_output;
  return std::any_of(quantization.skipped_modules.begin(), quantization.skipped_modules.end(),
                     [&](const std::string& skipped) {
                       const bool starts =
                           name.starts_with(skipped) &&
                           (name.size() == skipped.size() || name[skipped.size()] == '.');
                       return starts || name.ends_with(skipped);
                     });
}

/// A parameter with the module that is asked how it is kept.
struct Place {
  NamedParameter parameter;
  std::shared_ptr<QuantizedLayer> layer;  ///< of its weight; null: kept as it is
  bool turned = false;                    ///< of a Conv1D
};

const char* class_of(const Quantization& quantization) {
  switch (quantization.kind) {
    case QuantizationKind::gptq:
      return "QuantLinear";
    case QuantizationKind::awq:
      return "WQLinear_GEMM";
    case QuantizationKind::int8:
      return "Linear8bitLt";
    default:
      return "Linear4bit";
  }
}

class Loading {
 public:
  Loading(Session& s, Session& meta, const PretrainedRequest& request)
      : s_(s),
        request_(request),
        module_(make_module(meta, request.model, request.config, request.settings)) {}

  Pretrained run() {
    const NoGrad no_grad(s_);
    if (request_.quantization) replace_layers();
    std::vector<Place> places = places_of_parameters();
    // litgpt makes its modules on the device, one after the other (Fabric.init_module).
    if (request_.model.family != "litgpt") {
      if (request_.warm_up != WarmUp::none && !request_.to_host) warm_up(places);
      std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
        return comes_before(a.parameter.name, b.parameter.name);
      });
    }
    for (const Place& place : places) load(place);
    for (Module* module : modules_of(*module_))
      for (const Module::NamedTensor& own : module->buffers)
        if (own.tensor) own.tensor.set_data(made_like(own.tensor, place_of_rest()));
    return {module_, std::move(quantized_)};
  }

 private:
  /// replace_with_bnb_linear.
  void replace_layers() {
    const Quantization& quantization = *request_.quantization;
    for (Module* module : modules_of(*module_)) {
      if (!is_linear(*module) || is_skipped(quantization, module->name)) continue;
      const Tensor& weight = module->parameters[0].tensor;
      Dims shape = weight.sizes();
      const bool turned = module->class_name == "Conv1D";
      if (turned) shape = {shape[1], shape[0]};
      const auto layer = std::make_shared<QuantizedLayer>(quantization, shape, weight.dtype());
      module->class_name = class_of(quantization);
      module->forward = [layer](Session& s, Module& me, const Arguments& arguments) -> Tensors {
        return {layer->forward(s, me, arguments[0])};
      };
      for (const Module::NamedTensor& own : module->parameters)
        if (own.tensor) own.tensor.set_requires_grad(false);
      quantized_.add({module, layer});
      layers_[module] = {.layer = layer, .turned = turned};
    }
  }

  std::vector<Place> places_of_parameters() const {
    std::vector<Place> places;
    for (const NamedParameter& p : named_parameters_of(*module_)) {
      const auto found = layers_.find(p.module);
      const bool quantized = found != layers_.end() && p.place == 0;
      places.push_back({.parameter = p,
                        .layer = quantized ? found->second.layer : nullptr,
                        .turned = quantized && found->second.turned});
    }
    return places;
  }

  /// accelerate's get_max_memory makes a tensor to wake the device. The segment for it stays
  /// reserved, and the block of a first model is less by that. Of a second one it is not followed.
  std::int64_t without_unused(std::int64_t bytes) {
    constexpr std::int64_t small_segment = std::int64_t{2} << 20;
    empty(s_, {1}, {Dtype::int64, s_.settings.device});
    return bytes > 2 * small_segment ? bytes - small_segment : 0;
  }

  std::int64_t half_bytes_by_parameter(const std::vector<Place>& places) const {
    std::int64_t half_bytes = 0;
    for (const Place& place : places) {
      const Tensor& tensor = place.parameter.tensor();
      const std::int64_t whole = 2 * size_of(tensor.dtype()).count;
      const bool four_bits = place.layer && (place.layer->is_4bit() || place.layer->is_packed());
      half_bytes += tensor.numel() * (!place.layer ? whole : four_bits ? 1 : 2);
    }
    return half_bytes;
  }

  /// 0.95 of what is free in 4.51, all but 1.2 GiB in 4.57.
  std::int64_t most_to_warm_up() const {
    const std::int64_t free = request_.free_memory.count;
    constexpr std::int64_t left_free = 12 * (std::int64_t{1} << 30) / 10;
    if (free == 0) return std::numeric_limits<std::int64_t>::max();
    if (request_.warm_up == WarmUp::with_tied) return free / 100 * 95;
    return std::max<std::int64_t>(0, free - left_free);
  }

  /// get_accelerator_warm_up_factor of 4.57, and the same number in 4.51: 4 of 2.
  std::int64_t half_bytes_of_model(const std::vector<Place>& places) const {
    std::int64_t bytes = 0;
    for (const Place& place : places) {
      const Tensor& tensor = place.parameter.tensor();
      bytes += tensor.numel() * size_of(tensor.dtype()).count;
    }
    if (request_.warm_up == WarmUp::with_tied)
      for (const TiedName& tied : request_.model.tied) {
        const Parameter& parameter =
            request_.model.parameters[request_.model.find(tied.first).value];
        bytes += parameter.elements() * size_of(parameter.dtype).count;
      }
    bytes = std::min(bytes, most_to_warm_up());
    return request_.quantization ? bytes : 2 * bytes;
  }

  void warm_up(const std::vector<Place>& places) {
    const bool by_parameter = request_.warm_up == WarmUp::by_parameter;
    std::int64_t bytes =
        (by_parameter ? half_bytes_by_parameter(places) : half_bytes_of_model(places)) / 2;
    if (request_.automatic_map) bytes = without_unused(bytes);
    constexpr std::int64_t element_bytes = 2;
    if (bytes > 0) empty(s_, {bytes / element_bytes}, {Dtype::float16, s_.settings.device});
  }

  /// Of what is not quantised.
  Device place_of_rest() const {
    const bool meta = s_.settings.device == Device::meta;
    return request_.to_host && !meta ? Device::cpu : s_.settings.device;
  }

  Tensor made_like(const Tensor& tensor, Device device) {
    return empty(s_, tensor.sizes(), {tensor.dtype(), device});
  }

  /// transformers 4.51 modeling_utils.py, _load_state_dict_into_meta_model: under FSDP "we need to
  /// quantize the parameter on the GPU and then cast it to CPU". Its scales stay on the GPU.
  void load(const Place& place) {
    const Tensor& parameter = place.parameter.tensor();
    if (!place.layer) return parameter.set_data(made_like(parameter, place_of_rest()));
    const Tensor value = made_like(parameter, s_.settings.device);
    const Tensor packed = place.layer->quantize(s_, place.turned ? t(s_, value) : value, codes_);
    parameter.set_data(request_.to_host ? to(s_, packed, {.device = place_of_rest()}) : packed);
  }

  struct Replaced {
    std::shared_ptr<QuantizedLayer> layer;
    bool turned = false;
  };

  Session& s_;
  const PretrainedRequest& request_;
  std::shared_ptr<Module> module_;
  QuantizedLayers quantized_;
  std::map<const Module*, Replaced> layers_;
  Tensor codes_;
};

}  // namespace

Pretrained load_pretrained(Session& s, Session& meta, const PretrainedRequest& request) {
  return Loading(s, meta, request).run();
}

/// Source: peft/utils/other.py.
void prepare_for_kbit_training(Session& s, Module& model, const QuantizedLayers& quantized) {
  const NoGrad no_grad(s);
  for (const NamedParameter& p : named_parameters_of(model)) p.tensor().set_requires_grad(false);
  const auto is_gptq = [](const QuantizedLayers::Entry& entry) { return entry.layer->is_gptq(); };
  if (std::ranges::any_of(quantized.entries(), is_gptq)) return;
  for (const NamedParameter& p : named_parameters_of(model)) {
    const Tensor& tensor = p.tensor();
    if (tensor.dtype() != Dtype::float16 && tensor.dtype() != Dtype::bfloat16) continue;
    const auto layer = quantized.find(p.module);
    if (layer && layer->is_4bit() && p.place == 0) continue;  // bfloat16 storage
    tensor.set_data(to(s, tensor, Dtype::float32));
  }
  s.empty_cache();
}

}  // namespace shardscope::eager
