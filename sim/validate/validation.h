// Predictions of published runs beside what was measured.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/quantities.h"
#include "sim/validate/published_row.h"

namespace shardscope {

/// One row: predicted and measured where that can be.
struct ValidatedRow {
  int number = 0;
  std::string source, repository, model, gpu, strategy;
  /// Rows of one group are runs of the same model on the same GPUs, which a choice ranks.
  std::string group;
  std::int64_t tokens_per_gpu = 0;  ///< of a step
  std::optional<Duration> predicted, low, high, measured;
  std::string skipped;  ///< why it is not predicted; "" where it is
  std::vector<std::string> assumed;

  /// Takes part in the errors.
  bool counts() const { return predicted && measured; }
  /// (predicted - measured) / measured.
  double error() const;
  bool in_band() const { return *low <= *measured && *measured <= *high; }
};

ValidatedRow validate_row(const PublishedRow& row);

/// All rows, in their order, by `threads` threads. `progress` is told how many are done, from any
/// thread, one call at a time; while it returns false no further row is begun. Rows that were not
/// begun are left out.
std::vector<ValidatedRow> validate_rows(std::span<const PublishedRow> rows, int threads,
                                        const std::function<bool(std::size_t done)>& progress);

struct ErrorStatistics {
  std::string source;  ///< the repository; "" where all are taken together
  int rows = 0;        ///< that count
  double mean_abs_error = 0, median_abs_error = 0;
  double worst_error = 0;             ///< signed
  std::optional<double> kendall_tau;  ///< none where no group has two rows
  double band_coverage = 0;
};

/// Of the rows that count, by repository in order of first appearance. Kendall's tau is over all
/// pairs within groups, of tokens per second and GPU: concordant less discordant pairs over all
/// that are not tied in what was measured.
std::vector<ErrorStatistics> statistics_by_source(std::span<const ValidatedRow> rows);
ErrorStatistics statistics_of(std::span<const ValidatedRow> rows);

}  // namespace shardscope
