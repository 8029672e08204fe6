// What torch says of itself while it runs on the simulated device: operators with their
// tensors, and every block of its caching allocator. And what the device cannot say: results of
// operators on integers and on small tensors are computed on the host and put in their place, so
// that questions which a script puts to its data get true answers.
//
// Built on first use against the script's own torch, whose binary interface it needs
// (backend/recorder/python/shardscope_recorder/build.py).
#include <ATen/ATen.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#if __has_include(<cuda_runtime_api.h>)
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#define SHARDSCOPE_SEES_BLOCKS 1
#endif

namespace {

using Values = c10::ArrayRef<const c10::IValue>;

constexpr std::int64_t most_floats = 1 << 16, most_integers = 1 << 22, most_on_host = 1 << 20;
constexpr std::size_t longest_list = 16384;

/// Functions of the device's library.
struct Device {
  void (*log)(const char*) = nullptr;
  unsigned (*text)(const char*) = nullptr;
  void (*answer)(long) = nullptr;
  int (*stream)(void*) = nullptr;
  void (*take_received)() = nullptr;
};
Device device;

thread_local bool is_busy = false;              ///< inside the observer itself
thread_local std::int64_t shadowed_inside = 0;  ///< operators that the running one called

// ------------------------------------------------------------------ how tensors are written down

const char* short_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "f32";
    case at::kBFloat16:
      return "bf16";
    case at::kHalf:
      return "f16";
    case at::kDouble:
      return "f64";
    case at::kLong:
      return "i64";
    case at::kInt:
      return "i32";
    case at::kBool:
      return "bool";
    case at::kByte:
      return "u8";
    case at::kChar:
      return "i8";
    default:
      return c10::toString(type);
  }
}

/// Of a tensor that Python made (a DTensor, a FakeTensor). Asked for its device, its class answers,
/// by an operator that the script's own observers see.
bool is_pythons(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_python_dispatch();
}

bool is_on_cuda(const at::Tensor& tensor) {
  return is_pythons(tensor) ? tensor.key_set().has_backend(c10::BackendComponent::CUDABit)
                            : tensor.is_cuda();
}

/// A tensor that torch.compile traces with dynamic shapes has sizes that are no numbers.
bool has_known_sizes(const at::Tensor& tensor) {
  return !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

std::string device_name(const at::Tensor& tensor) {
  if (is_pythons(tensor)) return "other";
  return c10::DeviceTypeName(tensor.device().type(), true);
}

void describe(std::string& to, const at::Tensor& tensor);

/// A sparse tensor as those that it is made of, whose sizes say what it holds. False: it is none.
bool describe_sparse(std::string& to, const at::Tensor& tensor) {
  if (is_pythons(tensor)) return false;
  auto* const impl = tensor.unsafeGetTensorImpl();
  if (tensor.layout() == c10::kSparse) {
    auto* const sparse = static_cast<at::SparseTensorImpl*>(impl);
    describe(to, sparse->indices());
    describe(to += ' ', sparse->values());
  } else if (tensor.layout() == c10::kSparseCsr || tensor.layout() == c10::kSparseBsr) {
    auto* const sparse = static_cast<at::SparseCsrTensorImpl*>(impl);
    describe(to, sparse->compressed_indices());
    describe(to += ' ', sparse->plain_indices());
    describe(to += ' ', sparse->values());
  } else {
    return false;
  }
  return true;
}

/// "bf16[4,8]", "cpu:i64[2]"; strides behind it where it is not contiguous: "f32[4,8]/1,4".
void describe(std::string& to, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    to += "-";
    return;
  }
  if (describe_sparse(to, tensor)) return;
  if (!is_on_cuda(tensor)) to += device_name(tensor) + ":";
  to += short_name(tensor.scalar_type());
  to += '[';
  if (!has_known_sizes(tensor)) {
    to += ']';
    return;
  }
  for (std::int64_t i = 0; i < tensor.dim(); ++i)
    to += (i == 0 ? "" : ",") + std::to_string(tensor.size(i));
  to += ']';
  if (is_pythons(tensor) || tensor.layout() != c10::kStrided || tensor.is_contiguous()) return;
  to += '/';
  for (std::int64_t i = 0; i < tensor.dim(); ++i)
    to += (i == 0 ? "" : ",") + std::to_string(tensor.stride(i));
}

