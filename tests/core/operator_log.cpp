#include "tests/core/operator_log.h"

#include <fmt/format.h>

#include "core/pytorch/engine/dispatch.h"

namespace shardscope::eager {

int OperatorLog::number(const StorageImpl& storage) {
  const auto [found, is_new] = numbers_.try_emplace(storage.id(), static_cast<int>(lives_.size()));
  if (is_new) lives_.push_back({storage.bytes().count, static_cast<int>(rows_.size()), -1});
  return found->second;
}

void OperatorLog::on_operator(Session&, const OperatorCall& call) {
  std::string row(call.op.name.substr(5));
  for (const TensorImpl* input : call.inputs) row += fmt::format(" {}", number(*input->storage));
  row += " ->";
  for (const TensorImpl* output : call.outputs) row += fmt::format(" {}", number(*output->storage));
  rows_.push_back(std::move(row));
}

void OperatorLog::on_storage_freed(Session&, StorageImpl& storage) {
  if (const auto found = numbers_.find(storage.id()); found != numbers_.end())
    lives_[static_cast<std::size_t>(found->second)].freed = static_cast<int>(rows_.size());
}

std::vector<std::string> OperatorLog::names() const {
  std::vector<std::string> names;
  for (const std::string& row : rows_) names.push_back(row.substr(0, row.find(' ')));
  return names;
}

void OperatorLog::clear() {
  numbers_.clear();
  lives_.clear();
  rows_.clear();
}

Tensor leaf(Session& s, const Dims& sizes, Dtype dtype) {
  Tensor tensor = allocate(s, {dtype, Device::cpu}, sizes);
  tensor.set_requires_grad(true);
  return tensor;
}

}  // namespace shardscope::eager
