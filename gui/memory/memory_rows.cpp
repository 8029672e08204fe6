#include "gui/memory/memory_rows.h"

#include <QCoreApplication>
#include <algorithm>
#include <cstdlib>

#include "gui/base/text.h"
#include "gui/memory/bytes_text.h"

namespace shardscope::gui {
namespace {

QString tr(const char* text) { return QCoreApplication::translate("memory_rows", text); }

double share_of(Bytes part, Bytes of) {
  return of.count == 0 ? 0 : static_cast<double>(part.count) / static_cast<double>(of.count);
}

CellsModel::Cell bytes_cell(Bytes bytes) {
  return {.text = exact_bytes(bytes),
          .number = static_cast<qlonglong>(bytes.count),
          .tool_tip = rounded_bytes(bytes)};
}

CellsModel::Cell difference_cell(Bytes bytes) {
  return {.text = signed_bytes(bytes), .number = static_cast<qlonglong>(bytes.count)};
}

CellsModel::Cell share_cell(Bytes difference, Bytes of) {
  return {.text = signed_share(difference, of), .number = share_of(difference, of)};
}

CellsModel::Cell bar_cell(Bytes difference, Bytes largest) {
  return {
      .text = {}, .number = share_of(difference, largest), .tool_tip = signed_bytes(difference)};
}

QString band_text(std::size_t band) {
  return QStringLiteral("%1 %2").arg(QLatin1Char(band_letter(band))).arg(text_of(band_name(band)));
}

BandBytes at_peak(const std::optional<MemorySideCurve>& curve) {
  return curve && curve->peak ? curve->levels.levels[*curve->peak].bytes : BandBytes{};
}

CellsModel::Row peak_row(const QString& name, const ScenarioCurves& curves, Bytes predicted,
                         Bytes profiled, Bytes largest) {
  const bool has_both = curves.predicted && curves.profiled;
  const Bytes difference = has_both ? predicted - profiled : Bytes{};
  const CellsModel::Cell none{.text = QStringLiteral("\u2013")};
  return {{.text = name},
          curves.predicted ? bytes_cell(predicted) : none,
          curves.profiled ? bytes_cell(profiled) : none,
          has_both ? difference_cell(difference) : none,
          has_both ? share_cell(difference, profiled) : none,
          bar_cell(difference, largest)};
}

}  // namespace

QStringList peak_header() {
  return {tr("Category"),      tr("\u25bd Predicted"), tr("\u25bc Profiled"),
          tr("Pred. - prof."), tr("Of profiled"),      tr("Predicted less | more")};
}

std::vector<CellsModel::Row> peak_rows(const ScenarioCurves& curves) {
  const BandBytes predicted = at_peak(curves.predicted), profiled = at_peak(curves.profiled);
  const BandBytes difference = predicted - profiled;
  Bytes largest = Bytes{std::abs(difference.total().count)};
  for (const Bytes bytes : difference.by) largest = std::max(largest, Bytes{std::abs(bytes.count)});
  std::vector<CellsModel::Row> rows{
      peak_row(tr("total"), curves, predicted.total(), profiled.total(), largest)};
  for (std::size_t band = 0; band < memory_band_count; ++band)
    if (predicted[band].count != 0 || profiled[band].count != 0)
      rows.push_back(peak_row(band_text(band), curves, predicted[band], profiled[band], largest));
  return rows;
}

QString peak_text(const ScenarioCurves& curves) {
  if (curves.empty()) return tr("There is no memory over time.");
  const Bytes predicted = at_peak(curves.predicted).total();
  const Bytes profiled = at_peak(curves.profiled).total();
  if (!curves.profiled) return tr("Predicted peak: %1.").arg(rounded_bytes(predicted));
  if (!curves.predicted) return tr("Profiled peak: %1.").arg(rounded_bytes(profiled));
  if (predicted == profiled)
    return tr("At its peak each side holds %1: they agree to the byte.").arg(exact_bytes(profiled));
  return tr("Each side at its own peak: %1 predicted, %2 profiled; predicted less profiled %3 (%4 "
            "of profiled).")
      .arg(rounded_bytes(predicted), rounded_bytes(profiled), signed_bytes(predicted - profiled),
           signed_share(predicted - profiled, profiled));
}

QString unmatched_text(const MemoryPicture& picture) {
  QString text;
  const auto add = [&](const QString& name, const std::shared_ptr<const ScenarioCurves>& curves) {
    if (!curves) return;
    for (const SideKind side : curves->unmatched)
      text += tr(" %1's %2 side has nothing of %3.")
                  .arg(name, text_of(name_of(side)), text_of(picture.source->label));
  };
  add(tr("A"), picture.a);
  add(tr("B"), picture.b);
  return text;
}

QStringList change_header() {
  return {tr("Change"), tr("Category"), tr("Unit"), tr("Tensor"), tr("Size"), tr("Freed by")};
}

std::vector<CellsModel::Row> change_rows(const LiveChange& change) {
  std::vector<CellsModel::Row> rows;
  const auto add = [&](const QString& what, const std::vector<LiveBuffer>& buffers) {
    for (const LiveBuffer& buffer : buffers)
      rows.push_back({{.text = what},
                      {.text = band_text(buffer.band)},
                      {.text = text_of(buffer.unit)},
                      {.text = text_of(buffer.name)},
                      bytes_cell(buffer.bytes),
                      {.text = text_of(buffer.freed_by)}});
  };
  add(tr("+ new"), change.fresh);
  add(tr("\u2212 freed"), change.freed);
  add(tr("= common"), change.common);
  return rows;
}

QString change_text(const LiveChange& change) {
  return tr("From A to B: %1 new in %2 buffers, %3 freed in %4, %5 common in %6.")
      .arg(exact_bytes(change.fresh_bytes), QString::number(change.fresh.size()),
           exact_bytes(change.freed_bytes), QString::number(change.freed.size()),
           exact_bytes(change.common_bytes), QString::number(change.common.size()));
}

QStringList unit_header() {
  return {tr("Category"), tr("Unit"), tr("A"), tr("B"), tr("B less A"), tr("B less | more")};
}

std::vector<CellsModel::Row> unit_rows(const std::vector<HeldByUnit>& held) {
  std::vector<CellsModel::Row> rows;
  Bytes largest;
  for (const HeldByUnit& row : held)
    largest = std::max(largest, Bytes{std::abs(row.difference().count)});
  for (const HeldByUnit& row : held)
    rows.push_back({{.text = band_text(row.band)},
                    {.text = row.is_listed ? text_of(row.unit) : tr("no record of buffers")},
                    bytes_cell(row.a),
                    bytes_cell(row.b),
                    difference_cell(row.difference()),
                    bar_cell(row.difference(), largest)});
  return rows;
}

}  // namespace shardscope::gui
