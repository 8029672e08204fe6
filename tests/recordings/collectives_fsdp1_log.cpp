#include <array>
#include <nlohmann/json.hpp>

#include "tests/recordings/collectives_fsdp1.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using namespace eager;
using fsdp1::FlatHandle;
using fsdp1::Site;
using fsdp1::Unit;
using fsdp1::Visit;

/// In the order of Site.
constexpr std::array site_names{"lazy_init",
                                "root_pre_forward",
                                "pre_forward",
                                "post_forward",
                                "pre_backward",
                                "post_backward",
                                "post_backward_reshard_only",
                                "reduce_grad",
                                "final_callback",
                                "catch_all_reshard",
                                "forward_prefetch",
                                "backward_prefetch",
                                "unshard",
                                "reshard",
                                "sync_module_states",
                                "full_pre_state_dict_hook",
                                "full_post_state_dict_hook",
                                "local_pre_state_dict_hook",
                                "local_post_state_dict_hook",
                                "sharded_pre_state_dict_hook",
                                "sharded_post_state_dict_hook",
                                "full_pre_load_state_dict_hook",
                                "full_post_load_state_dict_hook",
                                "local_pre_load_state_dict_hook",
                                "local_post_load_state_dict_hook",
                                "sharded_pre_load_state_dict_hook",
                                "sharded_post_load_state_dict_hook",
                                "convert_state_with_orig_params",
                                "convert_state_with_flat_params",
                                "gather_all_orig_param_state",
                                "allgather_state_info",
                                "allgather_orig_param_states"};

const char* site_name(Site site) { return site_names[static_cast<std::size_t>(site)]; }

std::string shown(const std::string& name) { return name.empty() ? "root" : name; }

/// The recorder knows a unit by its handle.
std::optional<std::string> handle_unit(const Unit* unit) {
  return unit && unit->handle ? std::optional(shown(unit->plan.module)) : std::nullopt;
}

Json json_of(const std::optional<std::string>& name) { return name ? Json(*name) : Json(); }

bool is_prefetch(Site site) {
  return site == Site::forward_prefetch || site == Site::backward_prefetch;
}

/// The unit that a place puts on the recorder's stack; absent: none.
std::optional<std::string> unit_of_site(const Visit& visit) {
  if (is_prefetch(visit.site)) return std::nullopt;
  if (visit.site == Site::sync_module_states) return visit.unit->plan.module;
  return handle_unit(visit.unit);
}

/// Elements that a storage has room for.
std::int64_t live_elements(const Tensor& tensor) {
  return tensor ? tensor.storage()->bytes().count / size_of(tensor.dtype()).count : 0;
}

Json reshard_event(const Unit& unit, bool frees) {
  const FlatHandle& handle = *unit.handle;
  Json event{{"unit", json_of(handle_unit(&unit))},
             {"free", frees},
             {"live_numel_before", live_elements(handle.full_padded())}};
  if (const std::int64_t live = live_elements(handle.full_precision_padded()); live > 0)
    event["live_full_precision_numel_before"] = live;
  return event;
}

Json post_backward_event(const Unit& unit) {
  const Tensor& gradient = unit.handle->flat().grad();
  return {{"unit", json_of(handle_unit(&unit))},
          {"grad_numel", gradient ? Json(gradient.numel()) : Json()},
          {"grad_dtype", gradient ? Json(name_of(gradient.dtype())) : Json()},
          {"sync", unit.sync_gradients}};
}

}  // namespace

