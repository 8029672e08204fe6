#include "sim/validate/published_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "sim/hardware/builtin_profiles.h"
#include "sim/validate/published_words.h"

namespace shardscope {
namespace {

/// The first row whose words all stand in the GPU's name.
struct GpuName {
  std::array<std::string_view, 2> words;  ///< "": none
  std::string_view cluster;
};
constexpr std::array<GpuName, 15> gpu_names{{{{"GB300", ""}, "gb300_nvl72"},
                                             {{"GB200", ""}, "gb200_nvl72"},
                                             {{"B200", ""}, "b200_sxm"},
                                             {{"H200", ""}, "h200_sxm"},
                                             {{"H100", "HBM2e"}, "h100_hbm2e_500w"},
                                             {{"H100", "GCP A3"}, "h100_gcp_a3_high"},
                                             {{"H100", ""}, "h100_sxm"},
                                             {{"A800", ""}, "a800_80gb"},
                                             {{"A100", "PCIe"}, "a100_pcie_80gb"},
                                             {{"A100", "40"}, "a100_40gb"},
                                             {{"A100", ""}, "a100_80gb"},
                                             {{"L40S", ""}, "l40s"},
                                             {{"4090", ""}, "rtx4090"},
                                             {{"TITAN RTX", ""}, "titan_rtx"},
                                             {{"V100", ""}, "v100_sxm"}}};

bool is_builtin(std::string_view name) {
  return std::ranges::any_of(builtin_profiles(),
                             [&](const BuiltinProfile& known) { return known.name == name; });
}

std::optional<std::string_view> cluster_of(std::string_view gpu) {
  for (const GpuName& known : gpu_names) {
    const bool named = std::ranges::all_of(
        known.words, [&](std::string_view word) { return word.empty() || has_word(gpu, word); });
    if (named && is_builtin(known.cluster)) return known.cluster;
  }
  return std::nullopt;
}

/// A rate as it stands in a text: "1600 Gbps", "400Gb/s", "4x100Gb".
struct StatedRate {
  double gigabits = 0;  ///< a second; adapters counted in
  int adapters = 1;
  std::string_view before, behind;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The rate whose unit stands at `unit`; none where no number stands before it.
std::optional<StatedRate> rate_before(std::string_view text, std::size_t unit) {
  std::size_t begin = unit;
  while (begin > 0 && text[begin - 1] == ' ') --begin;
  const std::size_t end = begin;
  const auto is_part = [&](std::size_t at) {
    const char c = text[at];
    if (c == '.') return at + 1 < end && is_digit(text[at + 1]);
    return is_digit(c) || c == 'x' || c == '*' || c == ' ';
  };
  while (begin > 0 && is_part(begin - 1)) --begin;
  StatedRate rate{.before = text.substr(0, begin), .behind = text.substr(unit)};
  for (std::size_t at = begin; at < end;) {
    if (!is_digit(text[at])) {
      ++at;
      continue;
    }
    double factor = 0;
    const auto read = std::from_chars(text.data() + at, text.data() + end, factor);
    constexpr double largest = 1e6;
    if (read.ec != std::errc() || factor > largest) return std::nullopt;
    if (rate.gigabits > 0) rate.adapters = static_cast<int>(rate.gigabits);
    rate.gigabits = factor * rate.adapters;
    at = static_cast<std::size_t>(read.ptr - text.data());
  }
  if (rate.gigabits <= 0) return std::nullopt;
  return rate;
}

std::vector<StatedRate> stated_rates(std::string_view notes) {
  std::vector<StatedRate> rates;
  for (std::size_t at = notes.find("Gb"); at != std::string_view::npos;
       at = notes.find("Gb", at + 1))
    if (const auto rate = rate_before(notes, at)) rates.push_back(*rate);
  return rates;
}

/// A rate is about the network where its clause says so.
bool is_network(const StatedRate& rate) {
  constexpr std::array<std::string_view, 6> words{"node",       "RoCE",    "RDMA",
                                                  "InfiniBand", "network", "IB"};
  const std::string_view clause = rate.behind.substr(0, rate.behind.find(';'));
  return std::ranges::any_of(words, [&](std::string_view word) { return has_word(clause, word); });
}

/// "400 Gb/s (A100)": the name in brackets right behind the unit; "" where there is none.
std::string_view bracketed(const StatedRate& rate) {
  constexpr std::size_t farthest = std::string_view("Gbit/s ").size();
  const std::size_t open = rate.behind.find('(');
  if (open > farthest) return {};
  const std::size_t close = rate.behind.find(')', open);
  if (close == std::string_view::npos) return {};
  return rate.behind.substr(open + 1, close - open - 1);
}

}  // namespace

std::optional<StatedNetwork> stated_network(std::string_view notes, std::string_view gpu,
                                            int gpus_per_node) {
  for (const StatedRate& rate : stated_rates(notes)) {
    if (!is_network(rate)) continue;
    if (const std::string_view of = bracketed(rate); !of.empty() && !has_word(gpu, of)) continue;
    const std::string_view clause = rate.behind.substr(0, rate.behind.find_first_of(",;"));
    constexpr double bytes_of_gigabit = 1e9 / 8;
    StatedNetwork network{.rate = {rate.gigabits * bytes_of_gigabit}};
    if (rate.adapters > 1) network.adapters = rate.adapters;
    if (has_word(clause, "per GPU")) {
      network.rate.bytes_per_s *= gpus_per_node;
      network.adapters = gpus_per_node;
    }
    if (has_word(clause, "RoCE")) network.kind = NetworkKind::roce;
    return network;
  }
  return std::nullopt;
}

namespace {

/// bigscience's runs are on Jean Zay.
std::optional<std::string_view> cluster_of_repository(std::string_view repository) {
  if (repository == "bigscience-workshop/bigscience") return "a100_80gb_jean_zay";
  return std::nullopt;
}

void connect(const StatedNetwork& stated, Interconnect& network) {
  if (stated.adapters) network.adapters = *stated.adapters;
  if (stated.kind) network.kind = *stated.kind;
  network.rate = {stated.rate.bytes_per_s / std::max(1, network.adapters)};
}

/// Servers of `gpus`; NVLink domains of several servers stay whole.
void seat(std::int64_t gpus, HardwareProfile& profile) {
  constexpr int largest_server = 16;
  if (gpus > largest_server || (profile.node && profile.node->gpus > largest_server)) return;
  profile.ranks_per_node = static_cast<int>(gpus);
  if (profile.node) profile.node->gpus = static_cast<int>(gpus);
}

}  // namespace

std::optional<PublishedMachine> published_machine(const PublishedRow& row) {
  const auto own = cluster_of_repository(repository_of(row));
  const auto cluster = own ? own : cluster_of(row.gpu);
  if (!cluster) return std::nullopt;
  PublishedMachine machine{.profile = find_hardware_profile(*cluster, "gpu")};
  HardwareProfile& profile = machine.profile;
  machine.assumed.push_back(fmt::format("figures of {}", *cluster));
  if (row.gpus_per_node) seat(*row.gpus_per_node, profile);
  const int in_node = std::max(1, profile.ranks_per_node);
  const auto network = stated_network(row.network_notes, row.gpu, in_node);
  if (network && profile.interconnect) connect(*network, *profile.interconnect);
  if (!network && !own && row.gpus.value_or(1) > in_node)
    machine.assumed.emplace_back("the network of that cluster");
  return machine;
}

void share_networks(std::vector<PublishedRow>& rows) {
  std::map<std::pair<std::string, std::string>, std::string> stated;
  const auto machines_of = [](const PublishedRow& row) {
    return std::pair(repository_of(row), row.gpu);
  };
  for (const PublishedRow& row : rows)
    if (stated_network(row.notes, row.gpu, 1)) stated.emplace(machines_of(row), row.notes);
  for (PublishedRow& row : rows) {
    if (stated_network(row.notes, row.gpu, 1)) continue;
    if (const auto found = stated.find(machines_of(row)); found != stated.end())
      row.network_notes = found->second;
  }
}

}  // namespace shardscope