void describe(std::string& to, const c10::IValue& value) {
  if (value.isTensor()) return describe(to, value.toTensor());
  if (value.isTensorList()) {
    const std::vector<at::Tensor> list = value.toTensorVector();
    to += '{';
    for (std::size_t i = 0; i < list.size() && i < longest_list; ++i) {
      if (i > 0) to += ' ';
      describe(to, list[i]);
    }
    to += '}';
    return;
  }
  if (value.isInt())
    to += std::to_string(value.toInt());
  else if (value.isBool())
    to += value.toBool() ? "True" : "False";
  else if (value.isDouble())
    to += std::to_string(value.toDouble());
  else
    to += '_';
}

std::string described(Values values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ';';
    describe(text, values[i]);
  }
  return text;
}

// ------------------------------------------------------------------ results on the host

bool is_plain(const at::Tensor& tensor) {
  return !is_pythons(tensor) && has_known_sizes(tensor) && tensor.layout() == c10::kStrided &&
         tensor.has_storage() && (tensor.numel() == 0 || tensor.storage().data() != nullptr) &&
         !tensor.is_neg() && !tensor.is_conj() && !at::isQIntType(tensor.scalar_type());
}

struct Sizes {
  bool is_plain = true, has_cuda = false;
  std::int64_t floats = 0, integers = 0;

  void add(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    is_plain = is_plain && ::is_plain(tensor);
    if (!is_plain) return;
    if (!tensor.is_cuda()) {
      is_plain = tensor.numel() <= most_on_host;
      return;
    }
    has_cuda = true;
    (at::isIntegralType(tensor.scalar_type(), true) ? integers : floats) += tensor.numel();
  }
  void add(const c10::IValue& value) {
    if (value.isTensor()) {
      add(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& one : value.toTensorVector()) add(one);
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& one : value.toOptionalTensorVector())
        if (one) add(*one);
    }
  }
  bool are_small() const { return is_plain && floats <= most_floats && integers <= most_integers; }
  /// Few enough for `answer_for_zeros`, though too many to be computed.
  bool are_countable() const { return is_plain && floats + integers <= most_integers; }
};

Sizes sizes_of(Values values) {
  Sizes sizes;
  for (const c10::IValue& value : values) sizes.add(value);
  return sizes;
}

/// The same bytes as a tensor of the host, which they are.
at::Tensor on_host(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions().dtype(tensor.scalar_type()).device(at::kCPU));
}

/// The tensor on the host. Values that nobody computed are zeros there.
at::Tensor on_host_or_zeros(const at::Tensor& tensor) {
  const bool is_unknown = tensor.defined() && tensor.is_cuda() &&
                          at::isFloatingType(tensor.scalar_type()) && tensor.numel() > most_floats;
  if (!is_unknown) return on_host(tensor);
  return at::zeros({1}, at::TensorOptions().dtype(tensor.scalar_type()).device(at::kCPU))
      .expand(tensor.sizes());
}

using ToHost = at::Tensor (*)(const at::Tensor&);

c10::IValue on_host(const c10::IValue& value, ToHost to_host) {
  if (value.isTensor()) return to_host(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& one : value.toTensorVector()) list.push_back(to_host(one));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& one : value.toOptionalTensorVector())
      list.push_back(one ? std::optional<at::Tensor>(to_host(*one)) : std::nullopt);
    return list;
  }
  if (value.isDevice()) return c10::Device(c10::kCPU);
  if (value.isGenerator()) return {};
  return value;
}

/// Nothing that the observer calls is observed, differentiated, cast or seen by Python.
class Quiet {
 public:
  Quiet() { is_busy = true; }
  ~Quiet() { is_busy = false; }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  at::DisableRecordFunctionGuard unobserved_;
  at::AutoDispatchBelowAutograd without_gradient_;
  c10::impl::ExcludeDispatchKeyGuard python_{c10::DispatchKey::Python};
  c10::impl::ExcludeDispatchKeyGuard snapshot_{c10::DispatchKey::PythonTLSSnapshot};
  c10::impl::ExcludeDispatchKeyGuard autocast_{c10::autocast_dispatch_keyset};
};

