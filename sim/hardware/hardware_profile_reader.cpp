// Reader of hardware profiles.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "sim/hardware/cluster_json.h"
#include "sim/hardware/figure_json.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/hardware/kernel_json.h"
#include "sim/hardware/profile_file.h"

namespace shardscope {
namespace {

constexpr std::string_view schema = "shardscope.hardware/1";
constexpr std::int64_t most_ranks = 1 << 24;
constexpr std::int64_t most_channels = 1024;
constexpr double largest_slowdown = 1000;
constexpr double least_time_share = 1e-3;

/// {"value": ..., "origin": ..., "source": ..., "date": ...}
template <class Quantity>
Quantity read_figure(const ProfileFile& file, std::string_view key,
                     Quantity (*parse)(std::string_view, std::string_view),
                     HardwareProfile& profile) {
  const JsonValue figure = file.at(key);
  figure.only_keys({"value", "origin", "source", "date", "spread"});
  profile.provenance.emplace(key, read_provenance(figure));
  return read_quantity(figure.at("value"), parse);
}

template <class Quantity>
std::optional<Quantity> find_figure(const ProfileFile& file, std::string_view key,
                                    Quantity (*parse)(std::string_view, std::string_view),
                                    HardwareProfile& profile) {
  if (!file.has(key)) return std::nullopt;
  return read_figure(file, key, parse, profile);
}

template <class Quantity>
Quantity read_positive_figure(const ProfileFile& file, std::string_view key,
                              Quantity (*parse)(std::string_view, std::string_view),
                              HardwareProfile& profile) {
  const Quantity quantity = read_figure(file, key, parse, profile);
  if (!(quantity > Quantity{})) throw file.at(key).at("value").error("must be greater than zero");
  return quantity;
}

std::optional<Link> read_link(const ProfileFile& file, std::string_view key,
                              HardwareProfile& profile) {
  const std::optional<JsonValue> link = file.find(key);
  if (!link) return std::nullopt;
  link->only_keys({"bandwidth", "latency", "origin", "source", "date", "spread"});
  profile.provenance.emplace(key, read_provenance(*link));
  return Link{.bandwidth = read_positive(link->at("bandwidth"), parse_bandwidth),
              .latency = read_quantity(link->at("latency"), parse_duration)};
}

std::optional<HostCosts> read_host(const ProfileFile& file, HardwareProfile& profile) {
  const std::optional<JsonValue> host = file.find("host");
  if (!host) return std::nullopt;
  host->only_keys({"operation", "view", "backward", "origin", "source", "date", "spread"});
  profile.provenance.emplace("host", read_provenance(*host));
  HostCosts costs{.operation = read_quantity(host->at("operation"), parse_duration),
                  .view = read_quantity(host->at("view"), parse_duration)};
  if (const std::optional<JsonValue> backward = host->find("backward"))
    costs.backward = backward->number(0, largest_slowdown);
  return costs;
}

OperationKind read_collective_kind(const JsonValue& value) {
  const std::string text = value.string();
  for (int i = 0; i <= static_cast<int>(OperationKind::optimizer); ++i) {
    const auto kind = static_cast<OperationKind>(i);
    if (is_collective(kind) && name_of(kind) == text) return kind;
  }
  throw value.error(fmt::format("unknown collective \"{}\"", text),
                    "use all_gather, reduce_scatter, all_reduce, broadcast, send, ...");
}

KernelSample read_kernel_sample(const JsonValue& value) {
  value.only_keys({"kernel", "time"});
  return {.kernel = read_kernel(value.at("kernel")),
          .time = read_positive(value.at("time"), parse_duration)};
}

/// All three or none.
CollectiveChoice read_choice(const JsonValue& sample) {
  if (!sample.has("algorithm")) return {};
  return {.algorithm = read_text(sample.at("algorithm")),
          .protocol = read_text(sample.at("protocol")),
          .channels = static_cast<int>(sample.at("channels").integer(1, most_channels))};
}

CollectiveSample read_collective_sample(const JsonValue& value) {
  value.only_keys({"kind", "ranks", "bytes", "time", "algorithm", "protocol", "channels"});
  return {.kind = read_collective_kind(value.at("kind")),
          .ranks = static_cast<int>(value.at("ranks").integer(2, most_ranks)),
          .bytes = read_positive(value.at("bytes"), parse_bytes),
          .time = read_positive(value.at("time"), parse_duration),
          .choice = read_choice(value)};
}

CollectiveMemory read_collective_memory(const JsonValue& value) {
  value.only_keys({"kind", "ranks", "memory"});
  return {.kind = read_collective_kind(value.at("kind")),
          .ranks = static_cast<int>(value.at("ranks").integer(2, most_ranks)),
          .memory = read_quantity(value.at("memory"), parse_bytes)};
}

StragglingSample read_straggling_sample(const JsonValue& value) {
  value.only_keys({"compute", "wait"});
  return {.compute = read_positive(value.at("compute"), parse_duration),
          .wait = read_quantity(value.at("wait"), parse_duration)};
}

CoreSharingSample read_core_sharing_sample(const JsonValue& value) {
  value.only_keys({"ranks", "time_share"});
  return {.ranks = static_cast<int>(value.at("ranks").integer(1, most_ranks)),
          .time_share = value.at("time_share").number(least_time_share, largest_slowdown)};
}

/// {"samples": [...], "origin": ..., ...}; no samples where the key is missing.
template <class Sample>
std::vector<Sample> read_samples(const ProfileFile& file, std::string_view key,
                                 Sample (*read)(const JsonValue&), HardwareProfile& profile) {
  std::vector<Sample> samples;
  const std::optional<JsonValue> table = file.find(key);
  if (!table) return samples;
  table->only_keys({"samples", "origin", "source", "date", "spread"});
  profile.provenance.emplace(key, read_provenance(*table));
  for (const JsonValue& row : table->at("samples").elements()) samples.push_back(read(row));
  return samples;
}

std::vector<StragglingSample> read_straggling(const ProfileFile& file, HardwareProfile& profile) {
  std::vector<StragglingSample> samples =
      read_samples(file, "straggling", read_straggling_sample, profile);
  std::ranges::sort(samples, {}, &StragglingSample::compute);
  return samples;
}

std::vector<CoreSharingSample> read_core_sharing(const ProfileFile& file,
                                                 HardwareProfile& profile) {
  std::vector<CoreSharingSample> samples =
      read_samples(file, "core_sharing", read_core_sharing_sample, profile);
  std::ranges::sort(samples, {}, &CoreSharingSample::ranks);
  return samples;
}

void read_contention(const ProfileFile& file, HardwareProfile& profile) {
  const std::optional<JsonValue> contention = file.find("contention");
  if (!contention) return;
  contention->only_keys({"compute_slowdown", "collective_slowdown", "collectives_serial",
                         "compute_waits", "origin", "source", "date", "spread"});
  profile.provenance.emplace("contention", read_provenance(*contention));
  profile.compute_slowdown = contention->at("compute_slowdown").number(1, largest_slowdown);
  profile.collective_slowdown = contention->at("collective_slowdown").number(1, largest_slowdown);
  profile.collectives_serial = contention->at("collectives_serial").boolean();
  if (const std::optional<JsonValue> waits = contention->find("compute_waits"))
    profile.compute_waits = waits->boolean();
}

std::string read_device(const JsonValue& value) {
  std::string device = value.string();
  if (device != "cpu" && device != "cuda")
    throw value.error(fmt::format("unknown device \"{}\"", device), "use \"cpu\" or \"cuda\"");
  return device;
}

int read_count(const ProfileFile& file, std::string_view key, int fallback, int least) {
  const std::optional<JsonValue> value = file.find(key);
  return value ? static_cast<int>(value->integer(least, most_ranks)) : fallback;
}

const std::vector<std::string_view>& known_keys() {
  static const std::vector<std::string_view> keys{"schema",
                                                  "based_on",
                                                  "name",
                                                  "source",
                                                  "device",
                                                  "threads_per_rank",
                                                  "ranks",
                                                  "memory",
                                                  "context_memory",
                                                  "communicator_memory",
                                                  "compute_capability",
                                                  "gpu",
                                                  "peak",
                                                  "peak_bfloat16",
                                                  "memory_bandwidth",
                                                  "operation_overhead",
                                                  "graph_operation_overhead",
                                                  "first_step_overhead",
                                                  "module_hook",
                                                  "host",
                                                  "host_to_device",
                                                  "device_to_host",
                                                  "pageable_to_device",
                                                  "pageable_to_host",
                                                  "node",
                                                  "interconnect",
                                                  "link",
                                                  "network",
                                                  "ranks_per_node",
                                                  "kernels",
                                                  "collectives",
                                                  "collective_memory",
                                                  "straggling",
                                                  "core_sharing",
                                                  "contention"};
  return keys;
}

void read_identity(const ProfileFile& file, HardwareProfile& profile) {
  const JsonValue& own = file.own();
  if (own.at("schema").string() != schema)
    throw own.at("schema").error("not a hardware profile of this version",
                                 fmt::format("expected \"{}\"", schema));
  profile.name = read_text(own.at("name"));
  profile.source = read_text(own.at("source"));
  profile.device = read_device(file.at("device"));
  profile.threads_per_rank = read_count(file, "threads_per_rank", 1, 1);
  profile.ranks = read_count(file, "ranks", 1, 1);
  profile.compute_capability = read_count(file, "compute_capability", 0, 0);
}

/// Where a peak is not given by itself, it is the data sheet's.
void read_peaks(const ProfileFile& file, HardwareProfile& profile) {
  if (!file.has("peak") && !profile.gpu)
    throw file.own().error("neither \"peak\" nor \"gpu\" says how fast the device computes",
                           "give \"gpu\" (the data sheet), or \"peak\" as calibrate measures it");
  if (file.has("peak") || !profile.gpu)
    profile.peak = read_positive_figure(file, "peak", parse_flop_rate, profile);
  else
    profile.peak = profile.gpu->float32;
  if (file.has("peak_bfloat16"))
    profile.peak_bfloat16 = read_positive_figure(file, "peak_bfloat16", parse_flop_rate, profile);
  else if (profile.gpu)
    profile.peak_bfloat16 = profile.gpu->bfloat16;
}

void read_ranks_per_node(const ProfileFile& file, HardwareProfile& profile) {
  const int gpus = profile.node ? profile.node->gpus : 0;
  profile.ranks_per_node = read_count(file, "ranks_per_node", gpus, 0);
  if (profile.node && profile.ranks_per_node != gpus)
    throw file.at("ranks_per_node")
        .error(fmt::format("{} ranks in a node of {} GPUs", profile.ranks_per_node, gpus),
               "leave it out, or give node.gpus the same number");
}

}  // namespace

HardwareProfile read_hardware_profile(const JsonValue& document) {
  const ProfileFile file(document);
  file.own().only_keys(known_keys());
  HardwareProfile profile;
  read_identity(file, profile);
  read_cluster(file, profile);
  read_peaks(file, profile);
  profile.memory = read_positive_figure(file, "memory", parse_bytes, profile);
  profile.context_memory = find_figure(file, "context_memory", parse_bytes, profile);
  profile.communicator_memory = find_figure(file, "communicator_memory", parse_bytes, profile);
  profile.memory_bandwidth =
      read_positive_figure(file, "memory_bandwidth", parse_bandwidth, profile);
  profile.operation_overhead = read_figure(file, "operation_overhead", parse_duration, profile);
  profile.graph_operation_overhead =
      find_figure(file, "graph_operation_overhead", parse_duration, profile);
  profile.first_step_overhead = find_figure(file, "first_step_overhead", parse_duration, profile);
  profile.module_hook = find_figure(file, "module_hook", parse_duration, profile);
  profile.host = read_host(file, profile);
  profile.host_to_device = read_link(file, "host_to_device", profile);
  profile.device_to_host = read_link(file, "device_to_host", profile);
  profile.pageable_to_device = read_link(file, "pageable_to_device", profile);
  profile.pageable_to_host = read_link(file, "pageable_to_host", profile);
  profile.link = read_link(file, "link", profile);
  profile.network = read_link(file, "network", profile);
  read_ranks_per_node(file, profile);
  profile.kernels = read_samples(file, "kernels", read_kernel_sample, profile);
  // Collectives of another node do not speak of this one.
  if (!file.is_below("collectives", "node"))
    profile.collectives = read_samples(file, "collectives", read_collective_sample, profile);
  profile.collective_memory =
      read_samples(file, "collective_memory", read_collective_memory, profile);
  profile.straggling = read_straggling(file, profile);
  profile.core_sharing = read_core_sharing(file, profile);
  read_contention(file, profile);
  return profile;
}

HardwareProfile read_hardware_profile(const std::filesystem::path& path) {
  return read_hardware_profile(JsonValue::read_file(path));
}

}  // namespace shardscope
