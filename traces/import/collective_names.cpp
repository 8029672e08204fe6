#include "traces/import/collective_names.h"

#include <array>
#include <string>
#include <utility>

namespace shardscope {
namespace {

using Kind = std::pair<std::string_view, OperationKind>;

/// Looked for in the name without underscores, in lower case; the first that is found.
constexpr std::array<Kind, 11> kinds{{{"reducescatter", OperationKind::reduce_scatter},
                                      {"allreduce", OperationKind::all_reduce},
                                      {"allgather", OperationKind::all_gather},
                                      {"alltoall", OperationKind::all_to_all},
                                      {"broadcast", OperationKind::broadcast},
                                      {"barrier", OperationKind::barrier},
                                      {"scatter", OperationKind::scatter},
                                      {"sendrecv", OperationKind::all_to_all},
                                      {"reduce", OperationKind::reduce},
                                      {"send", OperationKind::send},
                                      {"recv", OperationKind::receive}}};

using Type = std::pair<std::string_view, Dtype>;
constexpr std::array<Type, 22> types{{{"float", Dtype::float32},
                                      {"float32", Dtype::float32},
                                      {"double", Dtype::float64},
                                      {"float64", Dtype::float64},
                                      {"half", Dtype::float16},
                                      {"c10::half", Dtype::float16},
                                      {"float16", Dtype::float16},
                                      {"bfloat16", Dtype::bfloat16},
                                      {"c10::bfloat16", Dtype::bfloat16},
                                      {"long", Dtype::int64},
                                      {"long int", Dtype::int64},
                                      {"int64", Dtype::int64},
                                      {"int", Dtype::int32},
                                      {"int32", Dtype::int32},
                                      {"short", Dtype::int16},
                                      {"short int", Dtype::int16},
                                      {"char", Dtype::int8},
                                      {"signed char", Dtype::int8},
                                      {"byte", Dtype::uint8},
                                      {"unsigned char", Dtype::uint8},
                                      {"bool", Dtype::boolean},
                                      {"uint64", Dtype::uint64}}};

std::string lower_case(std::string_view text, bool keeps_underscores) {
  std::string lower;
  for (const char c : text) {
    if (c != '_' || keeps_underscores)
      lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  }
  return lower;
}

}  // namespace

std::optional<OperationKind> collective_kind(std::string_view name) {
  const std::string lower = lower_case(name.substr(0, name.find('(')), false);
  for (const auto& [word, kind] : kinds) {
    if (lower.find(word) != lower.npos) return kind;
  }
  return std::nullopt;
}

std::optional<Dtype> traced_dtype(std::string_view name) {
  const std::string lower = lower_case(name, true);
  for (const auto& [word, dtype] : types) {
    if (lower == word) return dtype;
  }
  return std::nullopt;
}

}  // namespace shardscope
