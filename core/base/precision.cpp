#include "core/base/precision.h"

#include <array>
#include <string>

#include <fmt/format.h>

#include "core/base/error.h"

namespace shardscope {
namespace {

struct Row {
  Precision precision;
  std::string_view name;
  PrecisionDtypes dtypes;
};

constexpr std::array rows{
    Row{Precision::fp32, "fp32", {}},
    Row{Precision::bf16, "bf16", {Dtype::bfloat16, Dtype::bfloat16, Dtype::bfloat16}},
    Row{Precision::bf16_mixed, "bf16_mixed", {Dtype::bfloat16, Dtype::float32, Dtype::float32}}};

const Row& row_of(Precision precision) { return rows[static_cast<std::size_t>(precision)]; }

}  // namespace

std::string_view name_of(Precision precision) { return row_of(precision).name; }
PrecisionDtypes dtypes_of(Precision precision) { return row_of(precision).dtypes; }

Precision parse_precision(std::string_view text, std::string_view where) {
  std::string names;
  for (const Row& row : rows) {
    if (row.name == text) return row.precision;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  if (text == "fp16_mixed") {
    throw Error({.where = std::string(where),
                 .what = "fp16_mixed needs a loss scaler, which there is not yet",
                 .way_out = "give bf16_mixed: bfloat16 has the range of float32"});
  }
  throw Error({.where = std::string(where),
               .what = fmt::format("\"{}\" is none of {}", text.substr(0, 40), names)});
}

}  // namespace shardscope
