#include "tests/recordings/operators_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/module.h"
#include "core/pytorch/engine/session.h"

namespace shardscope::recordings {
namespace {

using Json = OperatorLog::Json;

Json numbers(const eager::Dims& dims) {
  return Json(std::vector<std::int64_t>(dims.begin(), dims.end()));
}

/// Below the loss, in the order of their numbers, without AccumulateGrad.
std::vector<const eager::Node*> graph_below(const eager::Tensor& loss) {
  const auto by_number = [](const eager::Node* a, const eager::Node* b) {
    return a->sequence_number() < b->sequence_number();
  };
  std::set<const eager::Node*, decltype(by_number)> seen(by_number);
  std::vector<const eager::Node*> todo{loss.grad_fn().get()};
  while (!todo.empty()) {
    const eager::Node* node = todo.back();
    todo.pop_back();
    if (!node || node->is_accumulate() || !seen.insert(node).second) continue;
    for (const eager::Edge& edge : node->next_edges()) todo.push_back(edge.node.get());
  }
  return {seen.begin(), seen.end()};
}

std::string field_of(const eager::SavedTensor& saved) {
  return saved.index() < 0 ? std::string(saved.field())
                           : fmt::format("{}[{}]", saved.field(), saved.index());
}

}  // namespace

OperatorLog::OperatorLog(const eager::Session& s)
    : base_(s.sequence_number()), next_node_(s.sequence_number()) {}

std::size_t OperatorLog::storage_of(const eager::StorageImpl& storage) {
  const auto [found, is_new] = storage_rows_.try_emplace(storage.id(), storages_.size());
  if (is_new)
    storages_.push_back(
        {.bytes = storage.bytes().count, .born = static_cast<std::int64_t>(operators_.size())});
  return found->second;
}

void OperatorLog::name_storage(const eager::Tensor& tensor, const std::string& kind,
                               const std::string& name) {
  const std::size_t known = storages_.size();
  StorageRow& row = storages_[storage_of(*tensor.storage())];
  // Of a storage under two names before the step the first counts; gradients are named at the end.
  if (storages_.size() == known && kind != "gradient") return;
  row.kind = kind;
  row.name = name;
}

std::size_t OperatorLog::tensor_of(const eager::TensorImpl& tensor) {
  const eager::TensorImpl::Layout& layout = tensor.layout;
  Json row = Json::array({name_of(layout.dtype), numbers(layout.sizes), numbers(layout.strides),
                          layout.offset, storage_of(*tensor.storage)});
  const auto [found, is_new] = tensor_index_.try_emplace(row, tensor_rows_.size());
  if (is_new) tensor_rows_.push_back(std::move(row));
  return found->second;
}

std::vector<std::size_t> OperatorLog::tensors_of(
    std::span<const eager::TensorImpl* const> tensors) {
  std::vector<std::size_t> rows;
  for (const eager::TensorImpl* tensor : tensors)
    if (tensor) rows.push_back(tensor_of(*tensor));
  return rows;
}

/// Autograd numbers its nodes; the node of an operator is made just before it is dispatched.
void OperatorLog::place_forward(eager::Session& s, OperatorRow& row) {
  const eager::Module* module = s.current_module();
  row.module = module ? module->index : -1;
  const std::uint64_t last = s.sequence_number();
  const bool made = last > next_node_;
  origins_.resize(last - base_, {row.module, static_cast<std::int64_t>(operators_.size())});
  next_node_ = last;
  row.node = made ? static_cast<std::int64_t>(last - 1 - base_) : -1;
}

int OperatorLog::module_of(std::int64_t node) const {
  const auto index = static_cast<std::size_t>(node);
  return node >= 0 && index < origins_.size() ? origins_[index].module : -1;
}

void OperatorLog::place_backward(eager::Session& s, OperatorRow& row) const {
  const eager::Node* node = s.engine().current_node();
  if (!node) return;
  row.node =
      node->is_accumulate() ? -2 : static_cast<std::int64_t>(node->sequence_number() - base_);
  row.module = module_of(row.node);
}

void OperatorLog::on_operator(eager::Session& s, const eager::OperatorCall& call) {
  if (!running_) return;
  OperatorRow row{.forward = forward_, .name = std::string(call.op.name), .flops = call.flops};
  if (forward_)
    place_forward(s, row);
  else
    place_backward(s, row);
  row.inputs = tensors_of(call.inputs);
  row.outputs = tensors_of(call.outputs);
  operators_.push_back(std::move(row));
}

void OperatorLog::on_storage_freed(eager::Session&, eager::StorageImpl& storage) {
  const auto found = storage_rows_.find(storage.id());
  if (found == storage_rows_.end()) return;
  storages_[found->second].freed = static_cast<std::int64_t>(operators_.size());
  storage_rows_.erase(found);
}

void OperatorLog::record_saved(const eager::Node& node) {
  std::vector<const eager::SavedTensor*> saved;
  for (const eager::SavedTensor& tensor : node.saved())
    if (tensor.held()) saved.push_back(&tensor);
  std::stable_sort(saved.begin(), saved.end(), [](const auto* a, const auto* b) {
    return std::pair(a->field(), a->index()) < std::pair(b->field(), b->index());
  });
  const auto number = static_cast<std::int64_t>(node.sequence_number() - base_);
  for (const eager::SavedTensor* one : saved) {
    const eager::Tensor& tensor = one->held();
    const std::size_t known = storages_.size();
    const std::size_t row = tensor_of(*tensor.impl());
    const std::size_t storage = storage_of(*tensor.storage());
    if (storages_.size() > known && tensor.dim() == 0) storages_[storage].kind = "scalar";
    const bool seen = std::any_of(saved_.begin(), saved_.end(),
                                  [&](const SavedRow& s) { return s.storage == storage; });
    saved_.push_back({number, module_of(number), field_of(*one), row, storage, seen});
  }
}

void OperatorLog::record_graph(const eager::Tensor& loss) {
  forward_ = false;
  forward_operators_ = operators_.size();
  for (const eager::Node* node : graph_below(loss)) {
    nodes_.emplace_back(static_cast<std::int64_t>(node->sequence_number() - base_), node->name());
    record_saved(*node);
  }
}

std::vector<std::size_t> OperatorLog::additions() const {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < operators_.size(); ++i)
    if (!operators_[i].forward && operators_[i].name == "aten.add.Tensor") rows.push_back(i);
  return rows;
}

