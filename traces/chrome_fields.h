// What the header of a Chrome trace of ours and its events both hold.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/trace.h"

namespace shardscope {

/// Takes the parts of a text, one after the other.
using TextSink = std::function<void(std::string_view)>;

/// As a JSON string, quotes and all; bytes that are not UTF-8 are replaced.
std::string quoted_json(std::string_view text);
/// What NCCL chose, as more fields of an object ("," first); nothing where it is not known.
std::string choice_fields(const CollectiveChoice& choice);

/// Its name and its ranks.
using GroupKey = std::pair<std::string, Ranks>;

/// The distinct process groups of the trace, in order of first appearance.
class GroupTable {
 public:
  explicit GroupTable(const Trace& trace);
  const std::vector<GroupKey>& groups() const { return groups_; }
  /// -1 for an operation without a group.
  std::int64_t index_of(const OperationFacts& facts) const;

 private:
  std::vector<GroupKey> groups_;
  std::map<GroupKey, std::size_t> index_;
};

}  // namespace shardscope
