#include "core/base/dtype.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "core/base/error.h"

namespace shardscope {
namespace {

struct Row {
  Dtype dtype;
  std::int64_t bytes;
  std::string_view name;
  std::string_view safetensors_name;
};

constexpr std::array rows{
    Row{Dtype::float64, 8, "float64", "F64"}, Row{Dtype::float32, 4, "float32", "F32"},
    Row{Dtype::float16, 2, "float16", "F16"}, Row{Dtype::bfloat16, 2, "bfloat16", "BF16"},
    Row{Dtype::int64, 8, "int64", "I64"},     Row{Dtype::int32, 4, "int32", "I32"},
    Row{Dtype::int16, 2, "int16", "I16"},     Row{Dtype::int8, 1, "int8", "I8"},
    Row{Dtype::uint8, 1, "uint8", "U8"},      Row{Dtype::boolean, 1, "bool", "BOOL"},
    Row{Dtype::uint64, 8, "uint64", "U64"},
};

const Row& row_of(Dtype dtype) { return rows[static_cast<std::size_t>(dtype)]; }

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (static_cast<std::size_t>(rows[i].dtype) != i) return false;
  return true;
}
static_assert(rows_are_in_order());

}  // namespace

Bytes size_of(Dtype dtype) { return {row_of(dtype).bytes}; }
std::string_view name_of(Dtype dtype) { return row_of(dtype).name; }
std::string_view safetensors_name_of(Dtype dtype) { return row_of(dtype).safetensors_name; }

Dtype parse_dtype(std::string_view text, std::string_view where) {
  constexpr std::string_view prefix = "torch.";
  const std::string_view name = text.starts_with(prefix) ? text.substr(prefix.size()) : text;
  for (const Row& row : rows)
    if (name == row.name || text == row.safetensors_name) return row.dtype;
  std::string known;
  for (const Row& row : rows) known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  throw Error({.where = std::string(where),
               .what = fmt::format("\"{}\" is no dtype known here", text.substr(0, 40)),
               .way_out = "known are " + known});
}

}  // namespace shardscope
