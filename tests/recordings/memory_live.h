// The second counter of ../shared/data/pytorch/memory: live cuda storages, whatever they are for.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/pytorch/engine/observer.h"

namespace shardscope::recordings {

/// LiveStorages of record.py: those that an operator returned or that were added, each rounded up
/// to 512 bytes, counted after each operator.
class LiveStorages final : public eager::Observer {
 public:
  using Json = nlohmann::ordered_json;

  explicit LiveStorages(const eager::Session&) {}

  void add(const eager::StorageImpl& storage);
  void keep_log() { keeps_log_ = true; }
  /// Operators that ran unseen before the one that is told: DTensor's on fake tensors.
  using Unseen = std::function<std::int64_t(const eager::OperatorCall&)>;
  void count_before(Unseen unseen) { unseen_ = std::move(unseen); }
  void set_phase(std::string phase) { phase_ = std::move(phase); }
  void refresh() { total_ = live_; }
  void restart_peak();

  std::int64_t total() const { return total_; }
  std::int64_t peak() const { return peak_; }
  const Json& peak_at() const { return peak_at_; }
  std::int64_t operators() const { return operators_; }
  /// [operator, its number, phase].
  Json here() const { return Json::array({name_, operators_, phase_}); }
  const Json& log() const { return log_; }

  void on_operator(eager::Session& s, const eager::OperatorCall& call) override;
  void on_storage_freed(eager::Session& s, eager::StorageImpl& storage) override;
  void on_storage_resized(eager::Session& s, eager::StorageImpl& storage, Bytes before) override;

 private:
  static constexpr std::int64_t unknown = -1;
  std::int64_t& bytes_of(const eager::StorageImpl& storage);

  std::vector<std::int64_t> bytes_;  ///< rounded, by storage id
  std::int64_t live_ = 0, total_ = 0, peak_ = 0;
  std::int64_t operators_ = 0;
  Unseen unseen_;
  std::string name_, phase_ = "0:init";
  Json peak_at_;
  bool keeps_log_ = false;
  Json log_ = Json::array();
};

}  // namespace shardscope::recordings
