#include "cli/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/fine_tuning_options.h"
#include "cli/plan_plot.h"
#include "cli/pytorch_options.h"
#include "cli/summary_text.h"
#include "cli/table.h"
#include "core/base/grouped.h"
#include "core/schedule/schedule.h"
#include "traces/memory_fit.h"

namespace shardscope {
namespace {

std::string counted(std::int64_t number, std::string_view what) {
  return fmt::format("{} {}{}", grouped(number), what, number == 1 ? "" : "s");
}

std::string float8_words(eager::parallel::Float8Recipe recipe) {
  return recipe == eager::parallel::Float8Recipe::none
             ? std::string()
             : fmt::format(", float8 {}", name_of(recipe));
}

/// Of a base with adapters, quantised or not: elements as its config counts them.
std::string parameters_text(const planner::Inputs& inputs) {
  const auto& tuning = inputs.question.training.fine_tuning;
  if (!tuning || !tuning->base) return counted(inputs.model.parameter_elements(), "parameter");
  return counted(tuning->base->parameter_elements(), "parameter") + ", " +
         grouped(inputs.model.trainable_elements()) + " trained" + fine_tuning_words(*tuning);
}

std::string headline(const planner::Inputs& inputs) {
  const planner::Question& question = inputs.question;
  const std::int64_t length = question.training.length;
  const std::int64_t sequences = question.tokens_per_batch / length;
  // Ranks of torchtitan may share a sequence.
  const bool shares = question.torchtitan && question.runtimes.empty();
  return fmt::format("{}, {}, on {}: {} tokens a step, {} of {}{}", inputs.model.class_name,
                     parameters_text(inputs), counted(question.world, "rank"),
                     grouped(question.tokens_per_batch),
                     counted(shares ? sequences : sequences / question.world, "sequence"), length,
                     shares ? "" : " for each rank") +
         std::string(compiled_words(question.training.compiled)) +
         float8_words(question.training.float8) +
         fmt::format("\nhardware: {} ({})", inputs.profile.name, inputs.profile.source);
}

std::string effort(const planner::Answer& answer) {
  return fmt::format("{} weighed, {} of them simulated, {:.1f} s{}",
                     counted(static_cast<std::int64_t>(answer.choices), "way"),
                     grouped(static_cast<std::int64_t>(answer.simulated)), answer.elapsed_s,
                     answer.interrupted ? "; interrupted: the best so far" : "");
}

std::string mfu_text(const Summary& summary) {
  return summary.mfu_share ? fmt::format("{:.1f}%", *summary.mfu_share * 100) : "-";
}

std::string margin_text(const Summary& summary) {
  const auto left = free_memory(summary);
  return left ? rounded_text(*left) : "-";
}

std::string band_text(const Summary& summary) {
  return fmt::format("{} to {}", rounded_text(summary.step_time_low),
                     rounded_text(summary.step_time_high));
}

/// Settings of a place, and of a pipeline how much of the step its ranks wait for each other.
std::string settings_of(const planner::Candidate& candidate) {
  const std::string settings = planner::settings_text(candidate.choice);
  if (!candidate.summary.pipeline) return settings;
  return fmt::format("{}, bubble {:.1f}%", settings,
                     candidate.summary.pipeline->bubble_share * 100);
}

/// The best few, then those that are slower and leave more memory.
std::string places_table(const planner::Answer& answer, const Painter& painter) {
  Table table({{"", Align::right},
               {"strategy"},
               {"step time", Align::right},
               {"band"},
               {"tokens/s", Align::right},
               {"MFU", Align::right},
               {"exposed comm.", Align::right},
               {"memory", Align::right},
               {"margin", Align::right}});
  for (std::size_t i = 0; i < answer.candidates.size(); ++i) {
    const planner::Candidate& candidate = answer.candidates[i];
    if (i == answer.best_few) table.row({"", {"others, in less memory:", Paint::dim}});
    const Summary& summary = candidate.summary;
    const Paint paint = i == 0 ? Paint::bold : Paint::plain;
    table.row({{std::to_string(candidate.place), paint},
               {planner::strategy_text(candidate.choice), paint},
               {rounded_text(summary.step_time), paint},
               band_text(summary),
               grouped(static_cast<std::int64_t>(summary.tokens_per_s)),
               mfu_text(summary),
               rounded_text(summary.time.exposed_communication),
               rounded_text(needed_memory(summary)),
               margin_text(summary)});
    table.row({"", {"  " + settings_of(candidate), Paint::dim}});
  }
  return table.text(painter);
}

/// "optimizer_states" as people write it.
std::string words(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

/// Categories of the best few side by side, at the peak.
std::string memory_table(const planner::Answer& answer, const Painter& painter) {
  const std::size_t shown = std::min<std::size_t>(answer.best_few, 5);
  std::vector<Column> columns{{"memory at the peak, place"}};
  for (std::size_t i = 0; i < shown; ++i)
    columns.push_back({std::to_string(answer.candidates[i].place), Align::right});
  Table table(std::move(columns));
  const auto row = [&](const std::string& name, const auto& value) {
    std::vector<Cell> cells{name};
    for (std::size_t i = 0; i < shown; ++i)
      cells.emplace_back(rounded_text(value(answer.candidates[i].summary)));
    table.row(std::move(cells));
  };
  for (const MemoryCategory category : memory_categories)
    row(words(name_of(category)), [&](const Summary& s) { return s.memory.at_peak[category]; });
  table.rule();
  row("allocated", [](const Summary& s) { return s.memory.peak_allocated; });
  row("needed: reserved + outside the allocator",
      [](const Summary& s) { return needed_memory(s); });
  return table.text(painter);
}

/// The best of each number of ranks, and up to where more of them are worth it.
std::string curve_text(const planner::Answer& answer, const planner::Inputs& inputs,
                       const Painter& painter) {
  if (answer.curve.empty()) return {};
  const bool has_run = inputs.goals.train_tokens.has_value();
  std::vector<Column> columns{{"ranks", Align::right},       {"best strategy"},
                              {"step time", Align::right},   {"tokens/s", Align::right},
                              {"of a rank's", Align::right}, {"GPU-hours", Align::right}};
  if (has_run) columns.push_back({"days", Align::right});
  Table table(std::move(columns));
  for (const planner::CurvePoint& point : answer.curve) {
    const auto run = planner::run_cost(point.step_time, point.world,
                                       inputs.question.tokens_per_batch, inputs.goals);
    std::vector<Cell> cells{std::to_string(point.world),
                            planner::text_of(point.choice),
                            rounded_text(point.step_time),
                            grouped(static_cast<std::int64_t>(point.tokens_per_s)),
                            fmt::format("{:.0f}%", point.efficiency_share * 100),
                            fmt::format("{:.4g}", run ? run->gpu_hours : point.gpu_hours)};
    if (run) cells.emplace_back(fmt::format("{:.3g}", run->days));
    table.row(std::move(cells));
  }
  return "more ranks: GPU-hours " +
         std::string(has_run ? "of the whole training" : "for 10^9 tokens") +
         "; a rank's tokens/s as a share of those on the fewest ranks\n" + table.text(painter) +
         fmt::format("up to {} ranks more of them gain at least half of what they add\n\n",
                     *planner::bend_of(answer.curve));
}

std::string ties_text(const planner::Answer& answer) {
  std::vector<int> places;
  for (std::size_t i = 1; i < answer.best_few; ++i)
    if (answer.candidates[i].ties) places.push_back(answer.candidates[i].place);
  if (places.empty()) return {};
  const int last = places.back();
  places.pop_back();
  std::string before = "1";
  for (const int place : places) before += fmt::format(", {}", place);
  return fmt::format(
      "cannot be told apart by step time: {} and {} (they differ by less than the prediction "
      "may be off)\n\n",
      before, last);
}

/// One line for each, the reasons below each other.
std::string why_text(const planner::Answer& answer) {
  std::vector<planner::Rejected> lost;
  for (std::size_t i = 1; i < answer.candidates.size(); ++i)
    lost.push_back({planner::strategy_text(answer.candidates[i].choice), answer.candidates[i].why});
  lost.insert(lost.end(), answer.rejected.begin(), answer.rejected.end());
  if (lost.empty()) return {};
  std::size_t width = 30;
  for (const planner::Rejected& one : lost) width = std::max(width, one.strategy.size());
  std::string text = "why the others lost\n";
  for (const planner::Rejected& one : lost)
    text += fmt::format("  {:<{}}  {}\n", one.strategy, width, one.why);
  return text + "\n";
}

/// "ddp zero1, full_shard": what one runtime lacks for one reason stands in one line.
std::vector<planner::Dropped> joined(const std::vector<planner::Dropped>& dropped) {
  std::vector<planner::Dropped> result;
  for (const planner::Dropped& next : dropped) {
    const std::string runtime = next.strategy.substr(0, next.strategy.find(' ') + 1);
    if (!result.empty() && !runtime.empty() && result.back().why == next.why &&
        result.back().strategy.starts_with(runtime))
      result.back().strategy += ", " + next.strategy.substr(runtime.size());
    else
      result.push_back(next);
  }
  return result;
}

std::string dropped_text(const planner::Answer& answer) {
  if (answer.dropped.empty()) return {};
  std::string text = "not weighed\n";
  for (const planner::Dropped& dropped : joined(answer.dropped))
    text += fmt::format("  {}: {}\n", dropped.strategy, dropped.why);
  return text + "\n";
}

std::string_view reason_of(planner::Rule rule) {
  using planner::Rule;
  switch (rule) {
    case Rule::margin:
      return "margin";
    case Rule::memory:
      return "what its file can set";
    case Rule::current:
      return "the runtime that PyTorch recommends";
    case Rule::file:
      return "what its file leaves to the script";
    case Rule::plain:
      return "plain settings";
    case Rule::fragile:
      return "features that are known to break";
    case Rule::network:
      return "use of the network";
    case Rule::place:
      break;
  }
  return "step time";
}

std::string cost_text(double hours, const std::optional<double>& price) {
  std::string text = fmt::format("cost      {:.1f} GPU-hours for 10^9 tokens", hours);
  if (price) text += fmt::format(", {:.2f} at {} an hour", hours * *price, *price);
  return text + "\n";
}

/// Days, GPU-hours and money of the whole training, where its tokens are known.
std::string run_text(const planner::Candidate& best, const planner::Inputs& inputs) {
  const auto run = planner::run_cost(best.summary.step_time, planner::world_of(best.choice),
                                     inputs.question.tokens_per_batch, inputs.goals);
  if (!run) return {};
  std::string text =
      fmt::format("run       {} step{}, {:.3g} days, {} GPU-hours", grouped(run->steps),
                  run->steps == 1 ? "" : "s", run->days, grouped(std::llround(run->gpu_hours)));
  if (run->price) text += fmt::format(", {:.2f} in all", *run->price);
  return text + "\n";
}

/// Of the GPUs at their power limit.
std::string energy_text(const planner::Candidate& best, const planner::Inputs& inputs) {
  const auto energy = planner::most_energy_kwh(best.gpu_hours, inputs.profile);
  if (!energy) return {};
  std::string text = fmt::format("energy    at most {:.4g} kWh for 10^9 tokens", *energy);
  const auto run = planner::run_cost(best.summary.step_time, planner::world_of(best.choice),
                                     inputs.question.tokens_per_batch, inputs.goals);
  if (run)
    text += fmt::format(
        ", {} kWh in all",
        grouped(std::llround(*planner::most_energy_kwh(run->gpu_hours, inputs.profile))));
  return text +
         fmt::format(": {:.0f} W of each GPU, its limit; without hosts, network and cooling\n",
                     inputs.profile.gpu->power_limit.watts);
}

/// Which rule chose among the places that cannot be told apart.
std::string rule_text(const planner::Answer& answer) {
  const planner::Chosen& chosen = answer.chosen;
  if (chosen.tied.size() < 2) return {};
  std::string text = fmt::format(
      "          place {} of the {} that cannot be told apart, chosen by {}",
      answer.candidates[chosen.candidate].place, chosen.tied.size(), reason_of(chosen.rule));
  text += (chosen.why.empty() ? "" : ": " + chosen.why) + "\n";
  for (const planner::PassedOver& other : chosen.passed_over)
    if (!other.why.empty() && other.why != chosen.why)
      text += fmt::format("          not place {}: {}\n", answer.candidates[other.candidate].place,
                          other.why);
  return text;
}

/// Of what follows training; none of other phases.
std::string_view phase_name(std::string_view phase) {
  if (phase == "evaluate") return "an evaluation";
  if (phase == "save") return "a save of the whole model";
  if (phase == "save_optimizer") return "a save of the optimizer's whole state";
  if (phase == "resume") return "going on from a checkpoint";
  return {};
}

/// "41% more than predicted".
std::string more_text(double share) {
  return share < 1 ? fmt::format("{:.0f}% more than predicted", share * 100)
                   : std::string("more than twice what is predicted");
}

/// What would make the chosen one run out of memory.
std::string breaks_text(const planner::Limits& limits, const planner::Candidate& chosen,
                        const planner::Inputs& inputs) {
  std::vector<std::string> breaks;
  if (limits.longest && !limits.longer_untried)
    breaks.push_back(fmt::format("sequences of more than {} tokens (asked: {})",
                                 grouped(*limits.longest),
                                 grouped(inputs.question.training.length)));
  if (limits.held_more)
    breaks.push_back(fmt::format("an allocator that holds {} ({} spare)",
                                 more_text(*limits.held_more), margin_text(chosen.summary)));
  std::string fitting;
  for (const planner::PhaseNeed& phase : limits.phases) {
    const std::string_view name = phase_name(phase.phase);
    if (name.empty()) continue;
    const std::string need = fmt::format("{} ({})", name, rounded_text(phase.needed));
    if (phase.fits)
      fitting += (fitting.empty() ? "" : ", ") + need;
    else
      breaks.push_back(need);
  }
  std::string text;
  for (const std::string& one : breaks)
    text += (text.empty() ? "breaks    " : "          ") + one + "\n";
  return fitting.empty() ? text : text + "fits      " + fitting + "\n";
}

/// What its step time follows, and what faster ones would gain.
std::string time_text(const planner::Limits& limits) {
  if (limits.time.empty()) return {};
  std::string text;
  for (const planner::TimeShare& part : limits.time)
    text += fmt::format("{}{} {:.0f}%", text.empty() ? "" : ", ", name_of(part.group),
                        part.share * 100);
  constexpr double tenth = 10;  // per cent
  return fmt::format("limited   by {}; 10% less time for {} saves {:.1f}% of the step\n", text,
                     name_of(limits.time.front().group), limits.time.front().share * tenth);
}

/// A file that cannot say all of the choice runs another one.
std::string file_alone_text(const planner::Answer& answer, const planner::Inputs& inputs) {
  if (!answer.file_alone) return {};
  const Summary& summary = answer.file_alone->summary;
  const std::string ends =
      summary.out_of_memory
          ? "runs out of memory"
          : fmt::format("takes {} a step and needs {}", rounded_text(summary.step_time),
                        rounded_text(needed_memory(summary))) +
                (summary.fits ? "" : ": it does not fit");
  const planner::Choice& chosen = answer.candidates[answer.chosen.candidate].choice;
  return fmt::format("          {} alone, without {}, {}\n", answer.written->file,
                     planner::what_the_file_lacks(chosen, planner::written_from(inputs)), ends);
}

std::string chosen_text(const planner::Answer& answer, const planner::Inputs& inputs,
                        const Painter& painter) {
  const planner::Chosen& chosen = answer.chosen;
  const planner::Candidate& best = answer.candidates[chosen.candidate];
  std::string text =
      painter(Paint::bold, fmt::format("chosen    {}", planner::text_of(best.choice))) + "\n";
  text += rule_text(answer) + file_alone_text(answer, inputs);
  text += cost_text(best.gpu_hours, inputs.goals.price_per_gpu_hour) + run_text(best, inputs);
  text += energy_text(best, inputs);
  text += time_text(answer.limits) + breaks_text(answer.limits, best, inputs);
  if (!best.summary.mfu_formula.empty())
    text += fmt::format("MFU       {}\n", best.summary.mfu_formula);
  return text + "band      nine of ten real runs take a step time inside the band\n";
}

std::string failure_text(const Summary& summary) {
  if (!summary.out_of_memory) return {};
  const OutOfMemorySummary& failure = *summary.out_of_memory;
  return fmt::format(": in {} {} asks for {} where {} are free",
                     failure.step == "setup" ? std::string("set-up") : "step " + failure.step,
                     failure.operation, rounded_text(failure.requested),
                     rounded_text(failure.free));
}

std::string given_text(const planner::Answer& answer, const Painter& painter) {
  const planner::GivenPlace& given = *answer.given;
  const Summary& summary = given.summary;
  std::string text = painter(Paint::bold, fmt::format("{}: {}", given.name, given.strategy)) + "\n";
  if (!given.refused.empty()) return text + "  " + given.refused + "\n";
  if (summary.fits)
    text += fmt::format("  {} a step, {} needed{}{}\n", rounded_text(summary.step_time),
                        rounded_text(needed_memory(summary)),
                        memory_fit(summary) == MemoryFit::tight
                            ? fmt::format(" (tight: {} spare)", rounded_text(*free_memory(summary)))
                            : std::string(),
                        given.faster_choices == 0
                            ? ": nothing here is faster"
                            : fmt::format(": {} of those shown {} faster", given.faster_choices,
                                          given.faster_choices == 1 ? "is" : "are"));
  else
    text += "  " + painter(Paint::bad, "does not fit") + failure_text(summary) + "\n";
  if (!given.changed && answer.interrupted) return text;
  if (!given.changed)
    return text + fmt::format("  no single change, and no pair of changes, makes it {}\n",
                              summary.fits ? "faster" : "fit");
  std::string changes;
  for (const std::string& change : given.changes)
    changes += (changes.empty() ? "" : ", and ") + change;
  const Summary& changed = given.changed->summary;
  text += fmt::format("  smallest change that {}: {}\n",
                      summary.fits ? "makes it faster" : "makes it fit", changes);
  text += fmt::format("    then {} a step, {} needed", rounded_text(changed.step_time),
                      rounded_text(needed_memory(changed)));
  if (summary.fits)
    text += fmt::format(" ({:.1f}% faster)",
                        (static_cast<double>(summary.step_time.ns) /
                             static_cast<double>(std::max<std::int64_t>(1, changed.step_time.ns)) -
                         1) *
                            100);
  return text + "\n";
}

std::string_view why_no_place(const planner::Answer& answer) {
  if (answer.interrupted && answer.advice.empty()) return "interrupted before anything was found";
  const auto is_refused = [](const planner::Way& way) { return way.outcome == "refused"; };
  const bool all_refused = !answer.ways.empty() && std::ranges::all_of(answer.ways, is_refused);
  return all_refused ? "nothing can be predicted" : "nothing fits";
}

std::string nothing_fits_text(const planner::Answer& answer, const Painter& painter) {
  std::string text = painter(Paint::bad, why_no_place(answer)) + "\n";
  for (const std::string& line : answer.advice) text += "  " + line + "\n";
  return text;
}

}  // namespace

std::string plan_text(const planner::Answer& answer, const planner::Inputs& inputs,
                      const Painter& painter) {
  std::string text = painter(Paint::bold, headline(inputs)) + "\n" + effort(answer) + "\n\n";
  if (answer.candidates.empty()) {
    text += nothing_fits_text(answer, painter) + "\n" + why_text(answer) + dropped_text(answer);
    return answer.given ? text + given_text(answer, painter) : text;
  }
  text += places_table(answer, painter) + "\n" + ties_text(answer);
  text += memory_table(answer, painter) + "\n";
  text += curve_text(answer, inputs, painter);
  text += pareto_plot(answer.candidates) + "\n";
  text += why_text(answer) + dropped_text(answer);
  for (const std::string& remark : answer.remarks) text += "note: " + remark + "\n";
  if (!answer.remarks.empty()) text += "\n";
  if (answer.given) text += given_text(answer, painter) + "\n";
  return text + chosen_text(answer, inputs, painter);
}

std::string written_text(const planner::WrittenChoice& written) {
  std::string text;
  for (const Loss& loss : written.losses)
    text += fmt::format("not in {}: {}: {}\n", written.file, loss.key, loss.why);
  return text;
}

}  // namespace shardscope
