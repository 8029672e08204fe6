#include "core/recording/recorded_operator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <utility>

#include "core/pytorch/engine/observer.h"
#include "core/pytorch/engine/operator_kind.h"
#include "core/pytorch/runtimes/record/operator_work.h"
#include "core/recording/event_log.h"
#include "core/recording/recorded_layers.h"

namespace shardscope {
namespace {

struct NamedDtype {
  std::string_view name;
  Dtype dtype;
  int parts = 1;
};
constexpr std::array<NamedDtype, 16> dtypes{{{"f32", Dtype::float32},
                                             {"bf16", Dtype::bfloat16},
                                             {"f16", Dtype::float16},
                                             {"f64", Dtype::float64},
                                             {"i64", Dtype::int64},
                                             {"i32", Dtype::int32},
                                             {"bool", Dtype::boolean},
                                             {"u8", Dtype::uint8},
                                             {"i8", Dtype::int8},
                                             {"Short", Dtype::int16},
                                             {"UInt16", Dtype::int16},
                                             {"UInt32", Dtype::int32},
                                             {"UInt64", Dtype::uint64},
                                             {"ComplexHalf", Dtype::float16, 2},
                                             {"ComplexFloat", Dtype::float32, 2},
                                             {"ComplexDouble", Dtype::float64, 2}}};

NamedDtype dtype_of(std::string_view name) {
  for (const NamedDtype& known : dtypes)
    if (known.name == name) return known;
  return {name, Dtype::uint8};
}

std::vector<std::int64_t> numbers_of(std::string_view text) {
  std::vector<std::int64_t> numbers;
  while (!text.empty()) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return numbers;
    numbers.push_back(number);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.empty()) text.remove_prefix(1);
  }
  return numbers;
}

template <class Function>
void for_each_argument(std::string_view description, const Function& function) {
  for (std::size_t begin = 0; begin < description.size();) {
    const std::size_t end = std::min(description.find(';', begin), description.size());
    function(description.substr(begin, end - begin));
    begin = end + 1;
  }
}

/// "bf16[4,8]/8,1"; none of a number or what is not defined.
std::optional<RecordedTensor> tensor_of(std::string_view word) {
  const std::size_t open = word.find('['), close = word.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    return std::nullopt;
  RecordedTensor tensor;
  std::string_view type = word.substr(0, open);
  if (const std::size_t colon = type.find(':'); colon != std::string_view::npos) {
    tensor.on_device = false;
    type.remove_prefix(colon + 1);
  }
  const NamedDtype named = dtype_of(type);
  tensor.dtype = named.dtype;
  tensor.parts = named.parts;
  tensor.sizes = numbers_of(word.substr(open + 1, close - open - 1));
  if (word.size() > close + 1 && word[close + 1] == '/')
    tensor.strides = numbers_of(word.substr(close + 2));
  return tensor;
}

std::vector<bool> flags_of(std::string_view description) {
  std::vector<bool> flags;
  for_each_argument(description, [&](std::string_view word) {
    if (word == "True" || word == "False") flags.push_back(word == "True");
  });
  return flags;
}

std::vector<std::int64_t> integers_of(std::string_view description) {
  std::vector<std::int64_t> integers;
  for_each_argument(description, [&](std::string_view word) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error == std::errc() && end == word.data() + word.size()) integers.push_back(number);
  });
  return integers;
}

bool has_any(std::string_view name, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return name.find(word) != std::string_view::npos;
  });
}

/// Of cudaDataType_t: 0 float32, 1 float64, 2 float16, 14 bfloat16; float8 computes as bytes do.
Dtype dtype_of_product(int type) {
  switch (type) {
    case 0:
      return Dtype::float32;
    case 1:
      return Dtype::float64;
    case 2:
      return Dtype::float16;
    case 14:
      return Dtype::bfloat16;
    default:
      return Dtype::uint8;
  }
}

/// Forwards of efficient and cuDNN attention say first whether they return the log-sum-exp.
bool is_causal(const RecordedCall& call) {
  const bool is_second =
      call.name.find("backward") == std::string::npos && has_any(call.name, {"efficient", "cudnn"});
  const std::size_t place = is_second ? 1 : 0;
  return place < call.flags.size() && call.flags[place];
}

