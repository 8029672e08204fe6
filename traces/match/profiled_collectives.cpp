#include "traces/match/profiled_collectives.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "traces/import/collective_names.h"

namespace shardscope {
namespace {

constexpr std::string_view transport_prefix = "gloo:";

constexpr std::int64_t unknown_size = -1;

struct Transfer {
  std::uint32_t event = 0;
  OperationKind kind = OperationKind::barrier;
  std::int64_t elements = unknown_size;
  std::optional<Dtype> dtype;
  bool taken = false;
};

std::vector<Transfer> transfers_of(const ImportedTrace& trace) {
  std::vector<Transfer> transfers;
  for (const CommunicationRow& row : trace.communication) {
    const std::string_view name = trace.name_of(row.event);
    if (!name.starts_with(transport_prefix) || trace.events.phase[row.event] != 'X') continue;
    const auto kind = collective_kind(name);
    if (!kind) continue;
    const std::string_view dtype =
        row.dtype == no_name ? std::string_view() : std::string_view(trace.names[row.dtype]);
    const std::int64_t elements = row.elements_in < 0 ? unknown_size : row.elements_in;
    transfers.push_back({row.event, *kind, elements, traced_dtype(dtype)});
  }
  std::stable_sort(transfers.begin(), transfers.end(), [&](const Transfer& a, const Transfer& b) {
    return trace.events.start_ns[a.event] < trace.events.start_ns[b.event];
  });
  return transfers;
}

/// Gloo has no reduce-scatter: it reduces all of the input everywhere.
OperationKind carried_out_as(OperationKind kind) {
  return kind == OperationKind::reduce_scatter ? OperationKind::all_reduce : kind;
}

/// Pairs operators, in the order in which they are asked for, with what gloo did. Operators must
/// come by start: what ended before one began is none of the later ones' either.
class Transfers {
 public:
  explicit Transfers(const ImportedTrace& trace) : trace_(trace), transfers_(transfers_of(trace)) {
    for (std::size_t i = 0; i < transfers_.size(); ++i) {
      by_kind_[transfers_[i].kind].places.push_back(i);
      by_size_[{transfers_[i].kind, transfers_[i].elements}].places.push_back(i);
    }
  }

  const Transfer* take(const ImportedCollective& collective) {
    if (!collective.kind) return nullptr;
    const OperationKind kind = carried_out_as(*collective.kind);
    std::optional<std::size_t> place;
    if (collective.elements_in) {
      place = earlier(first(by_size_[{kind, *collective.elements_in}], collective.start),
                      first(by_size_[{kind, unknown_size}], collective.start));
    } else {
      place = first(by_kind_[kind], collective.start);
    }
    if (!place) return nullptr;
    transfers_[*place].taken = true;
    return &transfers_[*place];
  }

 private:
  /// Places in transfers_, by start.
  struct Queue {
    std::vector<std::size_t> places;
    std::size_t next = 0;
  };

  /// Of the queue the first that is free and had not ended at `time`.
  std::optional<std::size_t> first(Queue& queue, Duration time) const {
    for (; queue.next < queue.places.size(); ++queue.next) {
      const Transfer& transfer = transfers_[queue.places[queue.next]];
      if (!transfer.taken && trace_.events.end_ns(transfer.event) >= time.ns)
        return queue.places[queue.next];
    }
    return std::nullopt;
  }

  static std::optional<std::size_t> earlier(std::optional<std::size_t> a,
                                            std::optional<std::size_t> b) {
    return a && b ? std::min(a, b) : (a ? a : b);
  }

  const ImportedTrace& trace_;
  std::vector<Transfer> transfers_;
  std::map<OperationKind, Queue> by_kind_;
  std::map<std::pair<OperationKind, std::int64_t>, Queue> by_size_;
};

bool is_kernel(const ImportedTrace& trace, std::uint32_t event) {
  return trace.track_of(event).kind == TrackKind::stream;
}

}  // namespace

std::vector<ProfiledCollective> profiled_collectives(const ImportedTrace& trace,
                                                     const HostTree& tree,
                                                     const ProfiledUnits& units) {
  Transfers transfers(trace);
  std::vector<ProfiledCollective> result;
  for (ImportedCollective& seen : imported_collectives(trace)) {
    const std::uint32_t host = tree.on_host(seen.event);
    ProfiledCollective collective{.issued = {trace.events.start_ns[host]},
                                  .unit = units.unit_of(host)};
    if (is_kernel(trace, seen.event)) {
      collective.transfer = seen.duration;
    } else if (const Transfer* transfer = transfers.take(seen)) {
      collective.transfer = Duration{trace.events.duration_ns[transfer->event]};
      if (!seen.dtype) seen.dtype = transfer->dtype;
    }
    collective.seen = std::move(seen);
    result.push_back(std::move(collective));
  }
  std::stable_sort(
      result.begin(), result.end(),
      [](const ProfiledCollective& a, const ProfiledCollective& b) { return a.issued < b.issued; });
  return result;
}

}  // namespace shardscope
