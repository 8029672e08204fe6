#include "sim/hardware/kernel_json.h"

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/schedule/kernel_fields.h"

namespace shardscope {
namespace {

// Every key that a kernel of some kind has, by what stands behind it.
constexpr std::string_view dtype_keys[] = {"dtype", "gradient_dtype"};
constexpr std::string_view flag_keys[] = {
    "accumulate",   "accumulate_input", "has_bias", "has_weight_gradient",
    "has_residual", "nesterov",         "has_clip", "has_copy",
    "has_gelu",     "has_count"};
constexpr std::string_view size_keys[] = {
    "rows",     "in",       "out",       "batch",    "length",    "heads",     "kv_heads",
    "head_dim", "q_stride", "kv_stride", "elements", "positions", "out_stride"};
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
  for (const std::string_view key : dtype_keys) keys.push_back(key);
  for (const std::string_view key : flag_keys) keys.push_back(key);
  for (const std::string_view key : size_keys) keys.push_back(key);
  return keys;
}

std::string text_of(WeightLayout layout) { return fmt::format("\"{}\"", layout_name(layout)); }
std::string text_of(NormKind norm) { return fmt::format("\"{}\"", norm_name(norm)); }
std::string text_of(Dtype dtype) { return fmt::format("\"{}\"", name_of(dtype)); }
std::string text_of(bool flag) { return flag ? "true" : "false"; }
std::string text_of(std::int64_t size) { return std::to_string(size); }

/// The fields of the file by their keys, as numbers.
using Given = std::map<std::string_view, std::int64_t>;

Given read_fields(const JsonValue& value) {
  Given given;
  const auto give = [&](std::string_view key, auto field) {
    given[key] = static_cast<std::int64_t>(field);
  };
  if (const auto layout = value.find("layout"))
    give("layout", read_choice(*layout, std::vector{WeightLayout::in_out, WeightLayout::out_in},
                               layout_name));
  if (const auto norm = value.find("norm"))
    give("norm",
         read_choice(*norm, std::vector{NormKind::layer_norm, NormKind::rms_norm}, norm_name));
  for (const std::string_view key : dtype_keys)
    if (const auto dtype = value.find(key))
      give(key, read_choice(*dtype, std::vector{Dtype::float32, Dtype::bfloat16},
                            [](Dtype choice) { return name_of(choice); }));
  for (const std::string_view key : flag_keys)
    if (const auto flag = value.find(key)) give(key, flag->boolean());
  for (const std::string_view key : size_keys)
    if (const auto size = value.find(key)) give(key, size->integer(0, largest_size));
  return given;
}

}  // namespace

std::string kernel_json(const Kernel& kernel) {
  return kernel.visit([]<class K>(const K& k) {
    std::string text = fmt::format("{{\"kind\": \"{}\"", name_of(K::kind));
    for_each_cost_field<K>([&, defaults = K{}](std::string_view key, auto field) {
      if (k.*field != defaults.*field) text += fmt::format(", \"{}\": {}", key, text_of(k.*field));
    });
    return text + "}";
  });
}

Kernel read_kernel(const JsonValue& value) {
  value.only_keys(known_keys());
  Kernel kernel = default_kernel(read_choice(value.at("kind"), all_kernel_kinds(),
                                             [](KernelKind kind) { return name_of(kind); }));
  const Given given = read_fields(value);
  kernel.visit([&]<class K>(K& k) {
    for_each_cost_field<K>([&](std::string_view key, auto field) {
      using Field = std::remove_reference_t<decltype(k.*field)>;
      if (const auto found = given.find(key); found != given.end())
        k.*field = static_cast<Field>(found->second);
    });
  });
  return kernel;
}

}  // namespace shardscope
