#include "core/recording/recorded_layers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <string_view>
#include <vector>

#include "core/recording/event_log.h"
#include "core/schedule/convolution_rules.h"

namespace shardscope {
namespace {

bool is_any(std::string_view name, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, name) != words.end();
}

/// Of N x channels x ...: the places of an image.
std::int64_t places_of_image(const RecordedTensor& tensor) {
  RecordedTensor places = tensor;
  places.sizes.erase(places.sizes.begin(), places.sizes.begin() + 2);
  return places.elements();
}

std::int64_t places_over_batch(const RecordedTensor& tensor) {
  RecordedTensor image = tensor;
  image.sizes.erase(image.sizes.begin() + 1);
  return image.elements();
}

bool has_channels_last(const RecordedTensor& tensor) {
  return tensor.strides.size() == tensor.sizes.size() && tensor.strides[1] == 1;
}

/// A convolution's tensors. A backward has one product for each gradient that is asked for.
struct Convolution {
  RecordedTensor input, weight, output;
  bool transposed = false;
  bool backward = false;
  std::int64_t products = 1;

  /// Channels of the wider side, which `weight` has one group of.
  std::int64_t groups() const {
    const RecordedTensor& outside = transposed ? output : input;
    return std::max<std::int64_t>(1, outside.sizes[1] / std::max<std::int64_t>(1, weight.sizes[1]));
  }
};

std::optional<Convolution> convolution_in(const RecordedCall& call) {
  const bool is_backward = call.name == "aten.convolution_backward.default";
  if (!is_backward && !call.name.starts_with("aten.cudnn_convolution")) return std::nullopt;
  const std::size_t first = is_backward ? 1 : 0;
  if (call.inputs.size() < first + 2 || call.outputs.empty()) return std::nullopt;
  Convolution layer{.input = call.inputs[first],
                    .weight = call.inputs[first + 1],
                    .output = is_backward ? call.inputs.front() : call.outputs.front(),
                    .backward = is_backward};
  for (const RecordedTensor* const one : {&layer.input, &layer.weight, &layer.output})
    if (one->sizes.size() < 3) return std::nullopt;
  layer.transposed = is_backward ? !call.flags.empty() && call.flags.front()
                                 : call.name.find("transpose") != std::string::npos;
  if (is_backward)
    layer.products = std::ranges::count_if(
        call.outputs, [](const RecordedTensor& one) { return one.sizes.size() > 2; });
  return layer;
}

bool is_plain(const Convolution& layer) {
  return is_plain_product({.input = places_of_image(layer.input),
                           .kernel = places_of_image(layer.weight),
                           .output = places_of_image(layer.output)},
                          size_of(layer.input.dtype).count);
}

/// One tensor says so for all of them. With one place both layouts are the same.
bool lies_last(const Convolution& layer) {
  return has_channels_last(layer.input) || has_channels_last(layer.weight) ||
         has_channels_last(layer.output) ||
         (places_of_image(layer.input) == 1 && places_of_image(layer.output) == 1);
}

/// What a product's kernel takes and makes.
ConvolutionShape shape_of(const Convolution& layer) {
  ConvolutionShape shape{
      .channels = std::max<std::int64_t>(1, layer.input.sizes[1] / layer.groups()),
      .backward = layer.backward};
  const bool lies_well = lies_last(layer) || is_plain(layer);
  if (lies_well) return shape;
  constexpr std::int32_t tensors_of_product = 3;
  shape.rearrangements = tensors_of_product * static_cast<std::int32_t>(layer.products);
  shape.rearranged =
      (layer.input.bytes() + layer.weight.bytes() + layer.output.bytes()) * layer.products;
  return shape;
}

/// One of its products.
MatmulShape product_of(const Convolution& layer) {
  const std::int64_t groups = layer.groups();
  MatmulShape product{
      .batch = groups,
      .m = places_over_batch(layer.transposed ? layer.input : layer.output),
      .n = std::max<std::int64_t>(1, layer.weight.sizes[0] / groups),
      .k = layer.weight.elements() / std::max<std::int64_t>(1, layer.weight.sizes[0])};
  const bool is_by_image = is_plain(layer) && !lies_last(layer);
  if (!is_by_image) return product;
  product.batch = clamped_product({product.batch, layer.input.sizes[0]});
  product.m = places_of_image(layer.input);
  return product;
}

/// Of torch's `mode`: relu and tanh, LSTM, GRU.
std::int64_t gates_of(std::int64_t mode) {
  constexpr std::array<std::int64_t, 4> gates{1, 1, 4, 3};
  return mode >= 0 && mode < static_cast<std::int64_t>(gates.size())
             ? gates[static_cast<std::size_t>(mode)]
             : 1;
}

/// Hidden numbers up to which one kernel keeps all weights. torch asks for it in forwards up to 192
/// and 384, too (use_rnn_persist_small_h in aten/src/ATen/native/cudnn/RNN.cpp), but published
/// times of these are those of the other kernels or longer.
std::int64_t most_hidden_of_persistent(std::int64_t gates) { return gates == 1 ? 256 : 128; }

/// [layers, batch, hidden], which stands among the inputs.
std::int64_t batch_of(const RecordedCall& call, const RecurrentShape& shape) {
  for (const RecordedTensor& tensor : call.inputs)
    if (tensor.sizes.size() == 3 && tensor.sizes[0] == shape.layers &&
        tensor.sizes[2] == shape.hidden)
      return tensor.sizes[1];
  return 0;
}

Flops flops_of(const RecurrentShape& shape) {
  const double tokens = static_cast<double>(shape.steps) * static_cast<double>(shape.batch);
  const double between = static_cast<double>(shape.hidden * shape.directions);
  const double inputs = static_cast<double>(shape.directions) * static_cast<double>(shape.input) +
                        static_cast<double>(shape.layers - shape.directions) * between;
  const double states = static_cast<double>(shape.layers) * static_cast<double>(shape.hidden);
  constexpr double most = 1e18;
  const double flops = 2 * tokens * static_cast<double>(shape.gates * shape.hidden) *
                       (inputs + states) * (shape.backward ? 2 : 1);
  return {static_cast<std::int64_t>(std::min(flops, most))};
}

}  // namespace

