#include "gui/window/reading_again.h"

#include <utility>

#include "gui/data/open_imported.h"
#include "gui/window/opening.h"

namespace shardscope::gui {
namespace {

bool has_foreign_trace(const ScenarioPointer& scenario) {
  return scenario != nullptr && scenario->profiled && !scenario->profiled->imported.empty();
}

bool has_prediction(const ScenarioPointer& scenario) {
  return scenario != nullptr && scenario->predicted && scenario->predicted->has_trace();
}

}  // namespace

ReadingAgain::ReadingAgain(Workspace& workspace, Opening& opening, QObject* parent)
    : QObject(parent), workspace_(workspace), opening_(opening), watch_(workspace) {
  connect(&watch_, &FileWatch::changed, this, &ReadingAgain::note_change);
  connect(&watch_, &FileWatch::gone, this, &ReadingAgain::note_gone);
}

void ReadingAgain::note_change(const ScenarioPointer& scenario, bool is_running) {
  if (is_running) return opening_.open(scenario->path);
  const bool is_new = changed_.insert(scenario->path).second;
  if (is_new)
    Q_EMIT told(tr("%1 has changed on disk; F5 reads it again")
                    .arg(QString::fromStdString(scenario->path.string())));
}

void ReadingAgain::note_gone(const ScenarioPointer& scenario) {
  Q_EMIT told(tr("%1: files of it are gone; what was read stays until it is closed")
                  .arg(QString::fromStdString(scenario->path.string())));
}

void ReadingAgain::read_again() {
  for (const std::filesystem::path& path : std::exchange(changed_, {})) opening_.open(path);
}

void ReadingAgain::lay_beside_b() {
  workspace_.tasks().run(
      this,
      [a = workspace_.a(), b = workspace_.b()](std::stop_token stop) {
        return lay_beside(*a, *b, stop);
      },
      [this](const ScenarioPointer& laid) { workspace_.add(laid); });
}

std::vector<Command> ReadingAgain::commands() {
  return {
      {.group = tr("File"),
       .text = tr("Read changed files again"),
       .keys = {Qt::Key_F5},
       .run = [this] { read_again(); },
       .is_enabled = [this] { return has_changes(); }},
      {.group = tr("Compare"),
       .text = tr("Lay the trace of A beside the prediction of B"),
       .run = [this] { lay_beside_b(); },
       .is_enabled =
           [this] { return has_foreign_trace(workspace_.a()) && has_prediction(workspace_.b()); }}};
}

}  // namespace shardscope::gui
