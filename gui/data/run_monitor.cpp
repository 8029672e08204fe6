#include "gui/data/run_monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/format/json_reader.h"

namespace shardscope::gui {
namespace {

constexpr std::int64_t most_at_once = 1 << 20;

std::optional<RunPoint> point_of(std::string_view line, const std::string& file) {
  try {
    const JsonValue value = JsonValue::parse(line, file);
    if (!value.is_object()) return std::nullopt;
    return RunPoint{.step = value.at("step").integer(1),
                    .loss = value.at("loss").number(),
                    .elapsed_s = value.at("elapsed_s").number(0)};
  } catch (const Error&) {
    return std::nullopt;  // of a newer version, or damaged: the others still make a curve
  }
}

struct Ending {
  ExitCode code;
  std::string_view words;
};
constexpr std::array<Ending, 7> endings{
    {{ExitCode::done, "finished"},
     {ExitCode::no, "the answer is no: it does not fit"},
     {ExitCode::bad_input, "refused: the job or an option is wrong, see the log"},
     {ExitCode::outside, "disk, device or a library failed, see the log"},
     {ExitCode::rank_lost, "a rank died or hung, see the log"},
     {ExitCode::not_finite, "the loss is no number any more"},
     {ExitCode::interrupted, "stopped: the steps so far are kept"}}};

}  // namespace

std::vector<std::string> train_arguments(const RunRequest& request) {
  std::vector<std::string> arguments{
      "train",   request.job.string(),          "--ranks", std::to_string(request.ranks),
      "--steps", std::to_string(request.steps), "-o",      request.folder.string()};
  if (!request.machine.empty()) {
    arguments.emplace_back("--cluster");
    arguments.push_back(request.machine.string());
  }
  return arguments;
}

std::vector<RunPoint> MetricsTail::read() {
  std::vector<RunPoint> points;
  std::ifstream file(file_, std::ios::binary | std::ios::ate);
  if (!file) return points;
  const std::int64_t size = file.tellg();
  if (size < position_) position_ = 0;
  std::string text(static_cast<std::size_t>(std::min(size - position_, most_at_once)), '\0');
  file.seekg(position_);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const std::string_view line(text.data() + begin, end - begin);
    if (const auto point = point_of(line, file_.string())) points.push_back(*point);
    begin = end + 1;
  }
  position_ += static_cast<std::int64_t>(begin);
  return points;
}

Duration step_time(const std::vector<RunPoint>& points, std::size_t place) {
  const double before = place == 0 ? 0 : points[place - 1].elapsed_s;
  return Duration::from_seconds(points[place].elapsed_s - before);
}

std::string ending_text(int exit_code) {
  for (const Ending& ending : endings)
    if (static_cast<int>(ending.code) == exit_code)
      return exit_code == 0 ? std::string(ending.words)
                            : fmt::format("{} (exit code {})", ending.words, exit_code);
  return fmt::format("ended with exit code {}", exit_code);
}

}  // namespace shardscope::gui