std::optional<torch::jit::Stack> run_on_host(const c10::OperatorHandle& op, Values inputs,
                                             ToHost to_host = on_host) {
  torch::jit::Stack stack;
  for (const c10::IValue& value : inputs) stack.push_back(on_host(value, to_host));
  // The script's own random numbers on the host stay what they are.
  const bool is_random = op.hasTag(at::Tag::nondeterministic_seeded);
  auto generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor state = is_random ? generator.get_state() : at::Tensor();
  bool worked = true;
  try {
    op.callBoxed(stack);
  } catch (const std::exception&) {
    worked = false;
  }
  if (is_random) generator.set_state(state);
  if (!worked) return std::nullopt;
  return stack;
}

void put(const at::Tensor& to, const at::Tensor& from) {
  if (!to.defined() || !from.defined() || !to.is_cuda() || from.is_cuda()) return;
  const at::Tensor place = on_host(to);
  if (place.sizes() == from.sizes() && place.data_ptr() != from.data_ptr()) place.copy_(from);
}

void put(const c10::IValue& to, const c10::IValue& from) {
  if (to.isTensor() && from.isTensor()) return put(to.toTensor(), from.toTensor());
  if (!to.isTensorList() || !from.isTensorList()) return;
  const auto places = to.toTensorVector(), results = from.toTensorVector();
  for (std::size_t i = 0; i < std::min(places.size(), results.size()); ++i)
    put(places[i], results[i]);
}

/// Where values that nobody computed lie, by their storage, with the operator that they are a
/// result of. What is computed from them is no better.
class Invented {
 public:
  void add(const at::Tensor& tensor, unsigned origin) {
    const std::lock_guard lock(mutex_);
    origins_[place_of(tensor)] = origin;
  }
  void remove(const at::Tensor& tensor) { remove(place_of(tensor)); }
  void remove(std::uintptr_t place) {
    const std::lock_guard lock(mutex_);
    origins_.erase(place);
  }
  std::optional<unsigned> origin_of(const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    const auto known = origins_.find(place_of(tensor));
    return known == origins_.end() ? std::nullopt : std::optional(known->second);
  }
  /// Told once for each pair.
  void tell_read(unsigned origin, unsigned reader) {
    const std::lock_guard lock(mutex_);
    if (!told_.insert({origin, reader}).second) return;
    device.log(("invented\t" + std::to_string(origin) + "\t" + std::to_string(reader)).c_str());
  }

 private:
  static std::uintptr_t place_of(const at::Tensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.storage().data());
  }
  std::mutex mutex_;
  std::unordered_map<std::uintptr_t, unsigned> origins_;
  std::set<std::pair<unsigned, unsigned>> told_;
};

/// Never destroyed: threads of the script may still run while the process ends.
Invented& invented() {
  static Invented* const all = new Invented;
  return *all;
}

template <class Function>
void for_each_on_device(const c10::IValue& value, const Function& function) {
  const auto visit = [&](const at::Tensor& tensor) {
    if (tensor.defined() && is_plain(tensor) && tensor.is_cuda()) function(tensor);
  };
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& one : value.toTensorVector()) visit(one);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& one : value.toOptionalTensorVector())
      if (one) visit(*one);
  }
}

std::optional<unsigned> origin_of(Values values) {
  std::optional<unsigned> origin;
  for (const c10::IValue& value : values)
    for_each_on_device(value, [&](const at::Tensor& tensor) {
      if (!origin) origin = invented().origin_of(tensor);
    });
  return origin;
}

/// Sets the tensor to zeros. Whole pages go back to the system.
void clear(const at::Tensor& tensor) {
  constexpr std::uintptr_t page = 4096;
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data_ptr());
  const std::uintptr_t end = begin + static_cast<std::uintptr_t>(tensor.nbytes());
  const std::uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  const auto set_zero = [](std::uintptr_t from, std::uintptr_t to) {
    std::memset(reinterpret_cast<void*>(from), 0, to - from);
  };
  if (first >= last) return set_zero(begin, end);
  set_zero(begin, first);
  set_zero(last, end);
  madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

