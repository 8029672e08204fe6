#include "gui/data/open_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/grouped.h"
#include "core/format/is_there.h"
#include "core/format/json_reader.h"
#include "sim/planner/choice_json.h"
#include "traces/chrome_reader.h"
#include "traces/import/memory_guard.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;

/// Traces of one side that are read; more ranks are named in a finding.
constexpr int most_ranks = 64;
constexpr std::size_t most_windows = 16;
/// Memory that reading a compressed trace of ours takes at most, by its size: gzip makes a trace 18
/// times smaller, and its document takes four times its text.
constexpr std::int64_t document_ratio = 72;

/// What goes wrong in `read` becomes a finding.
template <class Read>
void try_to(std::vector<Finding>& findings, const fs::path& path, const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    findings.push_back({Severity::error, path.string(), error.what()});
  }
}

/// Traces of ours say some things twice, for other tools.
void add_statistics(const ImportStatistics& counts, const fs::path& path,
                    std::vector<Finding>& findings) {
  std::string derived;
  for (const auto& [reason, count] : counts.skipped) {
    if (reason == derived_event)
      derived = fmt::format("; {} are derived, not stored", grouped(count));
    else
      findings.push_back({Severity::warning, path.string(),
                          fmt::format("{} events skipped: {}", grouped(count), reason)});
  }
  findings.push_back({Severity::note, path.string(),
                      fmt::format("{} of {} events kept{}", grouped(counts.events_kept),
                                  grouped(counts.events_read), derived)});
}

void check_memory(const fs::path& path) {
  std::error_code ignored;
  const auto size = fs::file_size(path, ignored);
  if (ignored) return;
  const Bytes needed = Bytes{static_cast<std::int64_t>(size)} * document_ratio;
  const Bytes available = free_memory();
  if (needed <= available) return;
  throw Error({.where = path.string(),
               .what = fmt::format("may take {} of memory, and {} is free", rounded_text(needed),
                                   rounded_text(available)),
               .way_out = "profile fewer steps, or open it on a machine with more",
               .code = ExitCode::outside});
}

void read_ranks(Side& side, std::vector<Finding>& findings, const RunFolder& folder, int world,
                const OpenOptions& options) {
  std::vector<int> missing;
  const int read = std::min(world, most_ranks);
  for (int rank = 0; rank < read; ++rank) {
    if (options.stop.stop_requested()) return;
    if (options.on_progress)
      options.on_progress(static_cast<double>(rank) / read, folder.trace(rank).string());
    if (is_there(folder.trace(rank)))
      add_own_trace(side, folder.trace(rank), findings);
    else
      missing.push_back(rank);
  }
  if (world > most_ranks)
    findings.push_back({Severity::note, folder.root.string(),
                        fmt::format("traces of the first {} of {} ranks were read", read, world)});
  if (!missing.empty())
    findings.push_back({Severity::warning, folder.trace(missing.front()).string(),
                        fmt::format("{} of {} ranks have no trace", missing.size(), read)});
}

Side profiled_side(const RunFolder& folder, std::vector<Finding>& findings,
                   const OpenOptions& options) {
  Side side{.kind = SideKind::profiled, .source = folder.root};
  side.summary = read_summary(folder.summary());
  read_ranks(side, findings, folder, side.summary->world, options);
  return side;
}

/// First and last step of a window's folder: "40-44".
std::optional<std::pair<int, int>> steps_of_window(const fs::path& folder) {
  const std::string name = folder.filename().string();
  std::pair<int, int> steps;
  const char* const end = name.data() + name.size();
  const auto first = std::from_chars(name.data(), end, steps.first);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return std::nullopt;
  const auto last = std::from_chars(first.ptr + 1, end, steps.second);
  if (last.ec != std::errc() || last.ptr != end) return std::nullopt;
  return steps;
}

std::vector<fs::path> window_folders(const fs::path& profiles) {
  std::vector<fs::path> folders;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(profiles, ignored))
    if (entry.is_directory(ignored) && steps_of_window(entry.path()))
      folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end(), [](const fs::path& a, const fs::path& b) {
    return *steps_of_window(a) < *steps_of_window(b);
  });
  return folders;
}

