#include "sim/hardware/cluster_json.h"

#include "sim/hardware/figure_json.h"

namespace shardscope {
namespace {

constexpr std::int64_t most_of_a_node = 4096;
constexpr std::int64_t most_multiprocessors = 100'000;
constexpr std::int64_t newest_pcie = 9;
constexpr double largest_oversubscription = 1000;
constexpr double least_efficiency = 0.01;
constexpr double most_efficiency = 100;

// ---- reading

struct PeakField {
  std::string_view key;
  std::optional<FlopRate> Gpu::*member;
};
constexpr PeakField peak_fields[] = {{"tf32", &Gpu::tf32},
                                     {"float16", &Gpu::float16},
                                     {"bfloat16", &Gpu::bfloat16},
                                     {"float8", &Gpu::float8}};

Gpu read_gpu(const JsonValue& value) {
  value.only_keys({"name", "multiprocessors", "boost_clock", "l2_cache", "power_limit", "float32",
                   "tf32", "float16", "bfloat16", "float8", "origin", "source", "date", "spread"});
  Gpu gpu{.name = read_text(value.at("name")),
          .multiprocessors =
              static_cast<int>(value.at("multiprocessors").integer(1, most_multiprocessors)),
          .boost_clock = read_quantity(value.at("boost_clock"), parse_frequency),
          .l2_cache = read_positive(value.at("l2_cache"), parse_bytes),
          .power_limit = read_quantity(value.at("power_limit"), parse_power),
          .float32 = read_quantity(value.at("float32"), parse_flop_rate)};
  for (const PeakField& field : peak_fields)
    if (const auto peak = value.find(field.key))
      gpu.*field.member = read_quantity(*peak, parse_flop_rate);
  return gpu;
}

int read_small(const JsonValue& section, std::string_view key, int fallback, std::int64_t least,
               std::int64_t most) {
  const auto value = section.find(key);
  return value ? static_cast<int>(value->integer(least, most)) : fallback;
}

bool read_flag(const JsonValue& section, std::string_view key, bool fallback) {
  const auto value = section.find(key);
  return value ? value->boolean() : fallback;
}

double read_number(const JsonValue& section, std::string_view key, double fallback, double least,
                   double most) {
  const auto value = section.find(key);
  return value ? value->number(least, most) : fallback;
}

/// What its fabric needs to be costed.
void check_fabric(const JsonValue& value, const Node& node) {
  const bool links = node.fabric != Fabric::pcie;
  const bool slots = node.fabric == Fabric::pcie || node.fabric == Fabric::nvlink_pairs;
  if (links && node.nvlinks == 0)
    throw value.error(fmt::format("a fabric \"{}\" without nvlinks", name_of(node.fabric)),
                      "add \"nvlinks\", the links of one GPU, or use the fabric \"pcie\"");
  if (slots && node.pcie_generation == 0)
    throw value.error(fmt::format("a fabric \"{}\" without pcie_generation", name_of(node.fabric)),
                      "add \"pcie_generation\", for example 4");
}

Node read_node(const JsonValue& value) {
  value.only_keys({"gpus", "fabric", "nvlinks", "pcie_generation", "peer_to_peer", "host_bridge",
                   "host_memory_bandwidth", "cpu", "efficiency", "latency_factor", "origin",
                   "source", "date", "spread"});
  Node node{
      .gpus = static_cast<int>(value.at("gpus").integer(1, most_of_a_node)),
      .fabric = read_name(
          value.at("fabric"),
          {Fabric::nvswitch, Fabric::nvlink_mesh, Fabric::nvlink_pairs, Fabric::pcie}, "fabric"),
      .nvlinks = read_small(value, "nvlinks", 0, 1, most_of_a_node),
      .pcie_generation = read_small(value, "pcie_generation", 0, 1, newest_pcie),
      .peer_to_peer = read_flag(value, "peer_to_peer", true),
      .cpu = read_name(value.at("cpu"), {CpuVendor::intel, CpuVendor::amd, CpuVendor::arm},
                       "vendor of processors"),
      .efficiency = read_number(value, "efficiency", 1, least_efficiency, most_efficiency),
      .latency_factor = read_number(value, "latency_factor", 1, least_efficiency, most_efficiency)};
  if (const auto bridge = value.find("host_bridge"))
    node.host_bridge = read_quantity(*bridge, parse_bandwidth);
  if (const auto host = value.find("host_memory_bandwidth"))
    node.host_memory_bandwidth = read_quantity(*host, parse_bandwidth);
  check_fabric(value, node);
  return node;
}

Interconnect read_interconnect(const JsonValue& value) {
  value.only_keys({"kind", "adapters", "rate", "latency", "gpu_direct", "efficiency",
                   "oversubscription", "nodes_per_leaf", "collnet", "origin", "source", "date",
                   "spread"});
  const NetworkKind kind = read_name(
      value.at("kind"), {NetworkKind::infiniband, NetworkKind::roce, NetworkKind::tcp}, "network");
  const auto latency = value.find("latency");
  return {
      .kind = kind,
      .adapters = static_cast<int>(value.at("adapters").integer(1, most_of_a_node)),
      .rate = read_quantity(value.at("rate"), parse_bandwidth),
      .latency = latency ? read_quantity(*latency, parse_duration) : Duration{},
      .gpu_direct = read_flag(value, "gpu_direct", kind != NetworkKind::tcp),
      .efficiency = read_number(value, "efficiency", 1, least_efficiency, 1),
      .oversubscription = read_number(value, "oversubscription", 1, 1, largest_oversubscription),
      .nodes_per_leaf = read_small(value, "nodes_per_leaf", 1, 1, most_of_a_node),
      .collnet = read_flag(value, "collnet", false)};
}

template <class Section>
std::optional<Section> read_section(const ProfileFile& file, std::string_view key,
                                    Section (*read)(const JsonValue&), HardwareProfile& profile) {
  const std::optional<JsonValue> value = file.find(key);
  if (!value) return std::nullopt;
  profile.provenance.insert_or_assign(std::string(key), read_provenance(*value));
  return read(*value);
}

// ---- writing

std::string gpu_json(const Gpu& gpu) {
  std::string text = fmt::format(
      "\"name\": {}, \"multiprocessors\": {}, \"boost_clock\": \"{}\", \"l2_cache\": \"{}\",\n"
      "    \"power_limit\": \"{}\", \"float32\": \"{}\"",
      json_text(gpu.name), gpu.multiprocessors, exact_text(gpu.boost_clock),
      exact_text(gpu.l2_cache), exact_text(gpu.power_limit), exact_text(gpu.float32));
  for (const PeakField& field : peak_fields)
    if (const auto& peak = gpu.*field.member)
      text += fmt::format(", \"{}\": \"{}\"", field.key, exact_text(*peak));
  return text;
}

std::string node_json(const Node& node) {
  std::string text = fmt::format("\"gpus\": {}, \"fabric\": \"{}\", \"cpu\": \"{}\"", node.gpus,
                                 name_of(node.fabric), name_of(node.cpu));
  if (node.nvlinks > 0) text += fmt::format(", \"nvlinks\": {}", node.nvlinks);
  if (node.pcie_generation > 0)
    text += fmt::format(", \"pcie_generation\": {}", node.pcie_generation);
  if (!node.peer_to_peer) text += ", \"peer_to_peer\": false";
  if (node.efficiency != 1) text += fmt::format(", \"efficiency\": {}", node.efficiency);
  if (node.latency_factor != 1)
    text += fmt::format(", \"latency_factor\": {}", node.latency_factor);
  if (node.host_bridge)
    text += fmt::format(", \"host_bridge\": \"{}\"", exact_text(*node.host_bridge));
  if (node.host_memory_bandwidth)
    text +=
        fmt::format(", \"host_memory_bandwidth\": \"{}\"", exact_text(*node.host_memory_bandwidth));
  return text;
}

std::string interconnect_json(const Interconnect& net) {
  return fmt::format(
      "\"kind\": \"{}\", \"adapters\": {}, \"rate\": \"{}\", \"latency\": \"{}\",\n"
      "    \"gpu_direct\": {}, \"efficiency\": {}, \"oversubscription\": {}, \"nodes_per_leaf\": "
      "{}, \"collnet\": {}",
      name_of(net.kind), net.adapters, exact_text(net.rate), exact_text(net.latency),
      net.gpu_direct, net.efficiency, net.oversubscription, net.nodes_per_leaf, net.collnet);
}

template <class Section>
std::string section_json(const HardwareProfile& profile, std::string_view key,
                         const std::optional<Section>& section,
                         std::string (*text)(const Section&)) {
  if (!section) return {};
  return fmt::format("  \"{}\": {{\n    {},\n    {}\n  }},\n", key, text(*section),
                     provenance_json(profile, key));
}

}  // namespace

void read_cluster(const ProfileFile& file, HardwareProfile& profile) {
  profile.gpu = read_section(file, "gpu", read_gpu, profile);
  profile.node = read_section(file, "node", read_node, profile);
  profile.interconnect = read_section(file, "interconnect", read_interconnect, profile);
}

std::string cluster_json(const HardwareProfile& profile) {
  return section_json(profile, "gpu", profile.gpu, gpu_json) +
         section_json(profile, "node", profile.node, node_json) +
         section_json(profile, "interconnect", profile.interconnect, interconnect_json);
}

}  // namespace shardscope