/// Values for a tensor that nobody computed. One element, such as a loss, is 1. A few get small
/// numbers, so that routers spread. Many get zeros, and so do those that are no floats: a mask
/// then has no element.
void invent(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda() || !is_plain(tensor) || tensor.numel() == 0 ||
      !tensor.is_non_overlapping_and_dense())
    return;
  if (tensor.numel() > most_floats || !at::isFloatingType(tensor.scalar_type()))
    return clear(tensor);
  const at::Tensor place =
      at::from_blob(tensor.data_ptr(), {tensor.numel()},
                    at::TensorOptions().dtype(tensor.scalar_type()).device(at::kCPU));
  if (tensor.numel() == 1) {
    place.fill_(1.0);
    return;
  }
  static thread_local std::uint64_t state = 88172645463325252ULL;
  const at::Tensor numbers = at::empty({tensor.numel()}, at::kFloat);
  auto* number = numbers.data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    number[i] = static_cast<float>(static_cast<double>(state >> 11) / 9007199254740992.0 - 0.5);
  }
  place.copy_(numbers);
}

bool starts_with(const std::string& text, const char* start) { return text.rfind(start, 0) == 0; }

/// Without results of its own, or whose results another place decides.
bool has_no_values(const std::string& name) {
  return starts_with(name, "c10d") || name.find("empty") != std::string::npos ||
         name == "aten::record_stream" || name == "aten::_local_scalar_dense" ||
         name == "aten::_pin_memory" || name == "aten::resize_" || name == "aten::set_";
}

bool is_view(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns())
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return true;
  return false;
}

bool writes(const c10::FunctionSchema& schema) {
  for (const c10::Argument& argument : schema.arguments())
    if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) return true;
  return false;
}

/// Operators whose number of results the host asks the device for.
bool counts(const char* name) {
  return std::strcmp(name, "aten::nonzero") == 0 || std::strcmp(name, "aten::_unique2") == 0 ||
         std::strcmp(name, "aten::masked_select") == 0;
}

// ------------------------------------------------------------------ what RecordFunction calls

struct Running : at::ObserverContext {
  bool is_small = false;
  std::int64_t shadowed_outside = 0;
  std::vector<c10::IValue> inputs;  ///< a copy, since they are gone at the end
};

std::optional<c10::OperatorHandle> handle_of(const at::RecordFunction& function) {
  const auto name = function.operator_name();
  return name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
}

std::string name_of(const at::RecordFunction& function) {
  std::string name = function.name();
  const auto op = function.operator_name();
  if (op && !op->overload_name.empty()) name += "." + op->overload_name;
  return name;
}

void log_begin(const at::RecordFunction& function) {
  const bool is_backward = function.scope() == at::RecordScope::BACKWARD_FUNCTION;
  const std::string line =
      (is_backward ? "node\t" : "op\t") + std::to_string(device.text(name_of(function).c_str())) +
      "\t" + std::to_string(device.text(described(function.inputs()).c_str())) + "\t" +
      std::to_string(function.seqNr()) + "\t" +
      std::to_string(is_backward ? static_cast<std::int64_t>(function.forwardThreadId()) : 0);
  device.log(line.c_str());
}

void log_end(const at::RecordFunction& function, bool moves_nothing) {
  const std::vector<c10::IValue> outputs = function.outputs();
  std::string line =
      "end\t" +
      std::to_string(device.text(described(Values(outputs.data(), outputs.size())).c_str()));
  if (moves_nothing) line += "\tview";
  device.log(line.c_str());
}

void tell_what_is_read(const at::RecordFunction& function) {
  if (const auto origin = origin_of(function.inputs()))
    invented().tell_read(*origin, device.text(name_of(function).c_str()));
}

/// aten::record_stream: another stream uses a block, too.
void log_use(const at::RecordFunction& function) {
#ifdef SHARDSCOPE_SEES_BLOCKS
  const Values inputs = function.inputs();
  if (inputs.size() < 2 || !inputs[0].isTensor() || !inputs[1].isStream()) return;
  const at::Tensor& tensor = inputs[0].toTensor();
  if (!tensor.defined() || !is_plain(tensor) || !tensor.is_cuda()) return;
  const c10::cuda::CUDAStream stream(inputs[1].toStream());
  device.log(("uses\t" + std::to_string(reinterpret_cast<std::uintptr_t>(tensor.storage().data())) +
              "\t" + std::to_string(device.stream(stream.stream())))
                 .c_str());
#endif
}

