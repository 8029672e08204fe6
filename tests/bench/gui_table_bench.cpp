// How long a table of a million rows takes to be sorted and filtered, and how long the thread that
// draws is kept from drawing meanwhile.
#include <benchmark/benchmark.h>

#include <QApplication>
#include <QElapsedTimer>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gui/data/row_filter.h"
#include "gui/data/sort_rows.h"
#include "gui/table/column_table_model.h"
#include "gui/table/table_pane.h"

namespace shardscope::gui {
namespace {

constexpr std::size_t million = 1'000'000;

/// Well mixed, and the same on every machine.
std::uint64_t mixed(std::uint64_t i) {
  i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9u;
  i = (i ^ (i >> 27)) * 0x94d049bb133111ebu;
  return i ^ (i >> 31);
}

/// A million rows: durations of up to a second, and 10,000 names.
const ColumnTablePointer& million_rows() {
  static const ColumnTablePointer table = [] {
    auto made = std::make_shared<ColumnTable>();
    made->rows = million;
    Column name{.id = "name", .title = "Name"};
    std::vector<std::string> names;
    for (int i = 0; i < 10'000; ++i)
      names.push_back("layers." + std::to_string(i) + " linear_forward");
    std::vector<std::uint32_t> name_of_row;
    Column duration{
        .id = "duration", .title = "Duration", .quantity = Quantity::duration, .numbers = {}};
    for (std::size_t i = 0; i < million; ++i) {
      name_of_row.push_back(static_cast<std::uint32_t>(mixed(i) % names.size()));
      duration.numbers.push_back(static_cast<double>(mixed(i + million) % 1'000'000'000));
    }
    set_texts(name, names, std::move(name_of_row));
    made->columns = {std::move(name), std::move(duration)};
    set_units(*made);
    return made;
  }();
  return table;
}

void sort_a_million_rows(benchmark::State& state) {
  const Column& column = million_rows()->columns[static_cast<std::size_t>(state.range(0))];
  for (auto _ : state)
    benchmark::DoNotOptimize(sorted_rows(column, all_rows(million), SortOrder::descending));
}
BENCHMARK(sort_a_million_rows)->ArgName("by_number")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void filter_a_million_rows(benchmark::State& state) {
  const ColumnTable& table = *million_rows();
  for (auto _ : state)
    benchmark::DoNotOptimize(filtered_rows(
        table, parse_filter("name:layers.77 duration>1ms", table), all_rows(million), {}));
}
BENCHMARK(filter_a_million_rows)->Unit(benchmark::kMillisecond);

/// A click on a header until the new order is on the screen; `ui_blocked_ms` is the longest time
/// that events had to wait.
void sort_a_million_rows_on_screen(benchmark::State& state) {
  qputenv("QT_QPA_PLATFORM", "offscreen");
  int argc = 0;
  QApplication application(argc, nullptr);
  Tasks tasks;
  ColumnTableModel model(tasks);
  TablePane pane(model, "rows", nullptr);
  pane.resize(1280, 720);
  pane.show();
  model.show(million_rows());
  tasks.wait_until_idle(60'000);
  QApplication::processEvents();
  double longest_ms = 0;
  const auto measured = [&](auto work) {
    QElapsedTimer timer;
    timer.start();
    work();
    longest_ms = std::max(longest_ms, static_cast<double>(timer.nsecsElapsed()) * 1e-6);
  };
  bool is_arranged = false;
  QObject::connect(&model, &ColumnTableModel::arranged, [&] { is_arranged = true; });
  auto order = Qt::AscendingOrder;
  for (auto _ : state) {
    is_arranged = false;
    order = order == Qt::AscendingOrder ? Qt::DescendingOrder : Qt::AscendingOrder;
    measured([&] { model.sort(1, order); });
    while (!is_arranged) measured([] { QApplication::processEvents(); });
    measured([] { QApplication::processEvents(); });
  }
  state.counters["ui_blocked_ms"] = longest_ms;
}
BENCHMARK(sort_a_million_rows_on_screen)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace shardscope::gui
