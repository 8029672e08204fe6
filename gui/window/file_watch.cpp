#include "gui/window/file_watch.h"

#include <utility>

namespace shardscope::gui {
namespace {

constexpr int interval_ms = 3000;

std::vector<std::filesystem::path> paths_of(const std::vector<FileStamp>& stamps) {
  std::vector<std::filesystem::path> paths;
  for (const FileStamp& stamp : stamps) paths.push_back(stamp.path);
  return paths;
}

}  // namespace

FileWatch::FileWatch(Workspace& workspace, QObject* parent)
    : QObject(parent), workspace_(workspace) {
  timer_.setInterval(interval_ms);
  connect(&timer_, &QTimer::timeout, this, &FileWatch::look);
  connect(&workspace_, &Workspace::scenarios_changed, this, &FileWatch::look);
}

void FileWatch::start() { timer_.start(); }

void FileWatch::look() {
  if (!tasks_.idle()) return;
  tasks_.run(
      this,
      [scenarios = workspace_.scenarios(), seen = seen_](std::stop_token stop) {
        std::vector<Look> looks;
        for (const ScenarioPointer& scenario : scenarios) {
          if (stop.stop_requested()) break;
          // Which files they are is decided while they are there.
          const auto known = seen.find(scenario);
          std::vector<FileStamp> stamps = stamps_of(
              known == seen.end() ? watched_files(*scenario) : paths_of(known->second.read));
          if (!stamps.empty())
            looks.push_back({scenario, std::move(stamps), is_job_running(scenario->path)});
        }
        return looks;
      },
      [this](const std::vector<Look>& looks) { compare(looks); });
}

void FileWatch::compare(const std::vector<Look>& looks) {
  std::map<ScenarioPointer, Seen> next;
  std::vector<std::pair<const Look*, FileChange>> told;
  for (const Look& look : looks) {
    const auto known = seen_.find(look.scenario);
    Seen& seen = next[look.scenario];
    if (known == seen_.end()) {
      seen = {.read = look.stamps, .last = look.stamps};
      continue;
    }
    const FileChange change = change_between(known->second.read, look.stamps);
    const bool is_settled = known->second.last == look.stamps;
    seen = {.read = known->second.read, .last = look.stamps};
    if (change == FileChange::none || !is_settled) continue;
    seen.read = look.stamps;
    told.emplace_back(&look, change);
  }
  seen_ = std::move(next);
  for (const auto& [look, change] : told) {
    if (change == FileChange::gone)
      Q_EMIT gone(look->scenario);
    else
      Q_EMIT changed(look->scenario, look->is_running);
  }
}

}  // namespace shardscope::gui
