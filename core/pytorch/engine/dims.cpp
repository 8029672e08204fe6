#include "core/pytorch/engine/dims.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace shardscope::eager {
namespace {

[[noreturn]] void refuse(std::size_t dims) {
  throw Error({.where = "tensor",
               .what = fmt::format("{} dimensions; at most {} are modelled", dims, Dims::capacity),
               .way_out = {}});
}

}  // namespace

Dims::Dims(std::span<const std::int64_t> values) {
  if (values.size() > static_cast<std::size_t>(capacity)) refuse(values.size());
  std::copy(values.begin(), values.end(), values_.begin());
  size_ = static_cast<std::int8_t>(values.size());
}

Dims Dims::filled(int count, std::int64_t value) {
  Dims dims;
  for (int i = 0; i < count; ++i) dims.push_back(value);
  return dims;
}

void Dims::insert(int at, std::int64_t value) {
  if (size_ == capacity) refuse(capacity + 1);
  for (int i = size_; i > at; --i) values_[index(i)] = values_[index(i - 1)];
  values_[static_cast<std::size_t>(at)] = value;
  ++size_;
}

void Dims::erase(int at) {
  for (int i = at; i + 1 < size_; ++i) (*this)[i] = (*this)[i + 1];
  --size_;
}

std::int64_t Dims::product() const {
  std::int64_t product = 1;
  for (const std::int64_t value : *this) product *= value;
  return product;
}

Dims contiguous_strides(const Dims& sizes) {
  Dims strides = sizes;
  std::int64_t stride = 1;
  for (int i = sizes.size() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(sizes[i], 1);
  }
  return strides;
}

bool is_contiguous(const Dims& sizes, const Dims& strides) {
  std::int64_t expected = 1;
  for (int i = sizes.size() - 1; i >= 0; --i) {
    if (sizes[i] == 0) return true;
    if (sizes[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

}  // namespace shardscope::eager
