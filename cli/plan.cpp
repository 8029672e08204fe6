// shardscope plan: ranks the strategies, says why, and writes the chosen one.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/job/folder_lock.h"
#include "backend/train/stop_request.h"
#include "cli/hardware_choice.h"
#include "cli/html_page.h"
#include "cli/lengths_option.h"
#include "cli/megatron_plan.h"
#include "cli/plan_clusters.h"
#include "cli/plan_inputs.h"
#include "cli/plan_options.h"
#include "cli/plan_places.h"
#include "cli/plan_text.h"
#include "cli/progress_line.h"
#include "cli/recipe_option.h"
#include "cli/verb.h"
#include "core/format/atomic_file.h"
#include "sim/planner/answer/answer.h"
#include "sim/planner/answer/answer_json.h"
#include "sim/planner/answer/basis.h"
#include "sim/planner/answer/pareto.h"

namespace shardscope {
namespace {

std::string progress_text(const planner::Progress& progress) {
  const std::string best = progress.best
                               ? fmt::format(", best so far {} a step: {}",
                                             rounded_text(*progress.best), progress.best_text)
                               : "";
  return fmt::format("{} of {} ways settled, {} simulated{}", progress.settled, progress.choices,
                     progress.simulated, best);
}

/// Asks for a stop once Ctrl-C was pressed.
class StopOnInterrupt {
 public:
  StopOnInterrupt()
      : watcher_([this](const std::stop_token& done) {
          constexpr std::chrono::milliseconds pause{20};
          while (!done.stop_requested() && !request_.asked()) std::this_thread::sleep_for(pause);
          if (request_.asked()) source_.request_stop();
        }) {}
  std::stop_token token() const { return source_.get_token(); }
  bool asked() const { return request_.asked(); }

