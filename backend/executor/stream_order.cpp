#include "backend/executor/stream_order.h"

#include <array>

namespace shardscope {

Stream queue_of(const Operation& operation) {
  const bool has_its_own = is_collective(operation.kind) || operation.kind == OperationKind::copy ||
                           operation.stream == Stream::host;
  return has_its_own ? operation.stream : Stream::compute;
}

/// Walks the pass once, with what each stream has waited for of each other.
class StreamOrder::Maker {
 public:
  Maker(const Schedule& schedule, StreamOrder& order) : schedule_(schedule), order_(order) {
    order_.waits_of_.resize(schedule.operations.size());
    order_.mark_of_.resize(schedule.operations.size(), none);
    issued_at_.resize(schedule.operations.size(), 0);
  }

  void add(OperationId id) {
    const Operation& operation = schedule_.at(id);
    const auto first = static_cast<std::uint32_t>(order_.waits_.size());
    const Stream stream = queue_of(operation);
    if (last_[index(stream)] == 0) wait(stream, 0);
    for (const OperationId other : schedule_.after_of(operation)) {
      if (issued_at_[other.value] > 0) wait(stream, issued_at_[other.value]);
    }
    order_.waits_of_[id.value] = {first, static_cast<std::uint32_t>(order_.waits_.size())};
    issued_.push_back(id);
    issued_at_[id.value] = last_[index(stream)] = issued_.size();
  }

  void finish() {
    for (std::size_t from = 0; from < stream_count; ++from) {
      if (from == index(Stream::compute)) continue;
      const std::size_t before = order_.waits_.size();
      if (last_[from] > 0) wait(Stream::compute, last_[from]);
      order_.at_end_.insert(order_.at_end_.end(),
                            order_.waits_.begin() + static_cast<std::ptrdiff_t>(before),
                            order_.waits_.end());
      order_.waits_.resize(before);
    }
  }

 private:
  static std::size_t index(Stream stream) { return static_cast<std::size_t>(stream); }

  /// `stream` waits for the operation issued as number `moment` (from 1; 0: the begin), unless it
  /// has waited for that one's stream so far or further.
  void wait(Stream stream, std::size_t moment) {
    const Stream from = moment == 0 ? Stream::compute : queue_of(schedule_.at(issued_[moment - 1]));
    std::optional<std::size_t>& seen = seen_[index(stream)][index(from)];
    if (from == stream || (seen && *seen >= moment)) return;
    seen = moment;
    order_.waits_.push_back(event_of(moment));
  }

  std::uint32_t event_of(std::size_t moment) {
    if (moment == 0) return begin;
    std::uint32_t& event = order_.mark_of_[issued_[moment - 1].value];
    if (event == none) event = order_.events_++;
    return event;
  }

  const Schedule& schedule_;
  StreamOrder& order_;
  std::vector<OperationId> issued_;
  std::vector<std::size_t> issued_at_;            ///< by operation; 0: not yet
  std::array<std::size_t, stream_count> last_{};  ///< moment of a stream's last operation
  std::array<std::array<std::optional<std::size_t>, stream_count>, stream_count> seen_{};
};

StreamOrder::StreamOrder(const Schedule& schedule, std::span<const OperationId> pass) {
  Maker maker(schedule, *this);
  for (const OperationId id : pass) maker.add(id);
  maker.finish();
}

std::span<const std::uint32_t> StreamOrder::waits_of(OperationId operation) const {
  const IndexRange range = waits_of_[operation.value];
  return {waits_.data() + range.begin, range.size()};
}

std::optional<std::uint32_t> StreamOrder::mark_of(OperationId operation) const {
  const std::uint32_t event = mark_of_[operation.value];
  return event == none ? std::nullopt : std::optional(event);
}

}  // namespace shardscope
