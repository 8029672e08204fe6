#include "backend/profile/job_notice.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "backend/base/process_identity.h"
#include "backend/profile/window_request.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"
#include "core/format/json_reader.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::int64_t largest_notice_bytes = 1 << 18;

/// In the order of the enumerators.
constexpr std::array<std::string_view, 3> job_states{"starting", "running", "ended"};
constexpr std::array<std::string_view, 4> window_states{"refused", "open", "closed", "failed"};

fs::path notice_path(const fs::path& folder) { return folder / "running.json"; }

template <class State, std::size_t Count>
State state_of(const JsonValue& value, const std::array<std::string_view, Count>& names) {
  const auto found = std::ranges::find(names, value.string());
  if (found == names.end())
    throw value.error(fmt::format("expected one of {}", fmt::join(names, ", ")));
  return static_cast<State>(found - names.begin());
}

Json to_object(const WindowAnswer& answer) {
  return {{"request", answer.request},
          {"state", window_states[static_cast<std::size_t>(answer.state)]},
          {"first_step", answer.steps.first},
          {"last_step", answer.steps.last},
          {"reason", answer.reason}};
}

WindowAnswer answer_of(const JsonValue& value) {
  return {.request = value.at("request").string(),
          .state = state_of<WindowState>(value.at("state"), window_states),
          .steps = {.first = value.at("first_step").integer(0),
                    .last = value.at("last_step").integer(0)},
          .reason = value.at("reason").string()};
}

JobNotice read_file(const fs::path& path) {
  const JsonValue file = JsonValue::read_file(path, DuplicateKeys::refuse, largest_notice_bytes);
  JobNotice notice{.state = state_of<JobState>(file.at("state"), job_states),
                   .process = file.at("process").string(),
                   .host = file.at("host").string(),
                   .steps = file.at("steps").integer(0),
                   .answers = {}};
  for (const JsonValue& answer : file.at("answers").elements())
    notice.answers.push_back(answer_of(answer));
  return notice;
}

}  // namespace

const WindowAnswer* JobNotice::answer_to(const std::string& request) const {
  const auto found = std::ranges::find(answers, request, &WindowAnswer::request);
  return found == answers.end() ? nullptr : &*found;
}

JobNotice own_notice(std::int64_t steps) {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return {.process = own_identity(), .host = name, .steps = steps, .answers = {}};
}

fs::path folder_of_window(const fs::path& run_folder, StepRange steps) {
  return run_folder / "profiles" / fmt::format("{}-{}", steps.first, steps.last);
}

std::string to_json(const JobNotice& notice) {
  Json answers = Json::array();
  for (const WindowAnswer& answer : notice.answers) answers.push_back(to_object(answer));
  const Json json{{"schema", "shardscope.running/1"},
                  {"state", job_states[static_cast<std::size_t>(notice.state)]},
                  {"process", notice.process},
                  {"host", notice.host},
                  {"steps", notice.steps},
                  {"answers", std::move(answers)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<JobNotice> read_notice(const fs::path& run_folder) {
  const fs::path path = notice_path(run_folder);
  if (!is_there(path)) return std::nullopt;
  try {
    return read_file(path);
  } catch (const Error&) {
    if (is_there(path)) throw;
    return std::nullopt;  // the job has ended in between
  }
}

JobNoticeFile::JobNoticeFile(fs::path run_folder, JobNotice notice)
    : folder_(std::move(run_folder)), notice_(std::move(notice)) {
  drop_requests(folder_);
  write();
}

JobNoticeFile::~JobNoticeFile() {
  drop_requests(folder_);
  std::error_code ignored;
  if (notice_.answers.empty()) {
    fs::remove(notice_path(folder_), ignored);
    return;
  }
  notice_.state = JobState::ended;
  for (WindowAnswer& answer : notice_.answers) {
    if (answer.state != WindowState::open) continue;
    answer.state = WindowState::failed;
    answer.reason = "the job ended before its steps were done";
  }
  write();
}

void JobNoticeFile::open(const std::string& request, StepRange steps) {
  add({.request = request, .state = WindowState::open, .steps = steps, .reason = {}});
}

void JobNoticeFile::refuse(const std::string& request, const std::string& reason) {
  add({.request = request, .state = WindowState::refused, .steps = {}, .reason = reason});
}

void JobNoticeFile::close(StepRange steps) {
  WindowAnswer* window = window_from(steps.first);
  if (!window) return;
  window->state = WindowState::closed;
  window->steps = steps;
  write();
}

void JobNoticeFile::fail(StepRange steps, const std::string& reason) {
  WindowAnswer* window = window_from(steps.first);
  if (!window) return;
  window->state = WindowState::failed;
  window->reason = reason;
  write();
}

void JobNoticeFile::add(WindowAnswer answer) {
  std::vector<WindowAnswer>& answers = notice_.answers;
  if (answers.size() == kept_answers) answers.erase(answers.begin());
  answers.push_back(std::move(answer));
  write();
}

WindowAnswer* JobNoticeFile::window_from(std::int64_t first_step) {
  const auto found = std::ranges::find_if(notice_.answers, [&](const WindowAnswer& answer) {
    return answer.state != WindowState::refused && answer.steps.first == first_step;
  });
  return found == notice_.answers.end() ? nullptr : &*found;
}

void JobNoticeFile::write() {
  try {
    write_atomically(notice_path(folder_), to_json(notice_));
  } catch (const Error& error) {
    if (!told_) fmt::print(stderr, "whoever asks for windows is not answered: {}\n", error.what());
    told_ = true;
  }
}

StartingNotice::StartingNotice(fs::path run_folder, std::int64_t steps)
    : folder_(std::move(run_folder)) {
  JobNotice notice = own_notice(steps);
  notice.state = JobState::starting;
  write_atomically(notice_path(folder_), to_json(notice));
}

StartingNotice::~StartingNotice() {
  try {
    const std::optional<JobNotice> notice = read_notice(folder_);
    if (!notice || notice->state != JobState::starting) return;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  std::error_code ignored;
  fs::remove(notice_path(folder_), ignored);
}

}  // namespace shardscope