std::optional<DeviceWork> convolution_of(const RecordedCall& call) {
  const std::optional<Convolution> layer = convolution_in(call);
  if (!layer) return std::nullopt;
  constexpr std::int64_t least_channels = 8;
  if (layer->groups() > 1 && layer->weight.sizes[1] < least_channels) return std::nullopt;
  MatmulShape product = product_of(*layer);
  product.batch = clamped_product({product.batch, layer->products});
  product = possible(product);
  if (product.batch == 0) return std::nullopt;
  return DeviceWork{.kind = WorkKind::matmul,
                    .dtype = layer->input.dtype,
                    .matmul = product,
                    .convolution = shape_of(*layer),
                    .bytes = bytes_of(call.inputs) + bytes_of(call.outputs),
                    .flops = flops_of(product)};
}

std::optional<DeviceWork> recurrent_of(const RecordedCall& call) {
  const bool is_backward = call.name == "aten._cudnn_rnn_backward.default";
  if (!is_backward && call.name != "aten._cudnn_rnn.default") return std::nullopt;
  constexpr std::size_t mode = 1, hidden = 2, projection = 3, layers = 4;  // after a stride
  constexpr std::size_t batch_first = 0, bidirectional = 2;
  if (call.inputs.empty() || call.numbers.size() <= layers || call.flags.size() <= bidirectional)
    return std::nullopt;
  constexpr std::int64_t most = std::int64_t{1} << 16;
  const auto number = [&](std::size_t place) {
    return std::clamp<std::int64_t>(call.numbers[place], 0, most);
  };
  const std::vector<std::int64_t>& sizes = call.inputs.front().sizes;
  if (sizes.size() < 2) return std::nullopt;
  RecurrentShape shape{.input = std::clamp<std::int64_t>(sizes.back(), 0, most),
                       .hidden = number(hidden),
                       .gates = gates_of(number(mode)),
                       .directions = call.flags[bidirectional] ? 2 : 1,
                       .backward = is_backward};
  shape.layers = number(layers) * shape.directions;
  // Sequences of different lengths lie one after the other: [tokens, input].
  const bool is_packed = sizes.size() == 2;
  if (is_packed) {
    shape.batch = std::clamp<std::int64_t>(batch_of(call, shape), 1, most);
    shape.steps = (std::min(sizes[0], LogLine::largest) + shape.batch - 1) / shape.batch;
  } else {
    const bool is_first = call.flags[batch_first];
    shape.steps = sizes[is_first ? 1 : 0];
    shape.batch = sizes[is_first ? 0 : 1];
  }
  shape.steps = std::clamp<std::int64_t>(shape.steps, 0, most);
  shape.batch = std::clamp<std::int64_t>(shape.batch, 0, most);
  if (possible({1, shape.steps * shape.batch, shape.gates * shape.hidden,
                std::max(shape.input, shape.hidden * shape.directions)})
          .batch == 0)
    return std::nullopt;
  shape.persistent = !is_packed && number(projection) == 0 &&
                     call.inputs.front().dtype != Dtype::float64 &&
                     shape.hidden <= most_hidden_of_persistent(shape.gates);
  return DeviceWork{.kind = WorkKind::matmul,
                    .dtype = call.inputs.front().dtype,
                    .recurrent = shape,
                    .bytes = bytes_of(call.inputs) + bytes_of(call.outputs),
                    .flops = flops_of(shape)};
}

std::optional<DeviceWork> batch_norm_of(const RecordedCall& call) {
  const bool is_forward = is_any(
      call.name, {"aten.cudnn_batch_norm.default", "aten.native_batch_norm.default",
                  "aten._native_batch_norm_legit.default", "aten._native_batch_norm_legit.no_stats",
                  "aten._batch_norm_with_update.default"});
  const bool is_backward = is_any(
      call.name, {"aten.cudnn_batch_norm_backward.default",
                  "aten.native_batch_norm_backward.default", "aten.batch_norm_backward.default"});
  if ((!is_forward && !is_backward) || call.inputs.empty() || call.outputs.empty())
    return std::nullopt;
  // Those that do not say always do: cudnn_batch_norm_backward, _batch_norm_with_update.
  const bool uses_batch = call.flags.empty() || call.flags.front();
  const RecordedTensor& input = call.inputs.front();
  if (!uses_batch || input.sizes.size() < 2) return std::nullopt;
  const std::int64_t read_again = is_backward ? 2 : 1;
  DeviceWork work{.kind = WorkKind::reduction, .dtype = input.dtype};
  work.bytes = bytes_of(call.inputs) + bytes_of(call.outputs);
  if (input.on_device) work.bytes += input.bytes() * read_again;
  if (input.sizes.size() > 2 && !has_channels_last(input)) work.blocks = input.sizes[1];
  return work;
}

}  // namespace shardscope