/// What is logged before the place is entered.
void Fsdp1Log::note(const Visit& visit) {
  const Json unit = json_of(handle_unit(visit.unit));
  switch (visit.site) {
    case Site::unshard:
      log_.add("unshard", {{"unit", unit}, {"all_gather", visit.unit->handle->needs_unshard()}});
      break;
    case Site::pre_backward: {
      const FlatHandle* handle = visit.unit->handle.get();
      if (!handle || !handle->progress.ran_pre_backward_hook)
        log_.add("pre_backward",
                 {{"unit", unit}, {"prefetched", handle && handle->progress.prefetched}});
      break;
    }
    case Site::post_backward:
      log_.add("post_backward", post_backward_event(*visit.unit));
      break;
    case Site::post_backward_reshard_only:
      log_.add("post_backward_reshard_only", {{"unit", unit}});
      break;
    case Site::forward_prefetch:
    case Site::backward_prefetch:
      if (visit.target)
        log_.add("prefetch",
                 {{"mode", visit.site == Site::forward_prefetch ? "forward" : "backward"},
                  {"by", unit},
                  {"target", json_of(handle_unit(visit.target))}});
      break;
    case Site::reshard:
      log_.add("reshard", reshard_event(*visit.unit, visit.frees));
      break;
    default:
      break;
  }
}

void Fsdp1Log::on_enter(Session&, const Visit& visit) {
  note(visit);
  log_.enter(site_name(visit.site), unit_of_site(visit));
}

void Fsdp1Log::on_streams(Session&, const fsdp1::Streams& streams) {
  log_.name_stream(streams.unshard, "unshard");
  log_.name_stream(streams.post_backward, "post_backward");
  log_.name_stream(streams.pre_unshard, "pre_unshard");
  Json priorities{{"unshard", streams.priority},
                  {"post_backward", streams.priority},
                  {"pre_unshard", streams.priority}};
  if (streams.all_reduce != streams.compute) {
    log_.name_stream(streams.all_reduce, "all_reduce");
    priorities["all_reduce"] = 0;
  }
  log_.add("streams", {{"priorities", priorities}});
}

void Fsdp1Log::on_device_synchronize(Session&) {
  log_.add("host_sync_device", {{"site", log_.site()}});
}

void Fsdp1Log::on_stream_synchronize(Session&, StreamId stream) {
  log_.add("host_sync_stream", {{"s", log_.name_of(stream)}});
}

void Fsdp1Log::on_limiter_enqueue(Session&, EventId event, std::size_t length) {
  log_.add("limiter_enqueue", {{"e", event.value}, {"unit", log_.unit()}, {"len", length}});
}

void Fsdp1Log::on_limiter_dequeue(Session&, std::optional<EventId> event, std::size_t length) {
  log_.add(
      "limiter_dequeue",
      {{"unit", log_.unit()}, {"len_before", length}, {"e", event ? Json(event->value) : Json()}});
}

void Fsdp1Log::on_pre_unshard(Session&, const Unit& unit, const Tensor& flat) {
  const bool casts = unit.handle->uses_parameter_precision();
  log_.add(casts ? "pre_unshard_cast" : "pre_unshard", {{"unit", json_of(handle_unit(&unit))},
                                                        {"numel", flat.numel()},
                                                        {"dtype", name_of(flat.dtype())}});
}

void Fsdp1Log::on_low_precision_shard_freed(Session&, const Unit& unit) {
  log_.add("free_low_precision_shard", {{"unit", json_of(handle_unit(&unit))}});
}

void Fsdp1Log::on_record_stream(Session&, const Tensor& tensor, StreamId stream) {
  log_.add("record_stream",
           {{"unit", log_.unit()}, {"numel", tensor.numel()}, {"s", log_.name_of(stream)}});
}

void Fsdp1Log::on_division(Session&, const Tensor& divided, double by) {
  log_.add("div", {{"unit", log_.unit()},
                   {"factor", by},
                   {"numel", divided.numel()},
                   {"dtype", name_of(divided.dtype())}});
}

void Fsdp1Log::on_gradient_cast(Session&, const Tensor& reduced, Dtype to) {
  log_.add("cast_grad", {{"unit", log_.unit()},
                         {"numel", reduced.numel()},
                         {"frm", name_of(reduced.dtype())},
                         {"to", name_of(to)}});
}

void Fsdp1Log::on_accumulation(Session&, const Unit& unit, const Tensor& reduced) {
  log_.add("accumulate_shard", {{"unit", json_of(handle_unit(&unit))}, {"numel", reduced.numel()}});
}

}  // namespace shardscope::recordings