 private:
  StopRequest request_;
  std::stop_source source_;
  std::jthread watcher_;
};

std::string plan_page(const planner::Answer& answer, const planner::Inputs& inputs,
                      const std::string& title, const std::string& figure) {
  std::vector<Section> sections{{"Answer", plan_text(answer, inputs, Painter(ColorChoice::never))}};
  if (answer.written) sections.push_back({answer.written->file, answer.written->text});
  return html_page(title, figure, sections);
}

/// The answer as text, table and page, the chosen file and the picture.
void leave_in(const std::filesystem::path& folder, const planner::Answer& answer,
              const planner::Inputs& inputs, const std::string& json) {
  create_folder(folder);
  write_atomically(folder / "plan.json", json + "\n");
  write_atomically(folder / "plan.csv", planner::ways_csv(answer.ways));
  const std::string title =
      fmt::format("{} on {} ranks of {}, {} tokens a step", inputs.model.class_name,
                  inputs.question.world, inputs.profile.name, inputs.question.tokens_per_batch);
  std::string figure;
  if (answer.written) {
    write_atomically(folder / answer.written->file, answer.written->text);
    create_folder(folder / "figures");
    figure = pareto_figure(planner::pareto_points(answer), inputs.profile.memory, title);
    write_atomically(folder / "figures" / "plan.svg", figure);
  }
  write_atomically(folder / "plan.html", plan_page(answer, inputs, title, figure));
}

ExitCode code_of(const planner::Answer& answer) {
  if (answer.interrupted) return ExitCode::interrupted;
  return answer.candidates.empty() ? ExitCode::no : ExitCode::done;
}

/// The answer, with progress where a person looks and the best so far after Ctrl-C.
planner::Answer answer_to(const planner::Inputs& inputs, const OutputOptions& output) {
  const StopOnInterrupt stop;
  ProgressLine line(output);
  return planner::answer(
      inputs, {.on_progress =
                   [&](const planner::Progress& progress) { line.update(progress_text(progress)); },
               .stop = stop.token()});
}

/// None where the chosen way is not played with the caching allocator of one rank.
std::optional<planner::LengthsMemory> lengths_memory_of(const planner::Candidate& chosen,
                                                        const planner::Inputs& inputs,
                                                        const planner::SequenceLengths& sequences) {
  const planner::Choice& choice = chosen.choice;
  if (choice.runtime == Runtime::native || planner::is_pipelined(choice) || choice.torchtitan)
    return std::nullopt;
  const planner::Basis basis(inputs);
  return planner::memory_of_lengths(planner::pytorch_training(choice, basis.trials), inputs.model,
                                    inputs.config,
                                    {.memory = inputs.profile.memory,
                                     .outside = chosen.summary.memory.outside,
                                     .margin = basis.trials.margin},
                                    sequences);
}

/// Of the chosen place; none without one.
std::optional<LengthsReport> report_of(const std::optional<planner::SequenceLengths>& sequences,
                                       const planner::Answer& answer, const planner::Inputs& inputs,
                                       const OutputOptions& output) {
  if (!sequences || answer.candidates.empty()) return std::nullopt;
  const planner::Candidate& chosen = answer.candidates[answer.chosen.candidate];
  return LengthsReport{
      *sequences, inputs.question.training.length, chosen.choice.batch, chosen.summary.tokens_per_s,
      memory_or_note(output, [&] { return lengths_memory_of(chosen, inputs, *sequences); })};
}

/// Left in `folder`, and what follows the answer.
void leave(const std::string& folder, const planner::Answer& answer, const planner::Inputs& inputs,
           const PlanOptions& options, const std::string& json) {
  leave_in(folder, answer, inputs, json);
  const StopOnInterrupt stop;
  leave_places(folder, answer, inputs, options, stop.token());
  options.output.note(fmt::format("left in {}", folder));
}

std::optional<FolderLock> locked(const std::optional<std::string>& folder) {
  if (!folder) return std::nullopt;
  create_folder(*folder);
  return std::optional<FolderLock>(std::in_place, *folder);
}

/// Every cluster's own plan is left in FOLDER/clusters/1, 2 and so on.
ExitCode plan_side_by_side(const std::vector<PlanOptions>& each) {
  const PlanOptions& first = each.front();
  const std::optional<FolderLock> lock = locked(first.folder);
  std::vector<ClusterAnswer> all;
  for (const PlanOptions& options : each)  // before the work: a bad input of the last one, too
    all.push_back({.cluster = *options.cluster, .inputs = resolve_plan(options), .answer = {}});
  bool interrupted = false;
  for (std::size_t i = 0; i < each.size() && !interrupted; ++i) {
    ClusterAnswer& one = all[i];
    if (!first.output.json) note_assumptions(first.output, one.inputs.assumed);
    one.answer = answer_to(one.inputs, first.output);
    interrupted = one.answer.interrupted;
    if (interrupted) all.erase(all.begin() + std::ptrdiff_t(i) + 1, all.end());
  }
  const std::string json = clusters_json(all);
  print(first.output.json ? json + "\n" : clusters_text(all, first.output.painter()));
  if (first.folder) {
    write_atomically(std::filesystem::path(*first.folder) / "clusters.json", json + "\n");
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto folder = std::filesystem::path(*first.folder) / "clusters" / std::to_string(i + 1);
      create_folder(folder);
      leave(folder.string(), all[i].answer, all[i].inputs, each[i],
            planner::answer_json(all[i].answer, all[i].inputs));
    }
  }
  if (interrupted) return ExitCode::interrupted;
  return best_of(all).fastest ? ExitCode::done : ExitCode::no;
}

/// The file of another tool says tokens of a rank: those of a step are for the ranks that are asked
/// for, else for one node.
void take_config(PlanOptions& options) {
  if (!options.sharding.config) return;
  const std::vector<int> worlds = options.asked_worlds();
  if (!worlds.empty()) options.place.world = worlds.back();
  const std::optional<std::string> cluster =
      options.clusters.empty() ? std::nullopt : std::optional(options.clusters.front());
  options.recipe_run = take_recipe_to_plan(
      {options.job, options.sharding, options.pytorch, options.cluster}, options.place,
      ranks_of_a_node(require_hardware(cluster).profile), options.output);
}

ExitCode run_plan(PlanOptions given) {
  if (asks_megatron(given)) {
    const StopOnInterrupt stop;
    return run_megatron_plan(given, stop.token());
  }
  take_config(given);
  const auto sequences = take_lengths(given.lengths, given.job);
  const std::vector<PlanOptions> each = given.by_cluster();
  if (each.size() > 1) return plan_side_by_side(each);
  const PlanOptions& options = each.front();
  const planner::Inputs inputs = resolve_plan(options);
  const std::optional<FolderLock> lock = locked(options.folder);  // the work may take minutes
  const planner::Answer answer = answer_to(inputs, options.output);
  const std::optional<LengthsReport> lengths = report_of(sequences, answer, inputs, options.output);
  const std::string answered = planner::answer_json(answer, inputs);
  const std::string json = lengths ? with_lengths(answered, *lengths) : answered;
  if (!options.output.json) note_assumptions(options.output, inputs.assumed);
  print(options.output.json ? json + "\n" : plan_text(answer, inputs, options.output.painter()));
  if (lengths && !options.output.json) print(lengths_text(*lengths));
  if (options.folder) {
    leave(*options.folder, answer, inputs, options, json);
    if (answer.written && !options.output.json) options.output.note(written_text(*answer.written));
  } else if (answer.written && !options.output.json) {
    options.output.note(fmt::format("-o FOLDER writes it as {}", answer.written->file));
  }
  return code_of(answer);
}

}  // namespace

void declare_plan(Command& command) {
  const auto options = std::make_shared<PlanOptions>();
  declare_plan_options(command, *options);
  command.action([options] { return run_plan(*options); });
}

}  // namespace shardscope
