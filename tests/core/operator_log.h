// What an eager session did, in the form of ../shared/data/pytorch/operators: operators with their
// storages, numbered as they appear, and when each storage was born and freed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/pytorch/engine/observer.h"

namespace shardscope::eager {

class OperatorLog final : public Observer {
 public:
  struct Life {
    std::int64_t bytes = 0;
    int born = 0;    ///< operators that had run
    int freed = -1;  ///< -1: alive
    bool operator==(const Life&) const = default;
  };

  void on_operator(Session& s, const OperatorCall& call) override;
  void on_storage_freed(Session& s, StorageImpl& storage) override;

  /// "mul.Tensor 0 1 -> 2": storages of the inputs and of the outputs.
  const std::vector<std::string>& rows() const { return rows_; }
  /// Names alone, without "aten.".
  std::vector<std::string> names() const;
  const std::vector<Life>& lives() const { return lives_; }
  /// Numbers a storage now, as the recorder does with parameters.
  int number(const StorageImpl& storage);
  void clear();  ///< rows and lives

 private:
  std::map<std::uint64_t, int> numbers_;  ///< by id; ids are not used again
  std::vector<Life> lives_;
  std::vector<std::string> rows_;
};

/// A leaf of the CPU that requires grad.
Tensor leaf(Session& s, const Dims& sizes, Dtype dtype = Dtype::float32);

}  // namespace shardscope::eager
