#include "gui/app/write_views.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/nearest_word.h"
#include "core/format/atomic_file.h"
#include "gui/export/export_view.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;

constexpr int patience_ms = 600'000;

Error unknown_view(const MainWindow& window, const std::string& id) {
  std::vector<std::string> ids;
  for (const View* view : window.views()) ids.push_back(view->objectName().toStdString());
  const auto near = nearest_word(id, {ids.begin(), ids.end()});
  return Error({.where = "--export",
                .what = fmt::format("there is no view \"{}\"", id),
                .way_out = near ? fmt::format("did you mean {}?", *near)
                                : fmt::format("give all or some of {}", fmt::join(ids, ","))});
}

std::vector<View*> asked_views(const MainWindow& window, const std::vector<std::string>& ids) {
  if (ids.empty()) return window.views();
  std::vector<View*> views;
  for (const std::string& id : ids) {
    View* view = window.view(QString::fromStdString(id));
    if (view == nullptr) throw unknown_view(window, id);
    views.push_back(view);
  }
  return views;
}

void wait(MainWindow& window) {
  if (window.workspace().tasks().wait_until_idle(patience_ms)) return;
  throw Error({.where = "--export",
               .what = fmt::format("not ready after {} s", patience_ms / 1000),
               .way_out = "open fewer ranks or runs",
               .code = ExitCode::outside});
}

void write(const fs::path& path, const QByteArray& bytes) {
  write_atomically(path,
                   std::string_view(bytes.constData(), static_cast<std::size_t>(bytes.size())));
}

/// The whole window is no view, and a picture only.
bool is_window(const ExportRequest& request) {
  return request.views == std::vector<std::string>{"window"} && !is_table(request.format);
}

fs::path write_window(MainWindow& window, const ExportRequest& request) {
  const QSize size(request.size.width, request.size.height);
  window.show_compared(size);
  wait(window);
  const fs::path path = request.into_folder
                            ? request.output / fmt::format("window.{}", name_of(request.format))
                            : request.output;
  write(path, export_picture(request.format, request.size, window.windowTitle(),
                             [&](QPainter& painter) { window.render(&painter); })());
  return path;
}

}  // namespace

std::vector<fs::path> write_views(MainWindow& window, const ExportRequest& request,
                                  const std::function<void()>& check) {
  const bool all_of_it = is_window(request);
  const std::vector<View*> views =
      all_of_it ? std::vector<View*>() : asked_views(window, request.views);
  wait(window);
  if (check) check();
  if (request.into_folder) create_folder(request.output);
  if (all_of_it) return {write_window(window, request)};
  const auto bring_up = [&](View& view) {
    window.show_alone(&view, QSize(request.size.width, request.size.height));
    wait(window);
  };
  if (!request.into_folder && request.format == ExportFormat::pdf) {
    write(request.output, export_pdf(views, request.size, bring_up));
    return {request.output};
  }
  std::vector<fs::path> written;
  for (View* view : views) {
    bring_up(*view);
    written.push_back(request.into_folder
                          ? request.output / fmt::format("{}.{}", view->objectName().toStdString(),
                                                         name_of(request.format))
                          : request.output);
    write(written.back(), export_view(*view, request.format, request.size)());
  }
  return written;
}

}  // namespace shardscope::gui
