// Writer of hardware profiles.
#include <fmt/format.h>

#include <string>

#include "sim/hardware/cluster_json.h"
#include "sim/hardware/figure_json.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/hardware/kernel_json.h"

namespace shardscope {
namespace {

constexpr std::string_view schema = "shardscope.hardware/1";

template <class Quantity>
std::string figure_json(const HardwareProfile& profile, std::string_view key, Quantity quantity) {
  return fmt::format("  \"{}\": {{\"value\": \"{}\", {}}},\n", key, exact_text(quantity),
                     provenance_json(profile, key));
}

std::string link_json(const HardwareProfile& profile, std::string_view key,
                      const std::optional<Link>& link) {
  if (!link) return {};
  return fmt::format("  \"{}\": {{\"bandwidth\": \"{}\", \"latency\": \"{}\", {}}},\n", key,
                     exact_text(link->bandwidth), exact_text(link->latency),
                     provenance_json(profile, key));
}

std::string host_json(const HardwareProfile& profile) {
  if (!profile.host) return {};
  const HostCosts& host = *profile.host;
  const std::string backward =
      host.backward == 1 ? "" : fmt::format("\"backward\": {}, ", host.backward);
  return fmt::format("  \"host\": {{\"operation\": \"{}\", \"view\": \"{}\", {}{}}},\n",
                     exact_text(host.operation), exact_text(host.view), backward,
                     provenance_json(profile, "host"));
}

std::string row_json(const KernelSample& sample) {
  return fmt::format("{{\"kernel\": {}, \"time\": \"{}\"}}", kernel_json(sample.kernel),
                     exact_text(sample.time));
}

std::string choice_json(const CollectiveChoice& choice) {
  if (choice == CollectiveChoice{}) return {};
  return fmt::format(", \"algorithm\": {}, \"protocol\": {}, \"channels\": {}",
                     json_text(choice.algorithm), json_text(choice.protocol), choice.channels);
}

std::string row_json(const CollectiveSample& sample) {
  return fmt::format("{{\"kind\": \"{}\", \"ranks\": {}, \"bytes\": \"{}\", \"time\": \"{}\"{}}}",
                     name_of(sample.kind), sample.ranks, exact_text(sample.bytes),
                     exact_text(sample.time), choice_json(sample.choice));
}

std::string row_json(const CollectiveMemory& sample) {
  return fmt::format("{{\"kind\": \"{}\", \"ranks\": {}, \"memory\": \"{}\"}}",
                     name_of(sample.kind), sample.ranks, exact_text(sample.memory));
}

std::string row_json(const StragglingSample& sample) {
  return fmt::format("{{\"compute\": \"{}\", \"wait\": \"{}\"}}", exact_text(sample.compute),
                     exact_text(sample.wait));
}

std::string row_json(const CoreSharingSample& sample) {
  return fmt::format("{{\"ranks\": {}, \"time_share\": {}}}", sample.ranks, sample.time_share);
}

template <class Sample>
std::string samples_json(const HardwareProfile& profile, std::string_view key,
                         const std::vector<Sample>& samples) {
  if (!profile.provenance.contains(key)) return {};
  std::string text = fmt::format("  \"{}\": {{\n    {},\n    \"samples\": [\n", key,
                                 provenance_json(profile, key));
  for (std::size_t i = 0; i < samples.size(); ++i)
    text += fmt::format("      {}{}\n", row_json(samples[i]), i + 1 < samples.size() ? "," : "");
  return text + "    ]\n  },\n";
}

std::string contention_json(const HardwareProfile& profile) {
  if (!profile.provenance.contains("contention")) return {};
  return fmt::format(
      "  \"contention\": {{\"compute_slowdown\": {}, \"collective_slowdown\": {}, "
      "\"collectives_serial\": {}, {}{}}},\n",
      profile.compute_slowdown, profile.collective_slowdown, profile.collectives_serial,
      profile.compute_waits ? "\"compute_waits\": true, " : "",
      provenance_json(profile, "contention"));
}

/// Those that are not the data sheet's.
std::string peaks_json(const HardwareProfile& profile) {
  std::string text;
  if (!profile.gpu || profile.provenance.contains("peak"))
    text += figure_json(profile, "peak", profile.peak);
  if (profile.peak_bfloat16 && (!profile.gpu || profile.provenance.contains("peak_bfloat16")))
    text += figure_json(profile, "peak_bfloat16", *profile.peak_bfloat16);
  return text;
}

}  // namespace

std::string to_json(const HardwareProfile& profile) {
  std::string text = fmt::format("{{\n  \"schema\": \"{}\",\n", schema);
  text +=
      fmt::format("  \"name\": {},\n  \"source\": {},\n  \"device\": {},\n",
                  json_text(profile.name), json_text(profile.source), json_text(profile.device));
  text += fmt::format("  \"threads_per_rank\": {},\n  \"ranks\": {},\n", profile.threads_per_rank,
                      profile.ranks);
  text += figure_json(profile, "memory", profile.memory);
  if (profile.context_memory)
    text += figure_json(profile, "context_memory", *profile.context_memory);
  if (profile.communicator_memory)
    text += figure_json(profile, "communicator_memory", *profile.communicator_memory);
  if (profile.compute_capability > 0)
    text += fmt::format("  \"compute_capability\": {},\n", profile.compute_capability);
  text += peaks_json(profile);
  text += figure_json(profile, "memory_bandwidth", profile.memory_bandwidth);
  text += figure_json(profile, "operation_overhead", profile.operation_overhead);
  if (profile.graph_operation_overhead)
    text += figure_json(profile, "graph_operation_overhead", *profile.graph_operation_overhead);
  if (profile.first_step_overhead)
    text += figure_json(profile, "first_step_overhead", *profile.first_step_overhead);
  if (profile.module_hook) text += figure_json(profile, "module_hook", *profile.module_hook);
  text += host_json(profile);
  text += link_json(profile, "host_to_device", profile.host_to_device);
  text += link_json(profile, "device_to_host", profile.device_to_host);
  text += link_json(profile, "pageable_to_device", profile.pageable_to_device);
  text += link_json(profile, "pageable_to_host", profile.pageable_to_host);
  text += cluster_json(profile);
  text += link_json(profile, "link", profile.link);
  text += link_json(profile, "network", profile.network);
  text += samples_json(profile, "kernels", profile.kernels);
  text += samples_json(profile, "collectives", profile.collectives);
  text += samples_json(profile, "collective_memory", profile.collective_memory);
  text += samples_json(profile, "straggling", profile.straggling);
  text += samples_json(profile, "core_sharing", profile.core_sharing);
  text += contention_json(profile);
  return text + fmt::format("  \"ranks_per_node\": {}\n}}\n", profile.ranks_per_node);
}

}  // namespace shardscope
