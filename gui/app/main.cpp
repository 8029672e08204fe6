// shardscope-gui: the desktop application.
#include <fmt/format.h>

#include <QApplication>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/version.h"
#include "gui/app/command_line.h"
#include "gui/app/write_views.h"
#include "gui/base/theme.h"
#include "gui/data/new_comparison.h"
#include "gui/window/main_window.h"

namespace shardscope::gui {
namespace {

void say(std::FILE* stream, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  if (std::fflush(stream) == 0 || stream == stderr) return;
  throw Error({.where = "standard output",
               .what = "cannot be written",
               .way_out = "free space there",
               .code = ExitCode::outside});
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

/// Before the application object is made, which ends the program where there is no display.
void choose_platform(const GuiArguments& line) {
  if (is_set("QT_QPA_PLATFORM")) return;
  if (line.export_request) {
    ::setenv("QT_QPA_PLATFORM", "offscreen", 1);
  } else if (!is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY")) {
    throw Error({.where = "display",
                 .what = "neither DISPLAY nor WAYLAND_DISPLAY is set",
                 .way_out = "--export all -o FOLDER writes pictures without one",
                 .code = ExitCode::outside});
  }
}

/// Remarks of Qt about the platform are no business of a script's.
void keep_failures_only(QtMsgType type, const QMessageLogContext&, const QString& message) {
  if (type == QtCriticalMsg || type == QtFatalMsg) say(stderr, message.toStdString() + "\n");
}

void name(QApplication& application) {
  const std::string_view version = program_version();
  application.setApplicationName(QStringLiteral("shardscope-gui"));
  application.setApplicationDisplayName(QStringLiteral("Shardscope"));
  application.setApplicationVersion(
      QString::fromUtf8(version.data(), static_cast<qsizetype>(version.size())));
  application.setDesktopFileName(QStringLiteral("shardscope-gui"));
  application.setWindowIcon(QIcon::fromTheme(QStringLiteral("shardscope-gui")));
}

/// A file that the window asks for more about.
void refuse_question(const std::filesystem::path& file) {
  if (comparison_of(file))
    throw Error({.where = file.string(),
                 .what = "does not say all that a prediction needs, and --export asks nothing",
                 .way_out = "run `shardscope simulate` with it and -o FOLDER, then export FOLDER"});
}

ExitCode write_pictures(const GuiArguments& line) {
  for (const auto& file : line.files) refuse_question(file);
  MainWindow window;
  window.set_appearance(line.appearance.value_or(AppearanceChoice::light));
  QString failure;
  QObject::connect(&window, &MainWindow::failed, [&](const QString& message) {
    if (failure.isEmpty()) failure = message;
  });
  for (const auto& file : line.files) window.open(file);
  window.compare(line.a, line.b);
  const auto written = write_views(window, *line.export_request, [&] {
    if (!failure.isEmpty()) throw Error({.what = failure.toStdString()});
  });
  for (const auto& path : written) say(stdout, path.string() + "\n");
  return ExitCode::done;
}

ExitCode show_window(const GuiArguments& line) {
  MainWindow window;
  window.set_appearance(line.appearance.value_or(WindowSettings().appearance()));
  window.restore();
  window.show();
  for (const auto& file : line.files) window.open(file);
  window.compare(line.a, line.b);
  QApplication::exec();
  return ExitCode::done;
}

ExitCode run(int argc, char** argv) {
  const GuiArguments line = parse_command_line({argv + std::min(argc, 1), argv + argc});
  if (line.help) return say(stdout, command_line_help()), ExitCode::done;
  if (line.version)
    return say(stdout, fmt::format("shardscope-gui {}\n", program_version())), ExitCode::done;
  choose_platform(line);
  if (line.export_request) qInstallMessageHandler(keep_failures_only);
  int one = 1;  // what follows is ours, and no option of Qt's
  QApplication application(one, argv);
  name(application);
  return line.export_request ? write_pictures(line) : show_window(line);
}

ExitCode run_or_complain(int argc, char** argv) {
  const auto complain = [](std::string_view what, ExitCode code) {
    say(stderr, fmt::format("shardscope-gui: {}\n", what));
    return code;
  };
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    return complain(error.what(), error.code());
  } catch (const std::bad_alloc&) {
    return complain("out of memory; open fewer runs or ranks, or write smaller pictures",
                    ExitCode::outside);
  } catch (const std::exception& error) {
    return complain(
        fmt::format("unexpected failure: {}; please report it with the command line", error.what()),
        ExitCode::outside);
  }
}

}  // namespace
}  // namespace shardscope::gui

// NOLINTNEXTLINE(bugprone-exception-escape): only where not even the failure can be told
int main(int argc, char** argv) {
  return static_cast<int>(shardscope::gui::run_or_complain(argc, argv));
}