AttentionShape attention_of(const RecordedCall& call, const eager::OperatorTrait& trait) {
  const std::size_t first = trait.kind == WorkKind::attention_backward ? 1 : 0;
  if (call.inputs.size() < first + 2) return {};
  const auto &q = call.inputs[first].sizes, &k = call.inputs[first + 1].sizes;
  if (q.size() != 4 || k.size() != 4) return {};
  return {.batch = q[0],
          .heads = q[1],
          .kv_heads = k[1],
          .queries = q[2],
          .keys = k[2],
          .head_dim = q[3],
          .library = trait.library,
          .causal = is_causal(call)};
}

/// Of a product's factors and result.
Bytes operand_bytes(const MatmulShape& shape, Dtype dtype) {
  const auto [batch, m, n, k] =
      std::array{static_cast<double>(shape.batch), static_cast<double>(shape.m),
                 static_cast<double>(shape.n), static_cast<double>(shape.k)};
  const double elements = batch * (m * k + k * n + m * n);
  return shardscope::bytes_of(
      static_cast<std::int64_t>(std::min(elements, static_cast<double>(LogLine::largest >> 4))),
      dtype);
}

/// Of ncclDataType_t.
Dtype dtype_of_nccl(std::int64_t type) {
  constexpr std::array types{Dtype::int8,    Dtype::uint8,   Dtype::int32,   Dtype::int32,
                             Dtype::int64,   Dtype::uint64,  Dtype::float16, Dtype::float32,
                             Dtype::float64, Dtype::bfloat16};
  return type >= 0 && static_cast<std::size_t>(type) < types.size()
             ? types[static_cast<std::size_t>(type)]
             : Dtype::uint8;
}

}  // namespace

std::int64_t clamped_product(const std::vector<std::int64_t>& factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors)
    if (__builtin_mul_overflow(product, std::max<std::int64_t>(0, factor), &product))
      return LogLine::largest;
  return std::min(product, LogLine::largest);
}

Bytes bytes_of(std::span<const RecordedTensor> tensors) {
  Bytes sum;
  for (const RecordedTensor& tensor : tensors)
    if (tensor.on_device) sum += tensor.bytes();
  return sum;
}

MatmulShape possible(const MatmulShape& shape) {
  const auto [batch, m, n, k] =
      std::array{static_cast<double>(shape.batch), static_cast<double>(shape.m),
                 static_cast<double>(shape.n), static_cast<double>(shape.k)};
  constexpr double most = 1e15;
  return batch * (m * k + k * n + m * n) < most ? shape : MatmulShape{};
}

Flops flops_of(const MatmulShape& shape) {
  return {2 * clamped_product({shape.batch, shape.m, shape.n, shape.k})};
}

std::int64_t RecordedTensor::elements() const { return clamped_product(sizes); }

Bytes RecordedTensor::bytes() const {
  std::int64_t count = elements();
  if (strides.size() == sizes.size())
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (strides[i] == 0 && sizes[i] > 0) count /= sizes[i];
  return shardscope::bytes_of(count, dtype) * parts;
}

std::vector<RecordedTensor> tensors_of(std::string_view description) {
  std::vector<RecordedTensor> tensors;
  std::size_t begin = 0;
  while (begin < description.size()) {
    const std::size_t end = std::min(description.find_first_of("; {}", begin), description.size());
    if (auto tensor = tensor_of(description.substr(begin, end - begin)))
      tensors.push_back(std::move(*tensor));
    begin = end + 1;
  }
  return tensors;
}

std::string shapes_text(std::string_view description) {
  std::string text;
  for (const RecordedTensor& tensor : tensors_of(description)) {
    if (tensor.sizes.empty()) continue;
    text += fmt::format("{}{}", text.empty() ? "" : " ", fmt::join(tensor.sizes, "x"));
  }
  return text;
}

RecordedCall recorded_call(std::string name, std::string_view inputs, std::string_view outputs) {
  return {.name = std::move(name),
          .inputs = tensors_of(inputs),
          .outputs = tensors_of(outputs),
          .flags = flags_of(inputs),
          .numbers = integers_of(inputs)};
}

