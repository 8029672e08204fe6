#include "gui/data/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "core/base/side_by_side.h"
#include "gui/data/verdict_memory.h"
#include "gui/data/verdict_time.h"

namespace shardscope::gui {
namespace {

enum class Direction { less, same, more };

/// Two rows' figures of one kind.
struct Pair {
  const StrategyRow& baseline;
  const StrategyRow& other;
  SideKind kind;
  const SideFigures& before;
  const SideFigures& after;
  const char* time_word = "time";  ///< "time per token" where `after` is scaled to as many tokens

  /// The peak of a run that ran out of memory is not that of a step.
  bool has_memory() const {
    if (before.ran_out || after.ran_out) return false;
    return before.peak && after.peak && *before.peak > Bytes{};
  }
  bool has_categories() const {
    if (before.ran_out || after.ran_out) return false;
    return before.at_peak.total() > Bytes{} && after.at_peak.total() > Bytes{};
  }
  /// Of the baseline's peak; negative: less.
  double memory_share() const {
    return static_cast<double>((*after.peak - *before.peak).count) /
           static_cast<double>(before.peak->count);
  }
  bool has_time() const { return before.has_step() && after.has_step(); }
  double time_share() const {
    return static_cast<double>((after.step - before.step).ns) / static_cast<double>(before.step.ns);
  }
  /// Within which times are the same.
  double noise_share() const {
    return std::max({same_time_share, before.spread_share, after.spread_share});
  }
  Direction memory() const {
    const double share = memory_share();
    if (std::abs(share) < same_memory_share) return Direction::same;
    return share < 0 ? Direction::less : Direction::more;
  }
  Direction time() const {
    const double share = time_share();
    if (std::abs(share) <= noise_share()) return Direction::same;
    return share < 0 ? Direction::less : Direction::more;
  }
};

std::string in_capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

/// Strategies by their names as PyTorch writes them, where that tells the two apart.
std::string name_in(const StrategyRow& row, const StrategyRow& beside) {
  const bool is_told = !row.strategy.empty() && row.strategy != beside.strategy;
  return is_told ? in_capitals(row.strategy) : row.label;
}

std::string same_memory_text(const Pair& pair) {
  return *pair.before.peak == *pair.after.peak
             ? "the same memory to the byte"
             : fmt::format("the same memory (within {})", percent_text(same_memory_share));
}

std::string same_time_text(const Pair& pair) {
  return fmt::format("the same {} (within {})", pair.time_word, percent_text(pair.noise_share()));
}

/// "saves 41% of memory here (at what cost of time is not known: a x2 has no step time)".
std::string claim_of_memory(const Pair& pair) {
  const std::string missing = !pair.before.has_step() && !pair.after.has_step() ? "neither has a"
                              : pair.before.has_step() ? pair.other.label + " has no"
                                                       : pair.baseline.label + " has no";
  const std::string memory = percent_text(pair.memory_share());
  const std::string what = pair.memory() == Direction::same ? "takes " + same_memory_text(pair)
                           : pair.memory() == Direction::less
                               ? fmt::format("saves {} of memory", memory)
                               : fmt::format("costs {} more memory", memory);
  return fmt::format("{} here (at what cost of time is not known: {} step time)", what, missing);
}

/// "saves 41% of memory and costs 6% of time here". Of pairs that have memory or time.
std::string claim(const Pair& pair) {
  if (!pair.has_time()) return claim_of_memory(pair);
  const std::string time = percent_text(pair.time_share());
  if (!pair.has_memory()) {
    if (pair.time() == Direction::same) return "takes " + same_time_text(pair) + " here";
    return fmt::format("{} {} of {} here", pair.time() == Direction::less ? "saves" : "costs", time,
                       pair.time_word);
  }
  const std::string memory = percent_text(pair.memory_share());
  switch (pair.memory()) {
    case Direction::less:
      if (pair.time() == Direction::same)
        return fmt::format("saves {} of memory in {} here", memory, same_time_text(pair));
      if (pair.time() == Direction::less)
        return fmt::format("saves {} of memory and {} of {} here", memory, time, pair.time_word);
      return fmt::format("saves {} of memory and costs {} of {} here", memory, time,
                         pair.time_word);
    case Direction::more:
      if (pair.time() == Direction::same)
        return fmt::format("costs {} more memory in {} here", memory, same_time_text(pair));
      if (pair.time() == Direction::less)
        return fmt::format("saves {} of {} and costs {} more memory here", time, pair.time_word,
                           memory);
      return fmt::format("costs {} more memory and {} of {} here", memory, time, pair.time_word);
    case Direction::same:
      break;
  }
  if (pair.time() == Direction::same)
    return fmt::format("makes no difference here: {} and {}", same_memory_text(pair),
                       same_time_text(pair));
  return fmt::format("{} {} of {} here with {}", pair.time() == Direction::less ? "saves" : "costs",
                     time, pair.time_word, same_memory_text(pair));
}

std::string memory_because(const Pair& pair) {
  if (!pair.has_memory() || pair.memory() == Direction::same) return "";
  if (!pair.has_categories()) return "";
  const bool is_whole = is_unsharded(pair.baseline) || pair.baseline.world == 1;
  return memory_reason(category_changes(pair.before.at_peak, pair.after.at_peak, pair.other.world),
                       *pair.after.peak - *pair.before.peak,
                       is_whole ? Baseline::whole : Baseline::sharded);
}

std::string time_because(const Pair& pair) {
  if (!pair.has_time()) return "";
  if (pair.time() != Direction::same) return time_reason(pair.before, pair.after);
  // Why there is no difference needs saying only where there is a price that could be paid.
  return pair.has_memory() && pair.memory() != Direction::same
             ? hiding_reason(pair.before, pair.after)
             : "";
}

/// Flops of a step of the whole job over what one device does in a second; none: not known.
std::optional<double> work_of(const SideFigures& figures, int world) {
  if (!figures.mfu_share || !figures.has_step()) return std::nullopt;
  return *figures.mfu_share * figures.step.seconds() * world;
}

std::optional<double> tokens_of(const SideFigures& figures) {
  if (!figures.tokens_per_s || !figures.has_step()) return std::nullopt;
  return *figures.tokens_per_s * figures.step.seconds();
}

bool is_unlike(std::optional<double> a, std::optional<double> b) {
  constexpr double rounding = 0.01;
  return a && b && std::abs(*a - *b) > rounding * std::max(std::abs(*a), std::abs(*b));
}

/// Why the two may not have done the same work, so that nothing follows for the strategies; "" of
/// no doubt.
std::string doubt(const Pair& pair) {
  if (pair.before.ran_out && pair.after.ran_out) return "both run out of memory";
  if (pair.after.ran_out) return pair.other.label + " runs out of memory";
  if (pair.before.ran_out) return pair.baseline.label + " runs out of memory";
  if (!pair.has_time() && !pair.has_memory())
    return "neither step times nor peaks are known of both";
  for (const StrategyRow* row : {&pair.baseline, &pair.other})
    if (row->strategy.empty())
      return fmt::format("what {} trained is not known to be the same", row->label);
  if (is_unlike(work_of(pair.before, pair.baseline.world), work_of(pair.after, pair.other.world)))
    return "their steps are of different flops, or their devices of different speed";
  return "";
}

/// Of as many tokens as are `share` of its step's. What it communicates is not known of a part.
SideFigures of_tokens(SideFigures figures, double share) {
  const auto scale = [share](Duration& time) {
    time.ns = std::llround(static_cast<double>(time.ns) * share);
  };
  scale(figures.step);
  for (const auto part : {&Accounting::span, &Accounting::compute,
                          &Accounting::exposed_communication, &Accounting::exposed_copy,
                          &Accounting::idle, &Accounting::communication, &Accounting::overlap})
    scale(figures.time.*part);
  figures.traffic.reset();
  return figures;
}

std::string because(const Pair& pair) {
  const std::string memory = memory_because(pair), time = time_because(pair);
  if (memory.empty() && time.empty()) return "";
  return fmt::format(", because {}{}{}", memory, memory.empty() || time.empty() ? "" : "; and ",
                     time);
}

/// Of a device that only one of the two fits into; "" otherwise.
std::string fits_text(const Pair& pair) {
  if (pair.baseline.fits == pair.other.fits || !pair.other.device_memory) return "";
  const StrategyRow& fitting = pair.other.fits ? pair.other : pair.baseline;
  const StrategyRow& large = pair.other.fits ? pair.baseline : pair.other;
  return fmt::format("{} fits into a device's {}, {} does not. ", name_in(fitting, large),
                     rounded_text(*pair.other.device_memory), name_in(large, fitting));
}

std::string memory_line(const Pair& pair) {
  std::vector<CategoryChange> changes;
  if (pair.has_categories())
    changes = category_changes(pair.before.at_peak, pair.after.at_peak, pair.other.world);
  return fmt::format("Peak {} -> {}{}{}", rounded_text(*pair.before.peak),
                     rounded_text(*pair.after.peak), changes.empty() ? "" : ": ",
                     changes_text(changes));
}

std::string basis_line(const Pair& pair) {
  const double spread = std::max(pair.before.spread_share, pair.after.spread_share);
  std::string text =
      fmt::format("From {} figures, against {}", name_of(pair.kind), pair.baseline.label);
  if (spread > 0)
    text += fmt::format(
        "; {} {}",
        pair.kind == SideKind::profiled ? "steps differ by up to" : "the prediction's band is",
        "\u00b1" + percent_text(spread));
  return text;
}

/// What had been predicted of a difference that was measured.
std::string forecast(const Pair& pair) {
  const auto &before = pair.baseline.predicted, &after = pair.other.predicted;
  if (pair.kind != SideKind::profiled || !before || !after) return "";
  const Pair predicted{.baseline = pair.baseline,
                       .other = pair.other,
                       .kind = SideKind::predicted,
                       .before = *before,
                       .after = *after};
  if (!predicted.has_time() && !predicted.has_memory()) return "";
  return fmt::format("; predicted was: {} {}", name_in(pair.other, pair.baseline),
                     claim(predicted));
}

std::vector<std::string> reasons_of(const Pair& pair) {
  std::vector<std::string> reasons;
  if (pair.has_memory()) reasons.push_back(memory_line(pair));
  for (std::string line :
       {step_text(pair.before, pair.after), communication_text(pair.before, pair.after),
        basis_line(pair) + forecast(pair)})
    if (!line.empty()) reasons.push_back(std::move(line));
  return reasons;
}

/// The kind of figures that both have.
std::optional<SideKind> common_kind(const StrategyRow& a, const StrategyRow& b) {
  for (const SideKind kind : {SideKind::profiled, SideKind::predicted})
    if (a.figures(kind) != nullptr && b.figures(kind) != nullptr) return kind;
  return std::nullopt;
}

Verdict one_sided(const StrategyRow& row) {
  const SideFigures* figures = row.figures();
  if (figures == nullptr) return {.sentence = row.label + " has no figures.", .reasons = {}};
  const std::string peak = figures->peak && !figures->ran_out
                               ? fmt::format(", {} at its peak", rounded_text(*figures->peak))
                               : "";
  const std::string step = figures->ran_out      ? "it runs out of memory"
                           : figures->has_step() ? rounded_text(figures->step) + " a step"
                                                 : "its step time is not known";
  return {.sentence = fmt::format("{} is only {}: {}{}.", row.label,
                                  row.profiled ? "profiled" : "predicted", step, peak),
          .reasons = {}};
}

/// "its peak memory to the byte (590 MiB)"; "" where either side has no peak.
std::string predicted_memory(const SideFigures& predicted, const SideFigures& profiled) {
  if (!predicted.peak || !profiled.peak) return "";
  const auto error = error_share(SideBySide<Bytes>{{*predicted.peak}, {*profiled.peak}});
  if (!error) return "";
  if (*error == 0)
    return fmt::format("its peak memory to the byte ({})", rounded_text(*profiled.peak));
  return fmt::format("its peak memory within {} ({} predicted, {} profiled)", percent_text(*error),
                     rounded_text(*predicted.peak), rounded_text(*profiled.peak));
}

/// "No step time of full_shard x2 was profiled (105 ms predicted)".
std::string missing_step(const std::string& label, const SideFigures& predicted,
                         const SideFigures& profiled) {
  if (predicted.has_step())
    return fmt::format("No step time of {} was profiled ({} predicted)", label,
                       rounded_text(predicted.step));
  if (profiled.has_step())
    return fmt::format("No step time of {} was predicted ({} profiled)", label,
                       rounded_text(profiled.step));
  return fmt::format("No step time of {} was predicted or profiled", label);
}

bool are_unlike(const SideFigures& a, const SideFigures& b) {
  return a.on_gpu && b.on_gpu && *a.on_gpu != *b.on_gpu;
}

/// Times of unlike machines say nothing of the prediction.
std::string other_machine(const std::string& label, const SideFigures& predicted,
                          const SideFigures& profiled) {
  const auto kind = [](const SideFigures& figures) { return *figures.on_gpu ? "a GPU" : "a CPU"; };
  return fmt::format(
      "{} was profiled on {} and predicted on {}, so that their times cannot be "
      "compared",
      label, kind(profiled),
      predicted.machine.empty() ? kind(predicted)
                                : fmt::format("{} ({})", kind(predicted), predicted.machine));
}

std::string accuracy_sentence(const std::string& label, const SideFigures& predicted,
                              const SideFigures& profiled) {
  if (predicted.ran_out)
    return fmt::format("{} was predicted to run out of memory{}.", label,
                       profiled.has_step()
                           ? fmt::format(" ({} a step profiled)", rounded_text(profiled.step))
                           : "");
  const std::string memory = predicted_memory(predicted, profiled);
  const auto error = error_share(SideBySide<Duration>{{predicted.step}, {profiled.step}});
  if (are_unlike(predicted, profiled))
    return other_machine(label, predicted, profiled) +
           (memory.empty() ? "." : "; predicted was " + memory + ".");
  if (!error || !predicted.has_step())
    return missing_step(label, predicted, profiled) +
           (memory.empty() ? "." : "; predicted was " + memory + ".");
  return fmt::format("{} was predicted within {} of its step time ({} predicted{}, {} profiled){}.",
                     label, percent_text(*error), rounded_text(predicted.step),
                     predicted.machine.empty() ? "" : " on " + predicted.machine,
                     rounded_text(profiled.step), memory.empty() ? "" : ", and " + memory);
}

}  // namespace

std::string percent_text(double share) {
  const double percent = std::abs(share) * 100;
  // Rounding may carry: 9.96 is 10.
  const int decimals = percent >= 9.95 ? 0 : percent >= 0.995 ? 1 : 2;
  std::string text = fmt::format("{:.{}f}", percent, decimals);
  if (text.find('.') != std::string::npos) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return text + "%";
}

Verdict compared(const StrategyRow& baseline, const StrategyRow& other) {
  const auto kind = common_kind(baseline, other);
  if (!kind)
    return {.sentence = fmt::format("{} and {} cannot be compared: neither predicted nor profiled "
                                    "figures are there of both.",
                                    other.label, baseline.label),
            .reasons = {}};
  const SideFigures &before = *baseline.figures(*kind), &after = *other.figures(*kind);
  const Pair steps{
      .baseline = baseline, .other = other, .kind = *kind, .before = before, .after = after};
  const auto tokens_before = tokens_of(before), tokens_after = tokens_of(after);
  const bool is_per_token = is_unlike(tokens_before, tokens_after);
  const SideFigures scaled =
      is_per_token ? of_tokens(after, *tokens_before / *tokens_after) : after;
  const Pair pair{.baseline = baseline,
                  .other = other,
                  .kind = *kind,
                  .before = before,
                  .after = scaled,
                  .time_word = is_per_token ? "time per token" : "time"};
  const std::string why_not = doubt(pair);
  if (!why_not.empty())
    return {.sentence = fmt::format("{} cannot be judged against {}: {}.", other.label,
                                    baseline.label, why_not),
            .reasons = reasons_of(steps)};
  Verdict verdict{.sentence = fmt::format("{}{} {}{}.", fits_text(pair), name_in(other, baseline),
                                          claim(pair), because(pair)),
                  .reasons = reasons_of(steps)};
  if (is_per_token)
    verdict.reasons.insert(
        verdict.reasons.begin(),
        fmt::format("A step of {} has {:.0f} tokens, a step of {} has {:.0f}: times are compared "
                    "per token, and given for {:.0f} tokens",
                    other.label, *tokens_after, baseline.label, *tokens_before, *tokens_before));
  return verdict;
}

Verdict predicted_against_profiled(const StrategyRow& row) {
  if (!row.predicted || !row.profiled) return one_sided(row);
  const SideFigures &predicted = *row.predicted, &profiled = *row.profiled;
  Verdict verdict{.sentence = accuracy_sentence(row.label, predicted, profiled), .reasons = {}};
  if (!are_unlike(predicted, profiled))
    verdict.reasons.push_back("Predicted against profiled: " + step_text(profiled, predicted));
  if (predicted.ran_out || profiled.ran_out) return verdict;
  const auto changes = category_changes(profiled.at_peak, predicted.at_peak, 1);
  if (predicted.peak && profiled.peak && !changes.empty())
    verdict.reasons.push_back("At the peak, predicted against profiled: " + changes_text(changes));
  return verdict;
}

}  // namespace shardscope::gui
