#include "gui/data/open_plan.h"

#include <fmt/format.h>

#include <system_error>

#include "core/base/error.h"
#include "core/format/is_there.h"
#include "core/format/json_reader.h"
#include "gui/data/open_run.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view file_name = "plan.json";

void add_rejected(const JsonValue& plan, std::string_view key, std::vector<Finding>& findings) {
  const std::optional<JsonValue> rows = plan.find(key);
  if (!rows) return;
  for (const JsonValue& row : rows->elements())
    findings.push_back(
        {Severity::note, "not on a place",
         fmt::format("{}: {}", row.at("strategy").string(), row.at("why").string())});
}

/// 0: none is.
std::size_t chosen_place(const JsonValue& plan) {
  const std::optional<JsonValue> chosen = plan.find("chosen");
  if (!chosen || !chosen->is_object()) return 0;
  const std::optional<JsonValue> place = chosen->find("place");
  return place && !place->is_null() ? static_cast<std::size_t>(place->integer(0)) : 0;
}

/// The user's own file has no run folder.
ScenarioPointer scenario_of_given(const JsonValue& given, const fs::path& file) {
  auto scenario = std::make_shared<Scenario>();
  scenario->path = file;
  scenario->predicted = Side{.kind = SideKind::predicted, .source = file};
  scenario->predicted->summary = parse_summary(given.dump(), file.string());
  scenario->label = label_of(*scenario->predicted->summary) + " (your file)";
  scenario->findings.push_back(
      {Severity::note, file.string(),
       "has the figures of your file alone: `shardscope simulate -o` leaves its trace"});
  return scenario;
}

Finding finding_of_refused(const JsonValue& given, const JsonValue& refused) {
  return {Severity::warning, given.at("file").string(),
          fmt::format("your file is refused: {}", refused.string())};
}

/// What `plan` says of the user's own file; null: there is none, or it has no figures.
ScenarioPointer given_of(const JsonValue& plan, const fs::path& file,
                         std::vector<Finding>& findings) {
  const std::optional<JsonValue> given = plan.find("given");
  if (!given || !given->is_object()) return nullptr;
  try {
    const std::optional<JsonValue> refused = given->find("refused");
    if (!refused) return scenario_of_given(*given, file);
    findings.push_back(finding_of_refused(*given, *refused));
  } catch (const Error& error) {
    findings.push_back({Severity::error, error.parts().where, error.what()});
  }
  return nullptr;
}

}  // namespace

ScenarioPointer with_place(const ScenarioPointer& run, const FoundPlace& place) {
  auto named = std::make_shared<Scenario>(*run);
  named->label += fmt::format(" (place {}{})", place.number, place.is_chosen ? ", chosen" : "");
  return named;
}

std::optional<fs::path> plan_folder_of(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    return is_there(path / file_name) ? std::optional(path) : std::nullopt;
  if (path.filename() != file_name) return std::nullopt;
  return fs::absolute(path, ignored).parent_path();
}

FoundPlan find_plan(const fs::path& folder) {
  const fs::path file = folder / file_name;
  const JsonValue plan = JsonValue::read_file(file);
  FoundPlan found;
  const std::vector<JsonValue> candidates = plan.at("candidates").elements();
  const std::size_t chosen = chosen_place(plan);
  for (std::size_t place = 1; place <= candidates.size(); ++place)
    if (const fs::path run = folder / "places" / fmt::format("{}", place); is_run_folder(run))
      found.places.push_back({.run = run, .number = place, .is_chosen = place == chosen});
  if (found.places.empty() && candidates.empty())
    throw Error({.where = file.string(),
                 .what = "has no place: nothing fits",
                 .way_out = "plan.html says what would"});
  if (found.places.empty())
    throw Error({.where = file.string(),
                 .what = fmt::format("has {} places, and no run folder of any", candidates.size()),
                 .way_out = "run `shardscope plan` with -o again, which leaves them in places/"});
  found.given = given_of(plan, file, found.findings);
  add_rejected(plan, "losers", found.findings);
  add_rejected(plan, "dropped", found.findings);
  return found;
}

}  // namespace shardscope::gui
