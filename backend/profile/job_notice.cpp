#include "backend/profile/job_notice.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "backend/watch/process_identity.h"
#include "core/error.h"
#include "core/format/atomic_file.h"
#include "core/format/json_reader.h"
#include "core/format/json_string.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t largest_notice_bytes = 1 << 16;
constexpr std::int64_t most_window_steps = 1000;

fs::path notice_path(const fs::path& folder) { return folder / "running.json"; }
fs::path request_path(const fs::path& folder) { return folder / "profile.request"; }

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string to_json(const std::optional<WindowNotice>& window) {
  if (!window) return "null";
  std::string failed;
  append_json_string(failed, window->failed);
  return fmt::format(R"({{"request": "{}", "first_step": {}, "last_step": {}, "failed": {}}})",
                     window->request, window->steps.first, window->steps.last, failed);
}

WindowNotice window_of(const JsonValue& value) {
  return {.request = value.at("request").string(),
          .steps = {.first = value.at("first_step").integer(1),
                    .last = value.at("last_step").integer(1)},
          .failed = value.at("failed").string()};
}

}  // namespace

JobNotice own_notice(std::int64_t steps) {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return {.process = own_identity(), .host = name, .steps = steps, .window = {}, .refused = {}};
}

fs::path folder_of_window(const fs::path& run_folder, StepRange steps) {
  return run_folder / "profiles" / fmt::format("{}-{}", steps.first, steps.last);
}

std::string to_json(const JobNotice& notice) {
  return fmt::format(
      R"({{"schema": "shardscope.running/1", "process": "{}", "host": "{}", "steps": {}, "window": {}, "refused": "{}"}})"
      "\n",
      notice.process, notice.host, notice.steps, to_json(notice.window), notice.refused);
}

std::optional<JobNotice> read_notice(const fs::path& run_folder) {
  const fs::path path = notice_path(run_folder);
  if (!is_there(path)) return std::nullopt;
  const JsonValue file = JsonValue::read_file(path, DuplicateKeys::refuse, largest_notice_bytes);
  JobNotice notice{.process = file.at("process").string(),
                   .host = file.at("host").string(),
                   .steps = file.at("steps").integer(0),
                   .window = {},
                   .refused = file.at("refused").string()};
  if (const auto window = file.find("window")) notice.window = window_of(*window);
  return notice;
}

bool leave_request(const fs::path& run_folder, const WindowRequest& request) {
  const fs::path path = request_path(run_folder);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wxe"),
                                                             &std::fclose);
  if (!file && is_there(path)) return false;
  if (!file) {
    throw Error({.where = path.string(),
                 .what = "cannot be written",
                 .way_out = "ask as the user who trains, or send SIGUSR1 to a rank",
                 .code = ExitCode::outside});
  }
  fmt::print(file.get(), "{{\"id\": \"{}\", \"steps\": {}}}\n", request.id, request.steps);
  return true;
}

std::optional<WindowRequest> take_request(const fs::path& run_folder) {
  const fs::path path = request_path(run_folder);
  if (!is_there(path)) return std::nullopt;
  std::optional<WindowRequest> request;
  try {
    const JsonValue file = JsonValue::read_file(path, DuplicateKeys::refuse, largest_notice_bytes);
    request = {.id = file.at("id").string(),
               .steps = static_cast<int>(file.at("steps").integer(1, most_window_steps))};
  } catch (const Error& error) {
    fmt::print(stderr, "a request for a window is not followed: {}\n", error.what());
  }
  std::error_code ignored;
  fs::remove(path, ignored);
  return request;
}

JobNoticeFile::JobNoticeFile(fs::path run_folder, JobNotice notice)
    : folder_(std::move(run_folder)), notice_(std::move(notice)) {
  std::error_code ignored;
  fs::remove(request_path(folder_), ignored);
  write();
}

JobNoticeFile::~JobNoticeFile() {
  std::error_code ignored;
  fs::remove(notice_path(folder_), ignored);
  fs::remove(request_path(folder_), ignored);
}

void JobNoticeFile::show(const WindowNotice& window) {
  notice_.window = window;
  write();
}

void JobNoticeFile::refuse(const std::string& request) {
  notice_.refused = request;
  write();
}

void JobNoticeFile::write() {
  try {
    write_atomically(notice_path(folder_), to_json(notice_));
  } catch (const Error& error) {
    if (!told_) fmt::print(stderr, "whoever asks for windows is not answered: {}\n", error.what());
    told_ = true;
  }
}

}  // namespace shardscope
