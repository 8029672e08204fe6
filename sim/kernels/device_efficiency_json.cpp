// Reader of efficiency files.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "sim/hardware/figure_json.h"
#include "sim/kernels/builtin_efficiencies.h"
#include "sim/kernels/device_efficiency.h"

namespace shardscope {
namespace {

constexpr std::string_view schema = "shardscope.efficiency/1";
constexpr std::int64_t largest_tile = 4096;
constexpr std::int64_t largest_head = 4096;
constexpr std::int64_t longest_half = 1 << 20;
constexpr std::int64_t most_multiprocessors = 100'000;
constexpr double least_share = 1e-4;
constexpr double largest_spread = 10;
/// Above one: a cache helps.
constexpr double largest_share = 4;

double read_share(const JsonValue& value) { return value.number(least_share, largest_share); }

MatmulTile read_tile(const JsonValue& value) {
  if (value.size() != 3) throw value.error("a tile is [rows, columns, efficiency]");
  return {.m = value[0].integer(1, largest_tile),
          .n = value[1].integer(1, largest_tile),
          .efficiency = read_share(value[2])};
}

std::map<Dtype, double> read_shares(const JsonValue& value) {
  std::map<Dtype, double> shares;
  for (const auto& [name, share] : value.members())
    shares.emplace(parse_dtype(name, share.where()), read_share(share));
  return shares;
}

CardProducts read_card(const JsonValue& value) {
  constexpr double most = 2;
  value.only_keys({"card", "reached", "power", "origin", "source", "date", "spread"});
  return {.card = value.at("card").string(),
          .reached = value.at("reached").number(least_share, most),
          .power = read_positive(value.at("power"), parse_power),
          .provenance = read_provenance(value)};
}

MatmulEfficiency read_matmul(const JsonValue& value) {
  value.only_keys({"tiles", "reached", "clock", "power", "unaligned", "unaligned_batch",
                   "batched_spread", "unaligned_batch_spread", "precise_sums", "prologue",
                   "wave_loss", "cards", "origin", "source", "date", "spread"});
  MatmulEfficiency matmul{.clock = value.at("clock").number(least_share, 1),
                          .power = read_quantity(value.at("power"), parse_power),
                          .unaligned = read_share(value.at("unaligned")),
                          .prologue = read_quantity(value.at("prologue"), parse_duration),
                          .wave_loss = value.at("wave_loss").number(0, 1),
                          .provenance = read_provenance(value)};
  if (const std::optional<JsonValue> batch = value.find("unaligned_batch"))
    matmul.unaligned_batch = read_share(*batch);
  if (const std::optional<JsonValue> spread = value.find("batched_spread"))
    matmul.batched_spread = spread->number(0, largest_spread);
  if (const std::optional<JsonValue> spread = value.find("unaligned_batch_spread"))
    matmul.unaligned_batch_spread = spread->number(0, largest_spread);
  if (const std::optional<JsonValue> precise = value.find("precise_sums"))
    matmul.precise_sums = precise->number(least_share, 1);
  for (const JsonValue& tile : value.at("tiles").elements())
    matmul.tiles.push_back(read_tile(tile));
  if (matmul.tiles.empty()) throw value.at("tiles").error("must name at least one tile");
  matmul.reached = read_shares(value.at("reached"));
  if (const std::optional<JsonValue> cards = value.find("cards"))
    for (const JsonValue& card : cards->elements()) matmul.cards.push_back(read_card(card));
  return matmul;
}

WorkKind read_work_kind(std::string_view name, const JsonValue& value) {
  for (int i = 0; i <= static_cast<int>(WorkKind::attention_backward); ++i)
    if (const auto kind = static_cast<WorkKind>(i); name_of(kind) == name) return kind;
  throw value.error(fmt::format("unknown kind of work \"{}\"", name),
                    "use pointwise, reduction, norm_forward, softmax, copy, ...");
}

MemoryEfficiency read_memory(const JsonValue& value) {
  value.only_keys({"share", "transposed_casts", "latency", "origin", "source", "date", "spread"});
  MemoryEfficiency memory{.latency = read_quantity(value.at("latency"), parse_duration),
                          .provenance = read_provenance(value)};
  if (const std::optional<JsonValue> casts = value.find("transposed_casts"))
    memory.transposed_casts = casts->number(least_share, 1);
  for (const auto& [name, share] : value.at("share").members())
    memory.share.emplace(read_work_kind(name, share), read_share(share));
  return memory;
}

AttentionEfficiency read_attention(const JsonValue& value) {
  value.only_keys({"library", "head_dim", "forward", "backward", "half_length", "power", "origin",
                   "source", "date", "spread"});
  using enum AttentionLibrary;
  const std::optional<JsonValue> power = value.find("power");
  return {.library = read_name(value.at("library"),
                               {flash, efficient, cudnn, flash1, triton, flash3}, "library"),
          .head_dim = value.at("head_dim").integer(1, largest_head),
          .forward = read_share(value.at("forward")),
          .backward = read_share(value.at("backward")),
          .half_length = value.at("half_length").integer(0, longest_half),
          .power = power ? read_quantity(*power, parse_power) : Power{},
          .provenance = read_provenance(value)};
}

ConvolutionEfficiency read_convolution(const JsonValue& value) {
  value.only_keys({"forward", "backward", "few_channels", "origin", "source", "date", "spread"});
  return {.forward = read_shares(value.at("forward")),
          .backward = read_shares(value.at("backward")),
          .few_channels = read_positive(value.at("few_channels"), parse_flop_rate),
          .provenance = read_provenance(value)};
}

RecurrentEfficiency read_recurrent(const JsonValue& value) {
  value.only_keys({"forward", "backward", "persistent_forward", "persistent_backward",
                   "persistent_forward_rate", "persistent_backward_rate", "origin", "source",
                   "date", "spread"});
  const auto time = [&](std::string_view key) {
    return read_quantity(value.at(key), parse_duration);
  };
  const auto rate = [&](std::string_view key) {
    return read_positive(value.at(key), parse_flop_rate);
  };
  return {.forward = time("forward"),
          .backward = time("backward"),
          .persistent_forward = time("persistent_forward"),
          .persistent_backward = time("persistent_backward"),
          .persistent_forward_rate = rate("persistent_forward_rate"),
          .persistent_backward_rate = rate("persistent_backward_rate"),
          .provenance = read_provenance(value)};
}

SharingEfficiency read_sharing(const JsonValue& value) {
  value.only_keys({"multiprocessors", "origin", "source", "date", "spread"});
  return {.multiprocessors =
              static_cast<int>(value.at("multiprocessors").integer(0, most_multiprocessors)),
          .provenance = read_provenance(value)};
}

}  // namespace

DeviceEfficiency read_device_efficiency(const JsonValue& root) {
  root.only_keys({"schema", "name", "compute_capability", "matmul", "memory", "attention",
                  "convolution", "recurrent", "sharing"});
  if (root.at("schema").string() != schema)
    throw root.at("schema").error("not an efficiency file of this version",
                                  fmt::format("expected \"{}\"", schema));
  constexpr std::int64_t newest = 10'000;
  DeviceEfficiency efficiency{
      .name = read_text(root.at("name")),
      .compute_capability = static_cast<int>(root.at("compute_capability").integer(0, newest)),
      .matmul = read_matmul(root.at("matmul")),
      .memory = read_memory(root.at("memory")),
      .convolution = read_convolution(root.at("convolution")),
      .recurrent = read_recurrent(root.at("recurrent")),
      .sharing = read_sharing(root.at("sharing"))};
  for (const JsonValue& row : root.at("attention").elements())
    efficiency.attention.push_back(read_attention(row));
  return efficiency;
}

const DeviceEfficiency& efficiency_of(int compute_capability) {
  static const std::vector<DeviceEfficiency> all = [] {
    std::vector<DeviceEfficiency> read;
    for (const BuiltinEfficiency& file : builtin_efficiencies())
      read.push_back(read_device_efficiency(JsonValue::parse(file.text, file.name)));
    return read;
  }();
  const DeviceEfficiency* best = nullptr;
  for (const DeviceEfficiency& each : all)
    if (each.compute_capability <= compute_capability &&
        (best == nullptr || each.compute_capability > best->compute_capability))
      best = &each;
  if (best != nullptr) return *best;
  return *std::ranges::min_element(all, {}, &DeviceEfficiency::compute_capability);
}

}  // namespace shardscope
