#include "core/pytorch/runtimes/record/shape_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace shardscope::eager {

std::uint32_t ShapeTable::index_of(std::span<const TensorImpl* const> tensors) {
  if (tensors.size() > most_tensors) tensors = {};
  key_.clear();
  for (const TensorImpl* tensor : tensors) {
    const std::span<const std::int64_t> sizes = tensor->layout.sizes.span();
    if (sizes.empty()) continue;
    key_.push_back(static_cast<char>(sizes.size()));
    key_.append(reinterpret_cast<const char*>(sizes.data()), sizes.size_bytes());
  }
  const auto [found, fresh] = index_.try_emplace(key_, static_cast<std::uint32_t>(texts_.size()));
  if (!fresh) return found->second;
  std::string text;
  for (const TensorImpl* tensor : tensors) {
    if (tensor->layout.sizes.empty()) continue;
    text +=
        fmt::format("{}{}", text.empty() ? "" : " ", fmt::join(tensor->layout.sizes.span(), "x"));
  }
  texts_.push_back(std::move(text));
  return found->second;
}

}  // namespace shardscope::eager
