#include "traces/match/profiled_collectives.h"

#include <algorithm>
#include <string_view>

#include "traces/import/collective_names.h"

namespace shardscope {
namespace {

constexpr std::string_view transport_prefix = "gloo:";

struct Transfer {
  std::uint32_t event = 0;
  OperationKind kind = OperationKind::barrier;
  std::int64_t elements = -1;
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
    const std::string_view dtype = row.dtype == no_name ? "" : trace.names[row.dtype];
    transfers.push_back({row.event, *kind, row.elements_in, traced_dtype(dtype)});
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

/// Pairs operators, in the order in which they are asked for, with what gloo did.
class Transfers {
 public:
  explicit Transfers(const ImportedTrace& trace) : trace_(trace), transfers_(transfers_of(trace)) {}

  const Transfer* take(const ImportedCollective& collective) {
    if (!collective.kind) return nullptr;
    while (first_ < transfers_.size() && transfers_[first_].taken) ++first_;
    for (std::size_t i = first_; i < transfers_.size(); ++i) {
      Transfer& transfer = transfers_[i];
      const bool same_size = !collective.elements_in || transfer.elements < 0 ||
                             transfer.elements == *collective.elements_in;
      const bool fits = !transfer.taken && same_size &&
                        transfer.kind == carried_out_as(*collective.kind) &&
                        trace_.events.end_ns(transfer.event) >= collective.start.ns;
      if (!fits) continue;
      transfer.taken = true;
      return &transfer;
    }
    return nullptr;
  }

 private:
  const ImportedTrace& trace_;
  std::vector<Transfer> transfers_;
  std::size_t first_ = 0;
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