/// A window's figures are those of its own traces; what a trace does not say is the run's.
Summary summary_of_window(const Trace& trace, const Summary& run) {
  RunFacts facts;
  facts.strategy = run.strategy;
  facts.runtime = run.runtime;
  facts.precision = run.precision;
  facts.device_memory = run.device_memory;
  facts.assumed = run.assumed;
  facts.tokens_per_step =
      std::llround(run.tokens_per_s * static_cast<double>(run.step_time.ns) / 1e9);
  facts.arena = run.memory.arena;
  facts.outside = run.memory.outside;
  facts.outside_items = run.outside;
  return summarize(trace, facts);
}

constexpr std::uintmax_t largest_named_config = std::uintmax_t{1} << 20;

/// "llama of 32 layers"; "" where the file does not say it.
std::string name_in_config(const fs::path& config) {
  std::error_code error;
  if (fs::file_size(config, error) > largest_named_config || error) return "";
  const JsonValue model = JsonValue::read_file(config, DuplicateKeys::last_wins);
  const auto type = model.find("model_type");
  if (!type) return "";
  for (const char* key : {"num_hidden_layers", "n_layer", "num_layers"})
    if (const auto layers = model.find(key))
      return fmt::format("{} of {} layers", type->string(), layers->dump());
  return type->string();
}

/// By its folder; a copy of its config.json in the run folder says less.
std::string model_name(const RunFolder& run, const JsonValue& job) {
  const auto value = job.find("model");
  if (!value) return "";
  fs::path model = value->string();
  if (run.root / model == run.config()) return name_in_config(run.config());
  if (model.filename() == "config.json") model = model.parent_path();
  return model.filename().string();
}

/// What was trained on what, as the job says it: "model gpt2, batch 4 x 2, sequences of 1024".
std::vector<std::string> words_of_job(const RunFolder& folder) {
  std::vector<std::string> words;
  const JsonValue job = JsonValue::read_file(folder.job());
  if (const std::string name = model_name(folder, job); !name.empty())
    words.push_back("model " + name);
  if (const auto batch = job.find("batch")) {
    const auto steps = job.find("accumulate");
    const bool is_once = !steps || steps->dump() == "1";
    words.push_back(fmt::format("batch {}{}", batch->dump(), is_once ? "" : " x " + steps->dump()));
  }
  if (const auto length = job.find("seq")) words.push_back("sequences of " + length->dump());
  return words;
}

/// A choice says the batch, too.
void add_words_of_job(const RunFolder& folder, std::string& settings) {
  const bool has_batch = settings.starts_with("batch ");
  for (const std::string& word : words_of_job(folder)) {
    if (has_batch && word.starts_with("batch ")) continue;
    settings += (settings.empty() ? "" : ", ") + word;
  }
}

}  // namespace

bool is_run_folder(const fs::path& path) {
  const RunFolder folder{path};
  return is_there(folder.summary()) || is_there(folder.predicted_summary());
}

bool is_window_folder(const fs::path& path) {
  std::error_code ignored;
  const fs::path whole = fs::absolute(path, ignored).lexically_normal();
  return steps_of_window(whole) && whole.parent_path().filename() == "profiles";
}

std::string label_of(const Summary& summary) {
  const std::string runtime = summary.runtime == "native" ? "" : summary.runtime + " ";
  return fmt::format("{}{} x{}", runtime, summary.strategy, summary.world);
}

void add_own_trace(Side& side, const fs::path& path, std::vector<Finding>& findings) {
  try_to(findings, path, [&] {
    check_memory(path);
    OwnTrace read = read_chrome_trace(path);
    add_statistics(read.statistics, path, findings);
    side.ranks.push_back(std::make_shared<const Trace>(std::move(read.trace)));
  });
}

namespace {

/// Of the pipeline's ranks behind the first, where the prediction is of that one.
void add_stages(Side& side, const RunFolder& folder, std::vector<Finding>& findings) {
  if (side.ranks.size() != 1 || !side.summary || !side.summary->pipeline) return;
  const auto stages = static_cast<int>(side.summary->pipeline->ranks.size());
  if (is_there(folder.predicted_stage_trace(0))) return;
  for (int stage = 1; stage < stages; ++stage)
    if (!is_there(folder.predicted_stage_trace(stage))) return;
  for (int stage = 1; stage < stages; ++stage)
    add_own_trace(side, folder.predicted_stage_trace(stage), findings);
  if (std::ssize(side.ranks) != stages) side.ranks.resize(1);
}

}  // namespace

