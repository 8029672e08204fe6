#include "sim/hardware/kernel_json.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

namespace shardscope {
namespace {

struct FlagField {
  std::string_view key;
  bool Kernel::*member;
};
constexpr FlagField flag_fields[] = {
    {"accumulate", &Kernel::accumulate},     {"accumulate_input", &Kernel::accumulate_input},
    {"has_bias", &Kernel::has_bias},         {"has_weight_gradient", &Kernel::has_weight_gradient},
    {"has_residual", &Kernel::has_residual}, {"nesterov", &Kernel::nesterov},
    {"has_clip", &Kernel::has_clip},         {"has_copy", &Kernel::has_copy},
    {"has_gelu", &Kernel::has_gelu},         {"has_count", &Kernel::has_count},
};

struct DtypeField {
  std::string_view key;
  Dtype Kernel::*member;
};
constexpr DtypeField dtype_fields[] = {{"dtype", &Kernel::dtype},
                                       {"gradient_dtype", &Kernel::gradient_dtype}};

struct SizeField {
  std::string_view key;
  std::int64_t Kernel::*member;
};
constexpr SizeField size_fields[] = {
    {"rows", &Kernel::rows},
    {"in", &Kernel::in},
    {"out", &Kernel::out},
    {"batch", &Kernel::batch},
    {"length", &Kernel::length},
    {"heads", &Kernel::heads},
    {"kv_heads", &Kernel::kv_heads},
    {"head_dim", &Kernel::head_dim},
    {"q_stride", &Kernel::q_stride},
    {"kv_stride", &Kernel::kv_stride},
    {"elements", &Kernel::elements},
    {"positions", &Kernel::positions},
    {"out_stride", &Kernel::out_stride},
};
constexpr std::int64_t largest_size = std::int64_t{1} << 40;

constexpr std::string_view layout_name(WeightLayout layout) {
  return layout == WeightLayout::in_out ? "in_out" : "out_in";
}
constexpr std::string_view norm_name(NormKind norm) {
  return norm == NormKind::layer_norm ? "layer_norm" : "rms_norm";
}

/// The one of `choices` whose name stands in `value`.
template <class Enum, class Name>
Enum read_choice(const JsonValue& value, const std::vector<Enum>& choices, Name name) {
  const std::string text = value.string();
  std::string list;
  for (Enum choice : choices) {
    if (name(choice) == text) return choice;
    list += (list.empty() ? "" : ", ") + std::string(name(choice));
  }
  throw value.error(fmt::format("unknown name \"{}\"", text), "use one of " + list);
}

const std::vector<KernelKind>& all_kernel_kinds() {
  static const std::vector<KernelKind> kinds = [] {
    std::vector<KernelKind> all;
    for (int i = 0; i < kernel_kind_count; ++i) all.push_back(static_cast<KernelKind>(i));
    return all;
  }();
  return kinds;
}

std::vector<std::string_view> known_keys() {
  std::vector<std::string_view> keys{"kind", "layout", "norm"};
  for (const DtypeField& field : dtype_fields) keys.push_back(field.key);
  for (const FlagField& field : flag_fields) keys.push_back(field.key);
  for (const SizeField& field : size_fields) keys.push_back(field.key);
  return keys;
}

}  // namespace

std::string kernel_json(const Kernel& kernel) {
  const Kernel defaults;
  std::string text = fmt::format("{{\"kind\": \"{}\"", name_of(kernel.kind));
  if (kernel.layout != defaults.layout)
    text += fmt::format(", \"layout\": \"{}\"", layout_name(kernel.layout));
  if (kernel.norm != defaults.norm)
    text += fmt::format(", \"norm\": \"{}\"", norm_name(kernel.norm));
  for (const DtypeField& field : dtype_fields)
    if (kernel.*field.member != defaults.*field.member)
      text += fmt::format(", \"{}\": \"{}\"", field.key, name_of(kernel.*field.member));
  for (const FlagField& field : flag_fields)
    if (kernel.*field.member != defaults.*field.member)
      text += fmt::format(", \"{}\": {}", field.key, kernel.*field.member);
  for (const SizeField& field : size_fields)
    if (kernel.*field.member != defaults.*field.member)
      text += fmt::format(", \"{}\": {}", field.key, kernel.*field.member);
  return text + "}";
}

Kernel read_kernel(const JsonValue& value) {
  value.only_keys(known_keys());
  Kernel kernel;
  kernel.kind = read_choice(value.at("kind"), all_kernel_kinds(),
                            [](KernelKind kind) { return name_of(kind); });
  if (const auto layout = value.find("layout"))
    kernel.layout =
        read_choice(*layout, std::vector{WeightLayout::in_out, WeightLayout::out_in}, layout_name);
  if (const auto norm = value.find("norm"))
    kernel.norm =
        read_choice(*norm, std::vector{NormKind::layer_norm, NormKind::rms_norm}, norm_name);
  for (const DtypeField& field : dtype_fields)
    if (const auto dtype = value.find(field.key))
      kernel.*field.member = read_choice(*dtype, std::vector{Dtype::float32, Dtype::bfloat16},
                                         [](Dtype choice) { return name_of(choice); });
  for (const FlagField& field : flag_fields)
    if (const auto flag = value.find(field.key)) kernel.*field.member = flag->boolean();
  for (const SizeField& field : size_fields)
    if (const auto size = value.find(field.key))
      kernel.*field.member = size->integer(0, largest_size);
  return kernel;
}

}  // namespace shardscope
