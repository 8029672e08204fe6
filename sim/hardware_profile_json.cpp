// Reader and writer of hardware profiles.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "sim/hardware_profile.h"
#include "sim/kernel_json.h"

namespace shardscope {
namespace {

constexpr std::string_view schema = "shardscope.hardware/1";
constexpr std::int64_t most_ranks = 1 << 24;
constexpr std::int64_t most_channels = 1024;
constexpr double largest_slowdown = 1000;

// ---- reading

Origin read_origin(const JsonValue& value) {
  const std::string text = value.string();
  for (Origin origin : {Origin::measured, Origin::vendor, Origin::assumed})
    if (name_of(origin) == text) return origin;
  throw value.error(fmt::format("unknown origin \"{}\"", text),
                    "use \"measured\", \"vendor\" or \"assumed\"");
}

std::string read_text(const JsonValue& value) {
  std::string text = value.string();
  if (text.empty()) throw value.error("must not be empty");
  return text;
}

Provenance read_provenance(const JsonValue& figure) {
  return {.origin = read_origin(figure.at("origin")),
          .source = read_text(figure.at("source")),
          .date = read_text(figure.at("date"))};
}

/// Text with a unit, through one of the parsers of core/quantities.h.
template <class Quantity>
Quantity read_quantity(const JsonValue& value,
                       Quantity (*parse)(std::string_view, std::string_view)) {
  if (value.is_number())
    throw value.error("a number without a unit: " + value.dump(),
                      "write text with a unit, for example \"80 GiB\", \"900 GB/s\" or \"5 us\"");
  return parse(value.string(), value.where());
}

template <class Quantity>
Quantity read_positive(const JsonValue& value,
                       Quantity (*parse)(std::string_view, std::string_view)) {
  const Quantity quantity = read_quantity(value, parse);
  if (!(quantity > Quantity{})) throw value.error("must be greater than zero");
  return quantity;
}

/// {"value": ..., "origin": ..., "source": ..., "date": ...}
template <class Quantity>
Quantity read_figure(const JsonValue& root, std::string_view key,
                     Quantity (*parse)(std::string_view, std::string_view),
                     HardwareProfile& profile) {
  const JsonValue figure = root.at(key);
  figure.only_keys({"value", "origin", "source", "date"});
  profile.provenance.emplace(key, read_provenance(figure));
  return read_quantity(figure.at("value"), parse);
}

template <class Quantity>
std::optional<Quantity> find_figure(const JsonValue& root, std::string_view key,
                                    Quantity (*parse)(std::string_view, std::string_view),
                                    HardwareProfile& profile) {
  if (!root.has(key)) return std::nullopt;
  return read_figure(root, key, parse, profile);
}

template <class Quantity>
Quantity read_positive_figure(const JsonValue& root, std::string_view key,
                              Quantity (*parse)(std::string_view, std::string_view),
                              HardwareProfile& profile) {
  const Quantity quantity = read_figure(root, key, parse, profile);
  if (!(quantity > Quantity{})) throw root.at(key).at("value").error("must be greater than zero");
  return quantity;
}

std::optional<Link> read_link(const JsonValue& root, std::string_view key,
                              HardwareProfile& profile) {
  const std::optional<JsonValue> link = root.find(key);
  if (!link) return std::nullopt;
  link->only_keys({"bandwidth", "latency", "origin", "source", "date"});
  profile.provenance.emplace(key, read_provenance(*link));
  return Link{.bandwidth = read_positive(link->at("bandwidth"), parse_bandwidth),
              .latency = read_quantity(link->at("latency"), parse_duration)};
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

/// {"samples": [...], "origin": ..., ...}; no samples where the key is missing.
template <class Sample>
std::vector<Sample> read_samples(const JsonValue& root, std::string_view key,
                                 Sample (*read)(const JsonValue&), HardwareProfile& profile) {
  std::vector<Sample> samples;
  const std::optional<JsonValue> table = root.find(key);
  if (!table) return samples;
  table->only_keys({"samples", "origin", "source", "date"});
  profile.provenance.emplace(key, read_provenance(*table));
  for (const JsonValue& row : table->at("samples").elements()) samples.push_back(read(row));
  return samples;
}

void read_contention(const JsonValue& root, HardwareProfile& profile) {
  const std::optional<JsonValue> contention = root.find("contention");
  if (!contention) return;
  contention->only_keys({"compute_slowdown", "collective_slowdown", "collectives_serial", "origin",
                         "source", "date"});
  profile.provenance.emplace("contention", read_provenance(*contention));
  profile.compute_slowdown = contention->at("compute_slowdown").number(1, largest_slowdown);
  profile.collective_slowdown = contention->at("collective_slowdown").number(1, largest_slowdown);
  profile.collectives_serial = contention->at("collectives_serial").boolean();
}

std::string read_device(const JsonValue& value) {
  std::string device = value.string();
  if (device != "cpu" && device != "cuda")
    throw value.error(fmt::format("unknown device \"{}\"", device), "use \"cpu\" or \"cuda\"");
  return device;
}

int read_count(const JsonValue& root, std::string_view key, int fallback, int least) {
  const std::optional<JsonValue> value = root.find(key);
  return value ? static_cast<int>(value->integer(least, most_ranks)) : fallback;
}

// ---- writing

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + "\"";
}

std::string provenance_json(const HardwareProfile& profile, std::string_view key) {
  const auto found = profile.provenance.find(key);
  const Provenance provenance = found == profile.provenance.end() ? Provenance{} : found->second;
  return fmt::format("\"origin\": \"{}\", \"source\": {}, \"date\": {}", name_of(provenance.origin),
                     json_text(provenance.source), json_text(provenance.date));
}

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
      "\"collectives_serial\": {}, {}}},\n",
      profile.compute_slowdown, profile.collective_slowdown, profile.collectives_serial,
      provenance_json(profile, "contention"));
}

}  // namespace

