#include "sim/validate/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include "core/base/error.h"
#include "core/base/median.h"
#include "sim/megatron/divided_step.h"
#include "sim/validate/published_scenario.h"

namespace shardscope {
namespace {

std::string group_of(const PublishedRow& row) {
  return fmt::format("{}|{}|{}|{}|{}", repository_of(row), row.model, row.hidden.value_or(0),
                     row.layers.value_or(0), row.gpu);
}

double speed(const ValidatedRow& row, Duration step) {
  return static_cast<double>(row.tokens_per_gpu) / step.seconds();
}

int sign(double value) { return value > 0 ? 1 : (value < 0 ? -1 : 0); }

std::optional<double> kendall_tau(std::span<const ValidatedRow* const> rows) {
  std::int64_t pairs = 0, agreement = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const ValidatedRow &a = *rows[i], &b = *rows[j];
      if (a.group != b.group) continue;
      const int measured = sign(speed(a, *a.measured) - speed(b, *b.measured));
      pairs += measured != 0;
      agreement += measured * sign(speed(a, *a.predicted) - speed(b, *b.predicted));
    }
  if (pairs == 0) return std::nullopt;
  return static_cast<double>(agreement) / static_cast<double>(pairs);
}

ErrorStatistics statistics(std::string source, std::span<const ValidatedRow* const> rows) {
  ErrorStatistics result{.source = std::move(source), .rows = static_cast<int>(rows.size())};
  if (rows.empty()) return result;
  std::vector<double> errors;
  int covered = 0;
  for (const ValidatedRow* row : rows) {
    errors.push_back(std::abs(row->error()));
    result.mean_abs_error += errors.back() / static_cast<double>(rows.size());
    if (errors.back() > std::abs(result.worst_error)) result.worst_error = row->error();
    covered += row->in_band();
  }
  result.median_abs_error = median(errors);
  result.kendall_tau = kendall_tau(rows);
  result.band_coverage = static_cast<double>(covered) / static_cast<double>(rows.size());
  return result;
}

void predict(const PublishedRow& row, ValidatedRow& result) {
  const DividedTraining scenario = published_scenario(row);
  result.assumed = scenario.assumed;
  result.tokens_per_gpu = scenario.tokens_per_step / *row.gpus;
  result.measured = measured_step(row, scenario, result.assumed);
  const DividedStep step = predicted_step(scenario);
  result.predicted = step.time;
  result.low = step.low;
  result.high = step.high;
}

}  // namespace

double ValidatedRow::error() const {
  return (predicted->seconds() - measured->seconds()) / measured->seconds();
}

ValidatedRow validate_row(const PublishedRow& row) {
  ValidatedRow result{.number = row.number,
                      .source = row.source,
                      .repository = repository_of(row),
                      .model = row.model,
                      .gpu = row.gpu,
                      .strategy = row.strategy,
                      .group = group_of(row)};
  result.skipped = why_not_predicted(row);
  if (!result.skipped.empty()) return result;
  try {
    predict(row, result);
  } catch (const Error& error) {
    result.skipped = error.what();
  }
  return result;
}

std::vector<ValidatedRow> validate_rows(std::span<const PublishedRow> rows, int threads,
                                        const std::function<bool(std::size_t done)>& progress) {
  std::vector<std::optional<ValidatedRow>> results(rows.size());
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> goes_on = true;
  std::mutex telling;
  std::size_t done = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < rows.size() && goes_on; i = next++) {
      results[i] = validate_row(rows[i]);
      const std::lock_guard lock(telling);
      if (!progress(++done)) goes_on = false;
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int i = 1; i < threads; ++i) workers.emplace_back(work);
    work();
  }
  std::vector<ValidatedRow> finished;
  for (std::optional<ValidatedRow>& result : results)
    if (result) finished.push_back(std::move(*result));
  return finished;
}

std::vector<ErrorStatistics> statistics_by_source(std::span<const ValidatedRow> rows) {
  std::vector<std::string> sources;
  std::vector<std::vector<const ValidatedRow*>> of_source;
  for (const ValidatedRow& row : rows) {
    if (!row.counts()) continue;
    const std::string& source = row.repository;
    const auto found = std::ranges::find(sources, source);
    const auto place = static_cast<std::size_t>(found - sources.begin());
    if (found == sources.end()) {
      sources.push_back(source);
      of_source.emplace_back();
    }
    of_source[place].push_back(&row);
  }
  std::vector<ErrorStatistics> result;
  for (std::size_t i = 0; i < sources.size(); ++i)
    result.push_back(statistics(sources[i], of_source[i]));
  return result;
}

ErrorStatistics statistics_of(std::span<const ValidatedRow> rows) {
  std::vector<const ValidatedRow*> counting;
  for (const ValidatedRow& row : rows)
    if (row.counts()) counting.push_back(&row);
  return statistics("", counting);
}

}  // namespace shardscope