std::string operator_name(std::string_view recorded) {
  const std::size_t colons = recorded.find("::");
  if (colons == std::string_view::npos) return std::string(recorded);
  const std::string_view rest = recorded.substr(colons + 2);
  std::string name = std::string(recorded.substr(0, colons)) + "." + std::string(rest);
  return rest.find('.') == std::string_view::npos ? name + ".default" : name;
}

DeviceWork work_of(const RecordedProduct& product) {
  const MatmulShape shape = possible(product.shape);
  DeviceWork work{
      .kind = WorkKind::matmul, .dtype = dtype_of_product(product.type), .matmul = shape};
  work.bytes = operand_bytes(shape, work.dtype);
  work.flops = flops_of(shape);
  return work;
}

OperationKind kind_of_collective(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, OperationKind>, 8> kinds{
      {{"all_reduce", OperationKind::all_reduce},
       {"all_gather", OperationKind::all_gather},
       {"reduce_scatter", OperationKind::reduce_scatter},
       {"broadcast", OperationKind::broadcast},
       {"reduce", OperationKind::reduce},
       {"all_to_all", OperationKind::all_to_all},
       {"send", OperationKind::send},
       {"receive", OperationKind::receive}}};
  for (const auto& [known, kind] : kinds)
    if (known == name) return kind;
  return OperationKind::all_reduce;
}

Collective collective_of(OperationKind kind, std::int64_t count, std::int64_t type,
                         std::int64_t ranks) {
  Collective collective{
      .group = {}, .elements_in = count, .elements_out = count, .dtype = dtype_of_nccl(type)};
  if (kind == OperationKind::all_gather) collective.elements_out = count * ranks;
  if (kind == OperationKind::reduce_scatter) collective.elements_in = count * ranks;
  return collective;
}

/// The first `lists` lists of tensors of a call; of one that takes none, as many inputs.
std::span<const RecordedTensor> first_lists(const RecordedCall& call,
                                            const eager::OperatorTrait& trait, int lists) {
  const std::size_t length =
      trait.lists == 0 ? 1 : call.inputs.size() / static_cast<std::size_t>(trait.lists);
  return std::span(call.inputs)
      .first(std::min(length * static_cast<std::size_t>(lists), call.inputs.size()));
}

/// Its results are its last arguments: aten.mm.out, aten.arange.start_out. Some return nothing.
bool writes_its_arguments(std::string_view name) {
  return name.ends_with(".out") || name.ends_with("_out");
}

/// Of a sparse factor the description has indices and values: no rows and columns.
bool is_dense_product(const RecordedCall& call) {
  const std::size_t first = eager::first_factor(call.name, call.inputs.size());
  const auto &a = call.inputs[first].sizes, &b = call.inputs[first + 1].sizes;
  if (a.empty() || b.empty()) return false;
  return a.back() == b[b.size() > 1 ? b.size() - 2 : 0] || call.name.starts_with("aten._");
}

/// A product whose kernel is not cuBLAS's: grouped ones, and some in 8 bits. Zero where its sizes
/// are not those of a product.
MatmulShape matmul_of(const RecordedCall& call) {
  if (call.outputs.empty() || call.inputs.size() < 2) return {};
  const std::size_t first = eager::first_factor(call.name, call.inputs.size());
  const auto sizes = [](const RecordedTensor& tensor) {
    eager::Dims dims;
    if (tensor.sizes.size() > eager::Dims::capacity) return dims;
    constexpr std::int64_t most = std::int64_t{1} << 31;
    for (const std::int64_t size : tensor.sizes)
      dims.push_back(std::clamp<std::int64_t>(size, 0, most));
    return dims;
  };
  return possible(eager::matmul_shape(call.name, sizes(call.inputs[first]),
                                      sizes(call.inputs[first + 1]), sizes(call.outputs.front())));
}

