// The recorder of ../shared/data/pytorch/operators (record.py), on the symbolic engine.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/observer.h"

namespace shardscope::recordings {

/// Distinct tensors and storages in order of appearance, and the operators that name them.
class OperatorLog final : public eager::Observer {
 public:
  using Json = nlohmann::ordered_json;

  /// Begins with the number of the autograd node that comes next.
  explicit OperatorLog(const eager::Session& s);

  /// A storage that is there before the step.
  void name_storage(const eager::Tensor& tensor, const std::string& kind, const std::string& name);
  /// From here on operators are those of the step.
  void start() { running_ = true; }
  void stop() { running_ = false; }
  /// Between forward and backward: the graph below the loss and what it saves.
  void record_graph(const eager::Tensor& loss);

  /// The tables of a recording: totals, nodes, saved, saved_by_module, storages, tensors,
  /// operators.
  Json result() const;
  /// Rows of the additions in backward.
  std::vector<std::size_t> additions() const;

  void on_operator(eager::Session& s, const eager::OperatorCall& call) override;
  void on_storage_freed(eager::Session& s, eager::StorageImpl& storage) override;

 private:
  struct StorageRow {
    std::int64_t bytes = 0;
    std::string kind = "other";
    std::string name;
    std::int64_t born = 0;
    std::int64_t freed = -1;
  };
  struct NodeOrigin {
    int module = -1;
    std::int64_t op = -1;
  };
  struct OperatorRow {
    bool forward = true;
    int module = -1;
    std::int64_t node = -1;
    std::string name;
    std::vector<std::size_t> inputs, outputs;
    std::int64_t flops = eager::OperatorCall::flops_unknown;
  };
  struct SavedRow {
    std::int64_t node = 0;
    int module = -1;
    std::string field;
    std::size_t tensor = 0;
    std::size_t storage = 0;
    bool seen = false;
  };

  std::size_t storage_of(const eager::StorageImpl& storage);
  std::size_t tensor_of(const eager::TensorImpl& tensor);
  std::vector<std::size_t> tensors_of(std::span<const eager::TensorImpl* const> tensors);
  void place_forward(eager::Session& s, OperatorRow& row);
  void place_backward(eager::Session& s, OperatorRow& row) const;
  void record_saved(const eager::Node& node);
  int module_of(std::int64_t node) const;
  std::int64_t peak(std::size_t first, std::size_t last) const;
  Json totals() const;
  Json saved_by_module() const;

  std::uint64_t base_;
  std::uint64_t next_node_;
  bool running_ = false;
  bool forward_ = true;
  std::size_t forward_operators_ = 0;
  std::vector<StorageRow> storages_;
  std::map<std::uint64_t, std::size_t> storage_rows_;  ///< by id, those alive
  std::vector<Json> tensor_rows_;
  std::map<Json, std::size_t> tensor_index_;
  std::vector<OperatorRow> operators_;
  std::vector<NodeOrigin> origins_;  ///< of the nodes made in forward
  std::vector<std::pair<std::int64_t, std::string>> nodes_;
  std::vector<SavedRow> saved_;
};

}  // namespace shardscope::recordings
