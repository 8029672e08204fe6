// Memory of published fine-tuning runs, predicted beside what was measured.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/quantities.h"
#include "sim/validate/fine_tuning_row.h"

namespace shardscope {

/// Which figure a source measured.
enum class MemoryKind : std::uint8_t { allocated, active, reserved, device };
/// By the words of a row. A figure of unknown kind is taken as the device's.
MemoryKind memory_kind_of(std::string_view words);
std::string_view name_of(MemoryKind kind);

struct ValidatedFineTuning {
  int number = 0;
  std::string repository, model, method, strategy;
  MemoryKind kind = MemoryKind::device;
  std::optional<Bytes> predicted;  ///< of that kind, over all steps; without bounds of the device
  std::optional<Bytes> loading;    ///< of that kind, before the first step; of one device alone
  bool fits = true;                ///< as predicted, on the row's device
  std::optional<Bytes> measured;
  bool out_of_memory = false;  ///< as measured
  /// Tokens a second of one GPU, as predicted of padded sequences, and as measured.
  std::optional<double> predicted_rate, measured_rate;
  std::string skipped;  ///< why it is not predicted; "" where it is
  std::vector<std::string> assumed;

  /// Takes part in the errors.
  bool counts() const { return predicted && measured; }
  /// (predicted - measured) / measured.
  double error() const;
  bool has_rates() const { return predicted_rate && measured_rate; }
  /// (predicted - measured) / measured tokens a second.
  double rate_error() const { return (*predicted_rate - *measured_rate) / *measured_rate; }
  bool judged_right() const { return fits != out_of_memory; }
};

ValidatedFineTuning validate_row(const FineTuningRow& row);

/// All rows, in their order. `progress` is told how many are done; while it returns false no
/// further row is begun.
std::vector<ValidatedFineTuning> validate_rows(
    std::span<const FineTuningRow> rows, const std::function<bool(std::size_t done)>& progress);

struct MemoryStatistics {
  std::string source;     ///< the repository; "" where all are taken together
  int rows = 0;           ///< that count
  double mean_error = 0;  ///< signed: the bias
  double median_abs_error = 0;
  double within_a_tenth = 0;   ///< share of rows
  double worst_error = 0;      ///< signed
  int rates = 0;               ///< rows with tokens a second
  double mean_rate_error = 0;  ///< signed: the bias
  double median_abs_rate_error = 0;
  int ran = 0, ran_right = 0;  ///< runs that fitted, and those predicted to fit
  int failed = 0, failed_right = 0;
};

/// By repository in order of first appearance.
std::vector<MemoryStatistics> statistics_by_source(std::span<const ValidatedFineTuning> rows);
MemoryStatistics statistics_of(std::span<const ValidatedFineTuning> rows);

}  // namespace shardscope