HardwareProfile read_hardware_profile(const JsonValue& root) {
  root.only_keys({"schema",
                  "name",
                  "source",
                  "device",
                  "threads_per_rank",
                  "ranks",
                  "memory",
                  "context_memory",
                  "communicator_memory",
                  "compute_capability",
                  "peak",
                  "peak_bfloat16",
                  "memory_bandwidth",
                  "operation_overhead",
                  "graph_operation_overhead",
                  "host_to_device",
                  "device_to_host",
                  "link",
                  "network",
                  "ranks_per_node",
                  "kernels",
                  "collectives",
                  "collective_memory",
                  "contention"});
  if (root.at("schema").string() != schema)
    throw root.at("schema").error("not a hardware profile of this version",
                                  fmt::format("expected \"{}\"", schema));
  HardwareProfile profile;
  profile.name = read_text(root.at("name"));
  profile.source = read_text(root.at("source"));
  profile.device = read_device(root.at("device"));
  profile.threads_per_rank = read_count(root, "threads_per_rank", 1, 1);
  profile.ranks = read_count(root, "ranks", 1, 1);
  profile.memory = read_positive_figure(root, "memory", parse_bytes, profile);
  profile.context_memory = find_figure(root, "context_memory", parse_bytes, profile);
  profile.communicator_memory = find_figure(root, "communicator_memory", parse_bytes, profile);
  profile.compute_capability = read_count(root, "compute_capability", 0, 0);
  profile.peak = read_positive_figure(root, "peak", parse_flop_rate, profile);
  if (root.has("peak_bfloat16"))
    profile.peak_bfloat16 = read_positive_figure(root, "peak_bfloat16", parse_flop_rate, profile);
  profile.memory_bandwidth =
      read_positive_figure(root, "memory_bandwidth", parse_bandwidth, profile);
  profile.operation_overhead = read_figure(root, "operation_overhead", parse_duration, profile);
  profile.graph_operation_overhead =
      find_figure(root, "graph_operation_overhead", parse_duration, profile);
  profile.host_to_device = read_link(root, "host_to_device", profile);
  profile.device_to_host = read_link(root, "device_to_host", profile);
  profile.link = read_link(root, "link", profile);
  profile.network = read_link(root, "network", profile);
  profile.ranks_per_node = read_count(root, "ranks_per_node", 0, 0);
  profile.kernels = read_samples(root, "kernels", read_kernel_sample, profile);
  profile.collectives = read_samples(root, "collectives", read_collective_sample, profile);
  profile.collective_memory =
      read_samples(root, "collective_memory", read_collective_memory, profile);
  read_contention(root, profile);
  return profile;
}

HardwareProfile read_hardware_profile(const std::filesystem::path& path) {
  return read_hardware_profile(JsonValue::read_file(path));
}

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
  text += figure_json(profile, "peak", profile.peak);
  if (profile.peak_bfloat16) text += figure_json(profile, "peak_bfloat16", *profile.peak_bfloat16);
  text += figure_json(profile, "memory_bandwidth", profile.memory_bandwidth);
  text += figure_json(profile, "operation_overhead", profile.operation_overhead);
  if (profile.graph_operation_overhead)
    text += figure_json(profile, "graph_operation_overhead", *profile.graph_operation_overhead);
  text += link_json(profile, "host_to_device", profile.host_to_device);
  text += link_json(profile, "device_to_host", profile.device_to_host);
  text += link_json(profile, "link", profile.link);
  text += link_json(profile, "network", profile.network);
  text += samples_json(profile, "kernels", profile.kernels);
  text += samples_json(profile, "collectives", profile.collectives);
  text += samples_json(profile, "collective_memory", profile.collective_memory);
  text += contention_json(profile);
  return text + fmt::format("  \"ranks_per_node\": {}\n}}\n", profile.ranks_per_node);
}

}  // namespace shardscope
