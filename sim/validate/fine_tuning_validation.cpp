#include "sim/validate/fine_tuning_validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/median.h"
#include "core/base/refusal.h"
#include "sim/megatron/prediction.h"
#include "sim/planner/memory_play.h"
#include "sim/validate/fine_tuning_scenario.h"
#include "sim/validate/fine_tuning_stack.h"

namespace shardscope {
namespace {

constexpr double bytes_of_gib = 1024.0 * 1024.0 * 1024.0;

/// What all steps hold at most.
Bytes peak_of(const Summary& summary, MemoryKind kind) {
  Bytes most{};
  const auto take = [&](const MemorySummary& memory) {
    Bytes bytes = memory.peak_reserved;
    if (kind == MemoryKind::allocated) bytes = memory.peak_allocated;
    if (kind == MemoryKind::active) bytes = memory.peak_active;
    if (kind == MemoryKind::device) bytes += memory.outside;
    most = std::max(most, bytes);
  };
  take(summary.memory);
  for (const StepSummary& step : summary.steps) take(step.memory);
  return most;
}

Summary played(const FineTuningScenario& scenario, const HardwareProfile& profile) {
  return planner::predict(planner::schedule_of(scenario.training, scenario.model, scenario.config),
                          scenario.training, scenario.model, profile, false)
      .summary;
}

constexpr std::int64_t enough = std::int64_t{1} << 42;  // bytes

HardwareProfile unbounded(HardwareProfile profile) {
  profile.memory = Bytes{enough};
  return profile;
}

/// What the process holds beside the allocator.
Bytes outside_of(const FineTuningScenario& scenario) {
  Bytes bytes = scenario.profile.context_memory.value_or(Bytes{});
  if (scenario.training.setup.world > 1)
    bytes += scenario.profile.communicator_memory.value_or(Bytes{});
  return bytes;
}

/// Two steps after a base that was loaded whole has given back, page by page, what its shard does
/// not need: these programs load layer by layer. Blocks that another stream used count as free at
/// once. None where the allocator cannot do with `card`, even by giving back its cache.
std::optional<AllocatorStatistics> steps_after_loading(const FineTuningScenario& scenario,
                                                       Bytes card) {
  const eager::TrainingSetup& setup = scenario.training.setup;
  planner::MemoryPlay play({.session = setup.session,
                            .device = eager::kernel_device(setup.session.compute_capability),
                            .allocator = {.expandable_segments = true},
                            .memory = Bytes{enough}});
  eager::TrainingRun run(play.session(), scenario.model, scenario.config, setup,
                         [](eager::SetupMoment) {});
  play.session().empty_cache();
  play.begin();
  // Loading needed a device of any size. From here on the steps have only the card's memory.
  const Bytes beyond = Bytes{enough} - card;
  if (beyond.count > 0 && !play.allocator().allocate(beyond, default_stream)) return std::nullopt;
  try {
    for (int step = 0; step < 2; ++step)
      run.loop().iteration([&](eager::Moment, int) { play.catch_up(); });
  } catch (const planner::MemoryPlay::OutOfMemoryStop&) {
    return std::nullopt;
  }
  AllocatorStatistics held = play.allocator().statistics();
  for (Gauge* gauge : {&held.allocated_bytes, &held.active_bytes, &held.reserved_bytes})
    gauge->peak -= beyond.count;
  return held;
}

void predict_sharded(const FineTuningScenario& scenario, ValidatedFineTuning& result) {
  const Bytes outside = outside_of(scenario);
  std::optional<AllocatorStatistics> held =
      steps_after_loading(scenario, scenario.profile.memory - outside);
  result.fits = held.has_value();
  if (!held) held = steps_after_loading(scenario, Bytes{enough});  // as much as it would take
  if (!held) return;
  result.assumed.emplace_back("no memory is left over from loading");
  const Bytes reserved{held->reserved_bytes.peak};
  if (result.kind == MemoryKind::allocated)
    result.predicted = Bytes{held->allocated_bytes.peak};
  else if (result.kind == MemoryKind::active)
    result.predicted = Bytes{held->active_bytes.peak};
  else
    result.predicted = result.kind == MemoryKind::reserved ? reserved : reserved + outside;
}

bool is_sum(const FineTuningRow& row) { return row.memory_kind.find("SUM") != std::string::npos; }

double rate_of(const Summary& summary, const FineTuningScenario& scenario) {
  return summary.tokens_per_s / scenario.training.setup.world;
}

/// What loading and adapting hold at most, of a model on one device: the caching allocator's peaks
/// start with the process.
std::optional<Bytes> peak_of_loading(const FineTuningScenario& scenario, MemoryKind kind) {
  const eager::TrainingSetup& setup = scenario.training.setup;
  if (!setup.fine_tuning || setup.world > 1) return std::nullopt;
  planner::MemoryPlay play({.session = setup.session,
                            .device = eager::kernel_device(setup.session.compute_capability),
                            .allocator = scenario.training.allocator,
                            .memory = Bytes{enough}});
  const eager::TrainingRun run(play.session(), scenario.model, scenario.config, setup,
                               [](eager::SetupMoment) {});
  play.catch_up();
  const AllocatorStatistics held = play.allocator().statistics();
  if (kind == MemoryKind::allocated) return Bytes{held.allocated_bytes.peak};
  if (kind == MemoryKind::active) return Bytes{held.active_bytes.peak};
  const Bytes reserved{held.reserved_bytes.peak};
  return kind == MemoryKind::reserved ? reserved : reserved + outside_of(scenario);
}

void predict_with_megatron(const FineTuningScenario& scenario, ValidatedFineTuning& result) {
  const std::vector<Prediction> stages =
      predict_megatron(*scenario.megatron, result.assumed, scenario.profile);
  result.predicted = Bytes{};
  for (const Prediction& stage : stages) {
    result.fits = result.fits && stage.summary.fits;
    result.predicted = std::max(*result.predicted, peak_of(stage.summary, result.kind));
  }
  // The time of adapters, and of an optimizer on the host, is not known here.
  if (scenario.megatron->adapters.rank == 0 && !scenario.megatron->optimizer_on_host)
    result.predicted_rate = rate_of(stages.front().summary, scenario);
}

/// tokens/s of one rank with samples of the usual length.
double usual_rate(FineTuningScenario scenario) {
  scenario.training.setup.loop.length = scenario.mean_length;
  scenario.training.setup.loop.lengths.clear();
  scenario.training.setup.loop.micro_batches = 1;
  return rate_of(played(scenario, unbounded(scenario.profile)), scenario);
}

FineTuningRow as_run(FineTuningRow row) {
  const FineTuningStack* stack = fine_tuning_stack(row.source);
  if (stack && stack->script_micro_batch != 0 && row.micro_batch &&
      row.notes.find(stack->script_word) != std::string::npos)
    row.micro_batch = stack->script_micro_batch;
  return row;
}

void predict(const FineTuningRow& row, ValidatedFineTuning& result) {
  const FineTuningScenario scenario = fine_tuning_scenario(row);
  result.assumed = scenario.training.assumed;
  if (is_sum(row)) result.assumed.emplace_back("the memory is the sum over the GPUs");
  if (scenario.megatron) return predict_with_megatron(scenario, result);
  if (scenario.loads_in_shards) {
    predict_sharded(scenario, result);
    if (result.measured_rate)
      result.predicted_rate = rate_of(played(scenario, unbounded(scenario.profile)), scenario);
    return;
  }
  Summary summary = played(scenario, scenario.profile);
  result.fits = summary.fits;
  if (!summary.fits) {
    // As much as it would take where there is enough.
    summary = played(scenario, unbounded(scenario.profile));
  }
  result.predicted_rate = rate_of(summary, scenario);
  if (scenario.mean_length > 0 && result.measured_rate) {
    result.predicted_rate = usual_rate(scenario);
    result.assumed.push_back(fmt::format("a rate of samples of {} tokens, as they are on average",
                                         scenario.mean_length));
  }
  result.predicted = peak_of(summary, result.kind) + scenario.device_data;
  result.loading = peak_of_loading(scenario, result.kind);
  if (result.loading <= result.predicted) return;
  result.predicted = result.loading;
  result.assumed.emplace_back("loading takes more than the steps");
}

MemoryStatistics statistics(std::string source, std::span<const ValidatedFineTuning* const> rows) {
  MemoryStatistics result{.source = std::move(source)};
  std::vector<double> errors, rate_errors;
  for (const ValidatedFineTuning* row : rows) {
    if (!row->predicted) continue;
    (row->out_of_memory ? result.failed : result.ran) += 1;
    if (row->judged_right()) (row->out_of_memory ? result.failed_right : result.ran_right) += 1;
    if (row->has_rates()) {
      rate_errors.push_back(std::abs(row->rate_error()));
      result.mean_rate_error += row->rate_error();
    }
    if (!row->counts()) continue;
    errors.push_back(std::abs(row->error()));
    result.mean_error += row->error();
    result.within_a_tenth += errors.back() <= 0.1;
    if (errors.back() > std::abs(result.worst_error)) result.worst_error = row->error();
  }
  result.rates = static_cast<int>(rate_errors.size());
  if (!rate_errors.empty()) {
    result.mean_rate_error /= result.rates;
    result.median_abs_rate_error = median(rate_errors);
  }
  result.rows = static_cast<int>(errors.size());
  if (errors.empty()) return result;
  result.mean_error /= result.rows;
  result.within_a_tenth /= result.rows;
  result.median_abs_error = median(errors);
  return result;
}

}  // namespace

MemoryKind memory_kind_of(std::string_view words) {
  if (words.find("reserved") != std::string_view::npos) return MemoryKind::reserved;
  if (words.find("allocated") != std::string_view::npos) return MemoryKind::allocated;
  if (words.find("active") != std::string_view::npos) return MemoryKind::active;
  return MemoryKind::device;
}

std::string_view name_of(MemoryKind kind) {
  constexpr std::array<std::string_view, 4> names{"allocated", "active", "reserved", "device"};
  return names[static_cast<std::size_t>(kind)];
}

double ValidatedFineTuning::error() const {
  return static_cast<double>(predicted->count - measured->count) /
         static_cast<double>(measured->count);
}

ValidatedFineTuning validate_row(const FineTuningRow& stated) {
  const FineTuningRow row = as_run(stated);
  ValidatedFineTuning result{.number = row.number,
                             .repository = repository_of(row),
                             .model = row.model,
                             .method = row.method,
                             .strategy = row.strategy,
                             .kind = memory_kind_of(row.memory_kind),
                             .out_of_memory = row.out_of_memory};
  const FineTuningStack* stack = fine_tuning_stack(row.source);
  const bool allocated = stack && stack->prints_allocated;
  if (allocated) result.kind = MemoryKind::allocated;
  constexpr double bytes_of_gb = 1e9;
  const double unit = allocated ? bytes_of_gb : bytes_of_gib;
  if (row.peak_gib)
    result.measured = Bytes{static_cast<std::int64_t>(std::llround(*row.peak_gib * unit))};
  if (result.measured && row.gpus && is_sum(row))
    result.measured = Bytes{result.measured->count / *row.gpus};
  result.measured_rate = measured_tokens_per_s(row);
  result.skipped = why_not_predicted(row);
  if (!result.skipped.empty()) return result;
  try {
    predict(row, result);
    if (row.micro_batch != stated.micro_batch)
      result.assumed.push_back(fmt::format("a micro-batch of {}, as its script has, not {}",
                                           *row.micro_batch, *stated.micro_batch));
  } catch (const Refusal& refusal) {
    result.skipped = std::string(refusal.exception()) + ": " + refusal.what();
  } catch (const Error& error) {
    result.skipped = error.what();
  }
  return result;
}

std::vector<ValidatedFineTuning> validate_rows(
    std::span<const FineTuningRow> rows, const std::function<bool(std::size_t done)>& progress) {
  std::vector<ValidatedFineTuning> results;
  for (const FineTuningRow& row : rows) {
    results.push_back(validate_row(row));
    if (!progress(results.size())) break;
  }
  return results;
}

std::vector<MemoryStatistics> statistics_by_source(std::span<const ValidatedFineTuning> rows) {
  std::vector<std::pair<std::string, std::vector<const ValidatedFineTuning*>>> sources;
  for (const ValidatedFineTuning& row : rows) {
    if (!row.predicted) continue;
    auto found = std::ranges::find(sources, row.repository, [](const auto& s) { return s.first; });
    if (found == sources.end()) found = sources.insert(found, {row.repository, {}});
    found->second.push_back(&row);
  }
  std::vector<MemoryStatistics> result;
  for (const auto& [source, of_source] : sources) result.push_back(statistics(source, of_source));
  return result;
}

MemoryStatistics statistics_of(std::span<const ValidatedFineTuning> rows) {
  std::vector<const ValidatedFineTuning*> all;
  all.reserve(rows.size());
  for (const ValidatedFineTuning& row : rows) all.push_back(&row);
  return statistics("", all);
}

}  // namespace shardscope
