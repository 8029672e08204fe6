#include "gui/window/opening.h"

#include <algorithm>
#include <exception>
#include <iterator>
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

/// Null: none.
ScenarioPointer with_path(const std::vector<ScenarioPointer>& all,
                          const std::filesystem::path& path) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& one) { return one->path == path; });
  return found == all.end() ? nullptr : *found;
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
    file->deliver = [this, path, result](const File& of) {
      for (const ScenarioPointer& scenario : result.scenarios) workspace_.add(scenario);
      withdraw_figures(of, result.scenarios);
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
  std::vector<FilePointer> unread;
  std::copy_if(files_.begin(), files_.end(), std::back_inserter(unread), is_unread);
  std::erase_if(files_, is_unread);
  for (const FilePointer& file : unread) {
    file->stop.request_stop();
    withdraw_figures(*file, {});
  }
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
  file->figures = figures;
  for (const ScenarioPointer& scenario : figures) {
    if (const auto before = with_path(workspace_.scenarios(), scenario->path))
      file->replaced.push_back(before);
    workspace_.add(scenario);
  }
}

void Opening::withdraw_figures(const File& file, const std::vector<ScenarioPointer>& read) {
  for (const ScenarioPointer& figures : file.figures) {
    if (with_path(read, figures->path)) continue;
    const ScenarioPointer shown = with_path(workspace_.scenarios(), figures->path);
    if (!shown) continue;  // it was closed meanwhile
    if (const ScenarioPointer before = with_path(file.replaced, figures->path))
      workspace_.add(before);
    else
      workspace_.remove(shown);
  }
}

void Opening::deliver_in_order() {
  while (!files_.empty() && files_.front()->deliver) {
    const FilePointer next = files_.front();
    files_.erase(files_.begin());
    Q_EMIT progressed();
    next->deliver(*next);
  }
  Q_EMIT progressed();
}

}  // namespace shardscope::gui
