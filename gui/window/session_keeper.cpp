#include "gui/window/session_keeper.h"

#include <QFileDialog>
#include <QMainWindow>
#include <algorithm>
#include <system_error>
#include <utility>

#include "gui/window/opening.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;

fs::path whole(const fs::path& path) {
  std::error_code ignored;
  return fs::absolute(path, ignored).lexically_normal();
}

ScenarioPointer at_path(const Workspace& workspace, const std::optional<fs::path>& path) {
  if (!path) return nullptr;
  const auto& all = workspace.scenarios();
  const auto same = std::find_if(all.begin(), all.end(), [&](const ScenarioPointer& scenario) {
    return !scenario->path.empty() && whole(scenario->path) == whole(*path);
  });
  return same == all.end() ? nullptr : *same;
}

QString session_filter() {
  return SessionKeeper::tr("Sessions (*%1)")
      .arg(QString::fromUtf8(session_suffix.data(), static_cast<qsizetype>(session_suffix.size())));
}

}  // namespace

SessionKeeper::SessionKeeper(Workspace& workspace, Opening& opening, QMainWindow& window,
                             Appearances appearances)
    : QObject(&window),
      workspace_(workspace),
      opening_(opening),
      window_(window),
      appearances_(std::move(appearances)) {
  connect(&opening_, &Opening::progressed, this, &SessionKeeper::show_when_open);
}

void SessionKeeper::open(const fs::path& file) {
  file_ = whole(file);
  workspace_.tasks().run(
      this, [file](std::stop_token) { return read_session(file); },
      [this](const ReadSession& read) { start(read); });
}

void SessionKeeper::start(const ReadSession& read) {
  for (const std::string& complaint : read.complaints)
    Q_EMIT told(QString::fromStdString(complaint));
  wanted_ = read.session;
  notes_ = read.session.notes;
  for (const fs::path& path : read.session.open) opening_.open(path);
  if (read.session.open.empty()) show_when_open();
}

void SessionKeeper::show_when_open() {
  if (!wanted_ || !opening_.idle()) return;
  // What was read last joins the workspace after this signal.
  QMetaObject::invokeMethod(
      this,
      [this] {
        if (wanted_ && opening_.idle()) show(*std::exchange(wanted_, std::nullopt));
      },
      Qt::QueuedConnection);
}

void SessionKeeper::show(const Session& session) {
  if (session.appearance) appearances_.set(*session.appearance);
  if (!session.layout.empty() &&
      !window_.restoreState(QByteArray::fromBase64(QByteArray::fromStdString(session.layout))))
    Q_EMIT told(tr("%1: its layout is of another version of the window, and was passed over")
                    .arg(QString::fromStdString(file_.string())));
  if (const ScenarioPointer a = at_path(workspace_, session.a)) workspace_.set_a(a);
  if (const ScenarioPointer b = at_path(workspace_, session.b)) workspace_.set_b(b);
  if (session.time_mode) workspace_.set_time_mode(*session.time_mode);
  // Times are those of the axis, which begins with the step once that is measured.
  if (session.step && workspace_.step() != session.step) {
    connect(
        &workspace_, &Workspace::axis_changed, this, [this, session] { show_times(session); },
        static_cast<Qt::ConnectionType>(Qt::QueuedConnection | Qt::SingleShotConnection));
    workspace_.set_step(session.step);
  } else {
    show_times(session);
  }
  // A note is of the scenario that was opened by its path, however that is written.
  std::vector<TimeNote> notes = session.time_notes;
  for (TimeNote& note : notes)
    if (const ScenarioPointer of = at_path(workspace_, note.scenario)) note.scenario = of->path;
  workspace_.set_notes(std::move(notes));
}

void SessionKeeper::show_times(const Session& session) {
  if (session.visible) workspace_.show(*session.visible);
  Cursors cursors;
  cursors.a = session.cursor_a;
  cursors.b = session.cursor_b;
  cursors.range = session.cursor_range;
  workspace_.set_cursors(cursors);
}

Session SessionKeeper::session() const {
  Session session;
  for (const ScenarioPointer& scenario : workspace_.scenarios())
    if (!scenario->path.empty()) session.open.push_back(whole(scenario->path));
  const auto path_of = [](const ScenarioPointer& scenario) -> std::optional<fs::path> {
    if (scenario == nullptr || scenario->path.empty()) return std::nullopt;
    return whole(scenario->path);
  };
  session.a = path_of(workspace_.a());
  session.b = path_of(workspace_.b());
  session.time_mode = workspace_.time_mode();
  session.step = workspace_.step();
  if (workspace_.visible().length() > 0) session.visible = workspace_.visible();
  session.cursor_a = workspace_.cursors().a;
  session.cursor_b = workspace_.cursors().b;
  session.cursor_range = workspace_.cursors().range;
  session.layout = window_.saveState().toBase64().toStdString();
  session.appearance = appearances_.now();
  session.notes = notes_;
  session.time_notes = workspace_.notes();
  for (TimeNote& note : session.time_notes) note.scenario = whole(note.scenario);
  return session;
}

void SessionKeeper::save(const fs::path& file) {
  const auto lost =
      std::count_if(workspace_.scenarios().begin(), workspace_.scenarios().end(),
                    [](const ScenarioPointer& scenario) { return scenario->path.empty(); });
  if (lost > 0)
    Q_EMIT told(tr("%n scenarios of What-if lie in no file and are not in the session", nullptr,
                   static_cast<int>(lost)));
  workspace_.tasks().run(
      this,
      [session = session(), file = whole(file)](std::stop_token) {
        write_session(session, file);
        return file;
      },
      [this](const fs::path& written) {
        file_ = written;
        Q_EMIT saved(written);
      });
}

std::vector<Command> SessionKeeper::commands() {
  const QString group = tr("File");
  return {{.group = group,
           .text = tr("Save session..."),
           .keys = {QKeySequence::Save},
           .run = [this] { ask_where_to_save(); },
           .is_enabled = [this] { return !workspace_.scenarios().empty(); }},
          {.group = group, .text = tr("Open session..."), .run = [this] { ask_what_to_open(); }}};
}

QString SessionKeeper::proposed_name() const {
  if (!file_.empty()) return QString::fromStdString(file_.string());
  const auto& all = workspace_.scenarios();
  fs::path folder =
      all.empty() || all.front()->path.empty() ? fs::path(".") : whole(all.front()->path);
  const std::string name = folder.filename().string() + std::string(session_suffix);
  return QString::fromStdString((folder.parent_path() / name).string());
}

void SessionKeeper::ask_where_to_save() {
  QString name =
      QFileDialog::getSaveFileName(&window_, tr("Save session"), proposed_name(), session_filter());
  if (name.isEmpty()) return;
  fs::path file = name.toStdString();
  if (!is_session_file(file)) file += session_suffix;
  save(file);
}

void SessionKeeper::ask_what_to_open() {
  const QString name =
      QFileDialog::getOpenFileName(&window_, tr("Open session"), proposed_name(), session_filter());
  if (!name.isEmpty()) open(name.toStdString());
}

}  // namespace shardscope::gui
