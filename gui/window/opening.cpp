#include "gui/window/opening.h"

#include <algorithm>
#include <exception>
#include <new>
#include <string>

#include "gui/data/open_scenarios.h"

namespace shardscope::gui {
namespace {

struct Result {
  std::vector<ScenarioPointer> scenarios;
  QString failure;  ///< empty: none
};

Result result_of(const std::filesystem::path& path, const Opening::Read& read,
                 const OpenOptions& options) {
  try {
    return {.scenarios = read(options)};
  } catch (const std::bad_alloc&) {
    return {.failure = Opening::tr("%1: out of memory; close other runs, or open fewer ranks")
                           .arg(QString::fromStdString(path.string()))};
  } catch (const std::exception& error) {
    return {.failure = QString::fromUtf8(error.what())};
  }
}

}  // namespace

Opening::Opening(Workspace& workspace, QObject* parent) : QObject(parent), workspace_(workspace) {}

void Opening::open(const std::filesystem::path& path) {
  open(path, [path](const OpenOptions& options) { return open_scenarios(path, options); });
}

void Opening::open(const std::filesystem::path& path, const Read& read) {
  const auto file = std::make_shared<File>();
  file->what = QString::fromStdString(path.string());
  files_.push_back(file);
  Tasks& tasks = workspace_.tasks();
  const auto work = [&tasks, here = QPointer<Opening>(this), file, path,
                     read](std::stop_token stop) {
    const auto tell = [&](double share, const std::string& what) {
      tasks.post([here, file, share, text = QString::fromStdString(what)] {
        if (here) here->show_progress(*file, share, text);
      });
    };
    const auto show = [&](const std::vector<ScenarioPointer>& figures) {
      tasks.post([here, file, stop, figures] {
        if (here && !stop.stop_requested()) here->show_figures(file, figures);
      });
    };
    return result_of(path, read, {.stop = stop, .on_progress = tell, .on_figures = show});
  };
  const auto done = [this, file, path](const Result& result) {
    file->share = 1;
    file->deliver = [this, path, result] {
      for (const ScenarioPointer& scenario : result.scenarios) workspace_.add(scenario);
      if (!result.failure.isEmpty()) return Q_EMIT failed(result.failure);
      Q_EMIT opened(path);
      Q_EMIT was_read(path, result.scenarios);
    };
    deliver_in_order();
  };
  file->stop = tasks.run(this, work, done);
  Q_EMIT progressed();
}

void Opening::cancel() {
  // What is read and only waits for another that is given up is there.
  const auto is_unread = [](const FilePointer& file) { return !file->deliver; };
  for (const FilePointer& file : files_)
    if (is_unread(file)) file->stop.request_stop();
  std::erase_if(files_, is_unread);
  deliver_in_order();
}

double Opening::share() const {
  double sum = 0;
  for (const FilePointer& file : files_) sum += file->share;
  return files_.empty() ? 1 : sum / static_cast<double>(files_.size());
}

QString Opening::what() const { return files_.empty() ? QString() : files_.back()->what; }

void Opening::show_progress(File& file, double share, const QString& what) {
  file.share = std::clamp(share, 0.0, 1.0);
  file.what = what;
  Q_EMIT progressed();
}

void Opening::show_figures(const FilePointer& file, const std::vector<ScenarioPointer>& figures) {
  // What was asked for before comes first.
  if (files_.empty() || files_.front() != file) return;
  for (const ScenarioPointer& scenario : figures) workspace_.add(scenario);
}

void Opening::deliver_in_order() {
  while (!files_.empty() && files_.front()->deliver) {
    const FilePointer next = files_.front();
    files_.erase(files_.begin());
    Q_EMIT progressed();
    next->deliver();
  }
  Q_EMIT progressed();
}

}  // namespace shardscope::gui
