#include "core/pytorch/runtimes/record/shape_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace shardscope::eager {

std::span<const TensorImpl* const> ShapeTable::list(const OperatorCall& call) {
  if (call.stretches.empty()) return call.inputs;
  listed_.clear();
  auto at = call.inputs.begin();
  for (const InputStretch& stretch : call.stretches) {
    for (std::uint32_t i = 0; i < stretch.times && listed_.size() <= most_tensors; ++i)
      listed_.insert(listed_.end(), at, at + stretch.count);
    at += stretch.count;
  }
  return listed_;
}

std::uint32_t ShapeTable::index_of(const OperatorCall& call) {
  std::span<const TensorImpl* const> tensors = list(call);
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