/// A sparse tensor's elements at one place become one: the host asks how many are left.
void answer_coalesce(const at::RecordFunction& function) {
  const Values inputs = function.inputs();
  if (inputs.empty() || !inputs[0].isTensor()) return;
  const at::Tensor& tensor = inputs[0].toTensor();
  if (!tensor.defined() || tensor.layout() != c10::kSparse || !tensor.is_cuda()) return;
  const Quiet quiet;
  const at::Tensor places = tensor._indices();
  if (!is_plain(places) || places.numel() > most_integers) return;
  constexpr std::int64_t columns = 1;
  device.answer(std::get<0>(at::unique_dim(on_host(places), columns)).size(columns));
}

/// Factorizations of matrices that nobody computed succeed: what the library says of them is 0.
void let_factorization_succeed(const at::RecordFunction& function) {
  const Values inputs = function.inputs();
  if (inputs.empty() || !inputs[0].isTensor()) return;
  const at::Tensor& errors = inputs[0].toTensor();
  if (!errors.defined() || !is_plain(errors) || !errors.is_cuda() || !errors.is_contiguous())
    return;
  const Quiet quiet;
  clear(errors);
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  if (is_busy) return nullptr;
  auto running = std::make_unique<Running>();
  running->shadowed_outside = std::exchange(shadowed_inside, 0);
  log_begin(function);
  if (function.scope() != at::RecordScope::FUNCTION) return running;
  const Sizes sizes = sizes_of(function.inputs());
  if (sizes.has_cuda && sizes.are_small()) device.take_received();
  if (counts(function.name()) && sizes.has_cuda && sizes.are_small()) {
    tell_what_is_read(function);
    const Quiet quiet;
    if (const auto op = handle_of(function))
      if (const auto results = run_on_host(*op, function.inputs()))
        device.answer(results->front().toTensor().size(0));
  }
  if (std::strcmp(function.name(), "aten::_local_scalar_dense") == 0) tell_what_is_read(function);
  if (std::strcmp(function.name(), "aten::record_stream") == 0) log_use(function);
  if (std::strcmp(function.name(), "aten::_coalesce") == 0) answer_coalesce(function);
  if (std::strcmp(function.name(), "aten::_linalg_check_errors") == 0)
    let_factorization_succeed(function);
  running->is_small = sizes.are_small();
  if (running->is_small || sizes.are_countable())
    running->inputs.assign(function.inputs().begin(), function.inputs().end());
  return running;
}

bool is_float(const at::Tensor& tensor) { return at::isFloatingType(tensor.scalar_type()); }

/// A question about values that nobody computed (is one of them NaN, out of bounds?) gets the
/// answer for zeros: a loop that draws again until the answer is no must end.
void answer_for_zeros(const Running& running, const c10::OperatorHandle& op,
                      const std::vector<c10::IValue>& outputs) {
  if (running.inputs.empty()) return;
  const auto results =
      run_on_host(op, Values(running.inputs.data(), running.inputs.size()), on_host_or_zeros);
  if (!results) return;
  const std::size_t count = std::min(results->size(), outputs.size());
  for (std::size_t i = 0; i < count; ++i) {
    const c10::IValue& output = outputs[outputs.size() - count + i];
    if (!output.isTensor() || !output.toTensor().defined() || is_float(output.toTensor())) continue;
    put(output, (*results)[results->size() - count + i]);
  }
}

/// Of an operator that is too large; `computed_inside`: operators that it called have results. A
/// mask beside a result, as dropout's, is no question.
void invent_results(const at::RecordFunction& function, const Running& running,
                    const c10::OperatorHandle& op, const std::vector<c10::IValue>& outputs,
                    bool computed_inside) {
  const std::string name = name_of(function);
  const unsigned origin = device.text(name.c_str());
  const bool takes_shape_alone = name.find("_like") != std::string::npos;
  const bool is_filled = computed_inside || starts_with(name, "_c10d");
  bool asks = false, computes = false;
  for (const c10::IValue& output : outputs)
    for_each_on_device(output, [&](const at::Tensor& tensor) {
      computes = computes || is_float(tensor);
      if (!is_float(tensor) && is_filled) return;
      asks = asks || !is_float(tensor);
      invent(tensor);
      if (is_float(tensor) || !takes_shape_alone) invented().add(tensor, origin);
    });
  if (asks && !computes) answer_for_zeros(running, op, outputs);
}