/// A triangular system as a product of as many flops: n * n for each of the columns that an n x n
/// matrix is divided out of. Each block of rows waits for those before it, which is left out.
std::optional<DeviceWork> triangular_of(const RecordedCall& call) {
  const bool has_columns_first = call.name.starts_with("aten.triangular_solve.");
  if (!has_columns_first && !call.name.starts_with("aten.linalg_solve_triangular."))
    return std::nullopt;
  if (call.inputs.size() < 2 || call.outputs.empty()) return std::nullopt;
  const RecordedTensor& matrix = call.inputs[has_columns_first ? 1 : 0];
  const RecordedTensor& result = call.outputs.front();  // which has the sizes of broadcast batches
  const std::int64_t n = matrix.sizes.empty() ? 0 : matrix.sizes.back();
  if (n <= 0 || matrix.elements() <= 0) return std::nullopt;
  const std::int64_t matrices = std::max<std::int64_t>(1, matrix.elements() / n / n);
  const MatmulShape product = possible({.batch = matrices,
                                        .m = result.elements() / n / matrices,
                                        .n = n,
                                        .k = std::max<std::int64_t>(1, n / 2)});
  return DeviceWork{.kind = WorkKind::matmul,
                    .dtype = matrix.dtype,
                    .matmul = product,
                    .bytes = matrix.bytes() + result.bytes() * 2,
                    .flops = flops_of(product)};
}

DeviceWork work_of(RecordedCall call, int launches) {
  for (const auto layer_of : {convolution_of, recurrent_of, batch_norm_of, triangular_of})
    if (std::optional<DeviceWork> work = layer_of(call)) {
      work->launches = std::max(1, launches);
      return *work;
    }
  const bool results_are_given = writes_its_arguments(call.name);
  if (results_are_given)
    call.inputs.resize(call.inputs.size() - std::min(call.inputs.size(), call.outputs.size()));
  const eager::OperatorTrait trait =
      eager::trait_of({call.name, eager::kind_of_operator(call.name)});
  const Bytes given = bytes_of(call.inputs), written = bytes_of(call.outputs);
  const Bytes read = given - bytes_of(first_lists(call, trait, trait.overwrites ? 1 : 0));
  DeviceWork work{.kind = trait.kind, .launches = std::max(1, launches)};
  work.bytes = read + written;
  if (work.kind == WorkKind::fill) work.bytes = written;
  if (work.kind == WorkKind::gather) work.bytes = std::min(read, written) + written;
  const RecordedTensor* first = !call.outputs.empty()  ? &call.outputs.front()
                                : !call.inputs.empty() ? &call.inputs.front()
                                                       : nullptr;
  if (first != nullptr) work.dtype = first->dtype;
  const bool is_product = work.kind == WorkKind::matmul && !call.has_product;
  if (is_product && call.inputs.size() > 1 && !is_dense_product(call)) {
    work.kind = WorkKind::pointwise;
  } else if (is_product) {
    work.matmul = matmul_of(call);
    work.flops = flops_of(work.matmul);
    if (!call.inputs.empty())
      work.dtype = call.inputs[eager::first_factor(call.name, call.inputs.size())].dtype;
  } else if (work.kind == WorkKind::attention_forward ||
             work.kind == WorkKind::attention_backward) {
    work.attention = attention_of(call, trait);
    work.flops = attention_flops(work.attention, work.kind == WorkKind::attention_backward);
  } else if (work.kind == WorkKind::multi_tensor) {
    const auto lists = static_cast<std::size_t>(std::max(1, trait.lists));
    work.tensors = static_cast<std::int32_t>(call.inputs.size() / lists);
    // Lists that are changed in place are not among the outputs.
    if (call.outputs.empty()) work.bytes += bytes_of(first_lists(call, trait, trait.written));
  } else if (call.outputs.empty() && !results_are_given) {
    work.bytes += call.inputs.empty() ? Bytes{} : call.inputs.front().bytes();
  }
  return work;
}

DeviceWork host_work_of(RecordedCall call) {
  for (std::vector<RecordedTensor>* const tensors : {&call.inputs, &call.outputs})
    for (RecordedTensor& tensor : *tensors) tensor.on_device = !tensor.on_device;
  return work_of(call, 1);
}

}  // namespace shardscope