/// Most bytes alive at once while operators first..last ran.
std::int64_t OperatorLog::peak(std::size_t first, std::size_t last) const {
  const std::set<std::string> left_out{"parameter", "buffer", "input", "scalar"};
  std::vector<std::int64_t> change(last + 2);
  for (const StorageRow& row : storages_) {
    if (left_out.contains(row.kind)) continue;
    change[std::min(static_cast<std::size_t>(row.born), last + 1)] += row.bytes;
    if (row.freed >= 0 && static_cast<std::size_t>(row.freed) <= last)
      change[static_cast<std::size_t>(row.freed)] -= row.bytes;
  }
  std::int64_t alive = 0, most = 0;
  for (std::size_t i = 0; i <= last; ++i) {
    alive += change[i];
    if (i >= first) most = std::max(most, alive);
  }
  return most;
}

Json OperatorLog::totals() const {
  std::int64_t flops[2] = {0, 0};
  for (const OperatorRow& row : operators_)
    flops[row.forward ? 0 : 1] += std::max<std::int64_t>(row.flops, 0);
  std::map<std::size_t, std::int64_t> own;
  for (const SavedRow& row : saved_)
    if (storages_[row.storage].kind == "other") own[row.storage] = storages_[row.storage].bytes;
  std::int64_t saved_bytes = 0, gradient_bytes = 0;
  for (const auto& [storage, bytes] : own) saved_bytes += bytes;
  for (const StorageRow& row : storages_)
    if (row.kind == "gradient") gradient_bytes += row.bytes;
  return {{"forward_operators", forward_operators_},
          {"backward_operators", operators_.size() - forward_operators_},
          {"forward_flops", flops[0]},
          {"backward_flops", flops[1]},
          {"nodes", nodes_.size()},
          {"saved_tensors", saved_.size()},
          {"saved_bytes", saved_bytes},
          {"gradient_bytes", gradient_bytes},
          {"peak_bytes_forward", peak(0, forward_operators_ - 1)},
          {"peak_bytes_backward", peak(forward_operators_, operators_.size() - 1)}};
}

Json OperatorLog::saved_by_module() const {
  std::map<int, std::pair<std::int64_t, std::int64_t>> rows;
  for (const SavedRow& row : saved_) {
    auto& [count, bytes] = rows[row.module];
    ++count;
    if (!row.seen && storages_[row.storage].kind == "other") bytes += storages_[row.storage].bytes;
  }
  Json table = Json::array();
  for (const auto& [module, row] : rows)
    table.push_back(Json::array({module, row.first, row.second}));
  return table;
}

Json OperatorLog::result() const {
  Json result{{"totals", totals()}};
  for (const char* table :
       {"nodes", "saved", "saved_by_module", "storages", "tensors", "operators"})
    result[table] = Json::array();
  for (const auto& [number, name] : nodes_)
    result["nodes"].push_back(Json::array(
        {number, name, module_of(number), origins_[static_cast<std::size_t>(number)].op}));
  for (const SavedRow& row : saved_)
    result["saved"].push_back(
        Json::array({row.node, row.module, row.field, row.tensor, storages_[row.storage].bytes,
                     storages_[row.storage].kind, row.seen}));
  result["saved_by_module"] = saved_by_module();
  // The recorder writes its rows when the model is gone.
  const auto end = static_cast<std::int64_t>(operators_.size());
  for (const StorageRow& row : storages_)
    result["storages"].push_back(
        Json::array({row.bytes, row.kind, row.name, row.born, row.freed < 0 ? end : row.freed}));
  result["tensors"] = tensor_rows_;
  for (const OperatorRow& row : operators_)
    result["operators"].push_back(Json::array(
        {row.forward ? "F" : "B", row.module, row.node, row.name, row.inputs, row.outputs,
         row.flops == eager::OperatorCall::flops_unknown ? Json() : Json(row.flops)}));
  return result;
}

}  // namespace shardscope::recordings