Side read_predicted(const RunFolder& folder, std::vector<Finding>& findings) {
  Side side{.kind = SideKind::predicted, .source = folder.root / "predicted"};
  side.summary = read_summary(folder.predicted_summary());
  if (is_there(folder.predicted_trace()))
    add_own_trace(side, folder.predicted_trace(), findings);
  else
    findings.push_back({Severity::warning, folder.predicted_trace().string(), "is not there"});
  add_stages(side, folder, findings);
  if (is_there(folder.predicted_buffers()))
    try_to(findings, folder.predicted_buffers(),
           [&] { side.buffers = read_buffers(folder.predicted_buffers()); });
  else
    findings.push_back({Severity::note, folder.predicted_buffers().string(),
                        "is not there: predict again to see what is alive at an instant"});
  return side;
}

namespace {

/// Throws Error where there is no summary.
void name_run(Scenario& scenario) {
  const RunFolder folder{scenario.path};
  std::vector<Finding>& findings = scenario.findings;
  const Summary* summary = scenario.summary();
  if (summary == nullptr)
    throw Error({.where = {},
                 .what = findings.empty() ? scenario.path.string() + ": no summary"
                                          : findings.front().what});
  scenario.label = label_of(*summary);
  if (is_there(folder.predicted_choice()))
    try_to(findings, folder.predicted_choice(), [&] {
      scenario.settings = planner::settings_text(planner::read_choice(folder.predicted_choice()));
    });
  if (is_there(folder.job()))
    try_to(findings, folder.job(), [&] { add_words_of_job(folder, scenario.settings); });
}

}  // namespace

ScenarioPointer open_figures(const fs::path& path) {
  const RunFolder folder{path};
  auto scenario = std::make_shared<Scenario>();
  scenario->path = path;
  scenario->is_being_read = true;
  const auto read = [&](SideKind kind, const fs::path& source, const fs::path& summary) {
    if (!is_there(summary)) return std::optional<Side>();
    Side side{.kind = kind, .source = source};
    side.summary = read_summary(summary);
    return std::optional(side);
  };
  scenario->predicted =
      read(SideKind::predicted, folder.root / "predicted", folder.predicted_summary());
  scenario->profiled = read(SideKind::profiled, folder.root, folder.summary());
  name_run(*scenario);
  return scenario;
}

ScenarioPointer open_run(const fs::path& path, const OpenOptions& options) {
  const RunFolder folder{path};
  auto scenario = std::make_shared<Scenario>();
  scenario->path = path;
  std::vector<Finding>& findings = scenario->findings;
  if (is_there(folder.predicted_summary()))
    try_to(findings, folder.predicted_summary(),
           [&] { scenario->predicted = read_predicted(folder, findings); });
  if (is_there(folder.summary()))
    try_to(findings, folder.summary(),
           [&] { scenario->profiled = profiled_side(folder, findings, options); });
  name_run(*scenario);
  return scenario;
}

ScenarioPointer open_window(const Scenario& run, const fs::path& folder,
                            const OpenOptions& options) {
  auto scenario = std::make_shared<Scenario>();
  const auto steps = steps_of_window(folder).value_or(std::pair(0, 0));
  scenario->label = fmt::format("{}, steps {} to {}", run.label, steps.first, steps.second);
  scenario->path = folder;
  scenario->predicted = run.predicted;
  Side side{.kind = SideKind::profiled, .source = folder};
  const Summary* whole = run.summary();
  read_ranks(side, scenario->findings, {folder}, whole == nullptr ? 1 : whole->world, options);
  if (side.ranks.empty()) return nullptr;
  side.summary = summary_of_window(*side.ranks.front(), whole == nullptr ? Summary{} : *whole);
  scenario->profiled = std::move(side);
  return scenario;
}

std::vector<ScenarioPointer> open_windows(const Scenario& run, const OpenOptions& options) {
  std::vector<fs::path> folders = window_folders(RunFolder{run.path}.profiles());
  if (folders.size() > most_windows) folders.erase(folders.begin(), folders.end() - most_windows);
  std::vector<ScenarioPointer> windows;
  for (const fs::path& folder : folders) {
    if (options.stop.stop_requested()) break;
    if (ScenarioPointer window = open_window(run, folder, options))
      windows.push_back(std::move(window));
  }
  return windows;
}

}  // namespace shardscope::gui
