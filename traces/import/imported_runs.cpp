#include "traces/import/imported_runs.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>

namespace shardscope {
namespace {

/// Clocks of hosts differ by less, and windows of different jobs hardly lie so close.
constexpr std::int64_t longest_gap_ns = 60'000'000'000;

/// What decides to which run a trace belongs.
struct Traits {
  std::optional<int> rank, world;
  std::string name;  ///< of the file, numbers left out
  bool has_time = false;
  std::int64_t first_ns = 0, last_ns = 0;  ///< Unix time
};

std::string without_numbers(const std::string& name) {
  std::string text;
  std::copy_if(name.begin(), name.end(), std::back_inserter(text),
               [](unsigned char c) { return std::isdigit(c) == 0; });
  return text;
}

Traits traits_of(const ImportedTrace& trace) {
  Traits traits{.rank = trace.rank, .world = trace.world, .name = without_numbers(trace.file)};
  const std::size_t count = trace.events.size();
  traits.has_time = trace.base_ns > 0 && count > 0;
  if (!traits.has_time) return traits;
  traits.first_ns = std::numeric_limits<std::int64_t>::max();
  traits.last_ns = std::numeric_limits<std::int64_t>::min();
  for (std::size_t i = 0; i < count; ++i) {
    traits.first_ns = std::min(traits.first_ns, trace.events.start_ns[i]);
    traits.last_ns = std::max(traits.last_ns, trace.events.end_ns(i));
  }
  traits.first_ns += trace.base_ns;
  traits.last_ns += trace.base_ns;
  return traits;
}

/// 0: they overlap, or one does not say when it was taken.
std::int64_t gap_between(const Traits& a, const Traits& b) {
  if (!a.has_time || !b.has_time) return 0;
  return std::max<std::int64_t>({0, a.first_ns - b.last_ns, b.first_ns - a.last_ns});
}

bool are_of_one_run(const Traits& a, const Traits& b) {
  if (a.world && b.world && *a.world != *b.world) return false;
  if (a.rank.has_value() != b.rank.has_value()) return false;
  if (a.rank ? *a.rank == *b.rank : a.name != b.name) return false;
  return gap_between(a, b) < longest_gap_ns;
}

}  // namespace

std::vector<std::vector<std::size_t>> runs_of(const std::vector<ImportedTrace>& traces) {
  std::vector<Traits> traits;
  traits.reserve(traces.size());
  for (const ImportedTrace& trace : traces) traits.push_back(traits_of(trace));
  std::vector<std::vector<std::size_t>> runs;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    std::vector<std::size_t>* nearest = nullptr;
    std::int64_t smallest_gap = longest_gap_ns;
    for (std::vector<std::size_t>& run : runs) {
      const bool fits = std::all_of(run.begin(), run.end(), [&](std::size_t other) {
        return are_of_one_run(traits[i], traits[other]);
      });
      const std::int64_t gap = gap_between(traits[i], traits[run.front()]);
      if (!fits || gap >= smallest_gap) continue;
      nearest = &run;
      smallest_gap = gap;
    }
    if (nearest != nullptr)
      nearest->push_back(i);
    else
      runs.push_back({i});
  }
  return runs;
}

}  // namespace shardscope
