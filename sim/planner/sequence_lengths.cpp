#include "sim/planner/sequence_lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/format/json_reader.h"

namespace shardscope::planner {
namespace {

constexpr std::int64_t longest_allowed = 100'000'000;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::int64_t length_in(std::string_view line, std::string_view name, std::size_t number) {
  std::int64_t length = 0;
  const char* end = line.data() + line.size();
  const auto [at, error] = std::from_chars(line.data(), end, length);
  if (error != std::errc() || at != end || length < 1 || length > longest_allowed)
    throw Error({.where = fmt::format("{}:{}", name, number),
                 .what = fmt::format("expected a length of 1 to {} tokens, got \"{}\"",
                                     longest_allowed, line.substr(0, 40)),
                 .way_out = "write one length a line, or a JSON list of lengths"});
  return length;
}

std::vector<std::int64_t> lines_of(std::string_view text, std::string_view name) {
  std::vector<std::int64_t> lengths;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    if (const std::string_view line = trimmed(text.substr(0, end)); !line.empty())
      lengths.push_back(length_in(line, name, number));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return lengths;
}

/// Mean of the geometric distribution on 1 to n whose neighbours' ratio is exp(-rate).
double mean_at(double rate, std::int64_t n) {
  double weights = 0, sum = 0;
  for (std::int64_t i = 1; i <= n; ++i) {
    const double weight = std::exp(-rate * static_cast<double>(rate >= 0 ? i - 1 : i - n));
    weights += weight;
    sum += weight * static_cast<double>(i);
  }
  return sum / weights;
}

/// Its rate for a mean, by halving: the mean falls as the rate grows.
double rate_for(double mean, std::int64_t n) {
  double low = -50, high = 50;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (mean_at(middle, n) > mean ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// Rows of `length` that best-fit decreasing takes: each into the row that it leaves least of.
/// Source: trl 0.18 data_utils.py, pack_dataset(strategy="bfd").
std::int64_t packed_rows(const std::vector<std::int64_t>& ascending, std::int64_t length) {
  std::map<std::int64_t, std::int64_t> rows_by_rest;
  std::int64_t rows = 0;
  for (auto one = ascending.rbegin(); one != ascending.rend(); ++one) {
    const std::int64_t taken = std::min(*one, length);
    std::int64_t rest = length;
    if (const auto best = rows_by_rest.lower_bound(taken); best != rows_by_rest.end()) {
      rest = best->first;
      if (--best->second == 0) rows_by_rest.erase(best);
    } else {
      ++rows;
    }
    ++rows_by_rest[rest - taken];
  }
  return rows;
}

}  // namespace

double SequenceLengths::mean() const {
  return std::accumulate(ascending.begin(), ascending.end(), 0.0) /
         static_cast<double>(ascending.size());
}

SequenceLengths read_lengths(std::string_view text, std::string_view name) {
  SequenceLengths lengths;
  if (trimmed(text).starts_with('[')) {
    for (const JsonValue& value : JsonValue::parse(text, name).elements())
      lengths.ascending.push_back(value.integer(1, longest_allowed));
  } else {
    lengths.ascending = lines_of(text, name);
  }
  if (lengths.ascending.empty())
    throw Error({.where = std::string(name),
                 .what = "has no lengths",
                 .way_out = "write one length a line, or a JSON list of lengths"});
  std::sort(lengths.ascending.begin(), lengths.ascending.end());
  return lengths;
}

SequenceLengths lengths_with(double mean, std::int64_t longest) {
  constexpr std::int64_t most = 1 << 20;
  constexpr int count = 1000;
  if (!(longest >= 1 && longest <= most && mean >= 1 && mean <= static_cast<double>(longest)))
    throw Error({.where = "--lengths",
                 .what = fmt::format("expected 1 <= mean <= max <= {}, got mean {} and max {}",
                                     most, mean, longest)});
  const double rate = rate_for(mean, longest);
  std::vector<double> weights;
  for (std::int64_t i = 1; i <= longest; ++i)
    weights.push_back(std::exp(-rate * static_cast<double>(rate >= 0 ? i - 1 : i - longest)));
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  SequenceLengths lengths;
  double below = 0;
  std::int64_t length = 1;
  for (int i = 0; i < count; ++i) {
    const double wanted = (i + 0.5) / count * all;
    while (length < longest && below + weights[static_cast<std::size_t>(length - 1)] < wanted)
      below += weights[static_cast<std::size_t>(length++ - 1)];
    lengths.ascending.push_back(length);
  }
  lengths.ascending.back() = longest;
  return lengths;
}

LengthFigures length_figures(const SequenceLengths& lengths, std::int64_t length,
                             std::int64_t batch) {
  const auto& all = lengths.ascending;
  const auto count = static_cast<double>(all.size());
  LengthFigures figures;
  double kept = 0, beyond = 0, at_most = 0;
  const std::int64_t greatest = std::min(lengths.longest(), length);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int64_t taken = std::min(all[i], length);
    kept += static_cast<double>(taken);
    beyond += static_cast<double>(all[i] - taken);
    // Of drawing `batch` of them, that this one is the last in their order.
    const double share = std::pow(static_cast<double>(i + 1) / count, static_cast<double>(batch));
    figures.expected_longest += (share - at_most) * static_cast<double>(taken);
    if (taken == greatest) figures.at_peak_share += share - at_most;
    at_most = share;
  }
  figures.cut_share = beyond / (kept + beyond);
  figures.padding_to_length_share = 1 - kept / count / static_cast<double>(length);
  figures.padding_to_batch_share = 1 - kept / count / figures.expected_longest;
  figures.padding_when_packed_share =
      1 - kept / static_cast<double>(packed_rows(all, length) * length);
  return figures;
}

std::vector<std::int64_t> growing_lengths(const DrawnRun& drawn) {
  constexpr std::uint32_t orders = 101;
  std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>> runs;
  for (std::uint32_t order = 1; order <= orders; ++order) {
    std::vector<std::int64_t> longest_so_far;
    std::int64_t sum = 0;
    for (const std::int64_t length : drawn(order)) {
      if (!longest_so_far.empty() && length <= longest_so_far.back()) continue;
      longest_so_far.push_back(length);
      sum += length;
    }
    runs.emplace_back(sum, std::move(longest_so_far));
  }
  std::ranges::sort(runs);
  return runs[orders / 2].second;
}

DrawnRun padded_run(const SequenceLengths& lengths, std::int64_t cap, std::int64_t sequences,
                    int micro_batches) {
  return [&lengths, cap, sequences, micro_batches](std::uint32_t order) {
    std::mt19937 bits(order);
    std::vector<std::int64_t> run(static_cast<std::size_t>(micro_batches), 1);
    for (std::int64_t& longest : run)
      for (std::int64_t i = 0; i < sequences; ++i)
        longest =
            std::max(longest, std::min(cap, lengths.ascending[bits() % lengths.ascending.size()]));
    return run;
  };
}

}  // namespace shardscope::planner