void fill_results(const at::RecordFunction& function, const Running& running,
                  const c10::OperatorHandle& op, bool changes_inputs, bool computed_inside) {
  const std::vector<c10::IValue> outputs = function.outputs();
  Sizes sizes = sizes_of(Values(running.inputs.data(), running.inputs.size()));
  for (const c10::IValue& output : outputs) sizes.add(output);
  const Quiet quiet;
  if (!running.is_small || !sizes.has_cuda || !sizes.are_small()) {
    if (!changes_inputs) invent_results(function, running, op, outputs, computed_inside);
    return;
  }
  const auto origin = origin_of(Values(running.inputs.data(), running.inputs.size()));
  for (const c10::IValue& output : outputs)
    for_each_on_device(output, [&](const at::Tensor& tensor) {
      origin ? invented().add(tensor, *origin) : invented().remove(tensor);
    });
  const auto results = run_on_host(op, Values(running.inputs.data(), running.inputs.size()));
  if (!results) return;
  const std::size_t count = std::min(results->size(), outputs.size());
  for (std::size_t i = 0; i < count; ++i)
    put(outputs[outputs.size() - count + i], (*results)[results->size() - count + i]);
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  const auto* running = static_cast<Running*>(context);
  if (running == nullptr) return;
  const bool is_operator = function.scope() == at::RecordScope::FUNCTION;
  const auto op = is_operator ? handle_of(function) : std::nullopt;
  const bool moves_nothing =
      op && (is_view(op->schema()) || has_no_values(op->operator_name().name));
  log_end(function, moves_nothing);
  const std::int64_t inside = std::exchange(shadowed_inside, running->shadowed_outside);
  if (!op || moves_nothing) {
    shadowed_inside += inside;
    return;
  }
  const bool changes_inputs = writes(op->schema());
  // What it called has changed them already.
  if (inside > 0 && changes_inputs) {
    shadowed_inside += inside;
    return;
  }
  ++shadowed_inside;
  fill_results(function, *running, *op, changes_inputs, inside > 0);
}

#ifdef SHARDSCOPE_SEES_BLOCKS
/// Of the private pool that the block lies in, a CUDA graph's or the script's own; 0: in none, or
/// torch is too old to say it. One of both numbers of a pool is 0.
template <class Entry>
unsigned long long private_pool(const Entry& entry) {
  if constexpr (requires { entry.mempool_.first; })
    return 2 * entry.mempool_.first +
           (entry.mempool_.second == 0 ? 0 : 2 * entry.mempool_.second + 1);
  else
    return 0;
}

void log_block(const c10::cuda::CUDACachingAllocator::TraceEntry& entry) {
  using Action = c10::cuda::CUDACachingAllocator::TraceEntry;
  const char* what = nullptr;
  switch (entry.action_) {
    case Action::ALLOC:
      what = "alloc";
      break;
    case Action::FREE_REQUESTED:
      what = "free";
      invented().remove(static_cast<std::uintptr_t>(entry.addr_));
      break;
    case Action::FREE_COMPLETED:
      what = "freed";
      break;
    case Action::SEGMENT_ALLOC:
    case Action::SEGMENT_MAP:
      what = "segment";
      break;
    case Action::SEGMENT_FREE:
    case Action::SEGMENT_UNMAP:
      what = "segment_free";
      break;
    case Action::OOM:
      what = "oom";
      break;
    default:
      return;
  }
  std::string line = std::string(what) + "\t" + std::to_string(entry.addr_) + "\t" +
                     std::to_string(entry.size_) + "\t" +
                     std::to_string(device.stream(entry.stream_));
  if (const auto pool = private_pool(entry)) line += "\t" + std::to_string(pool);
  device.log(line.c_str());
}
#endif

template <class Function>
void find(Function& to, const char* name) {
  to = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

[[gnu::constructor]] void start() {
  find(device.log, "shardscope_log");
  find(device.text, "shardscope_text");
  find(device.answer, "shardscope_answer_next_copy");
  find(device.stream, "shardscope_stream_id");
  find(device.take_received, "shardscope_take_received");
  if (device.log == nullptr) return;
  at::addGlobalCallback(
      at::RecordFunctionCallback(begin, end)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

}  // namespace

/// Called once torch's allocator is there: at its first call for memory.
extern "C" void shardscope_observe_blocks() {
#ifdef SHARDSCOPE_SEES_BLOCKS
  if (device.log != nullptr)
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(log_block);
#endif
}
