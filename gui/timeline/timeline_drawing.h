// Small things of the timeline's canvas: labels of rows, texts of what is hovered.
#pragma once

#include <QRectF>
#include <QString>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gui/base/theme.h"
#include "gui/base/workspace.h"
#include "gui/data/time_scale.h"
#include "gui/timeline/span_details.h"
#include "gui/timeline/span_search.h"
#include "gui/timeline/timeline_rows.h"

class QPainter;

namespace shardscope::gui {

QString as_rich_text(const std::vector<SpanDetail>& details);
/// What a ribbon shows at `x`, a label's full text.
QString row_help(const TimelineData& data, const TimelineRow& row, const TimeScale& scale,
                 double x);
void draw_label(QPainter& painter, const Theme& theme, const TimelineRow& row, QRectF where,
                bool is_pinned);
/// From a producer's end to its consumer's begin, around the rows between them.
void draw_arrow(QPainter& painter, const Theme& theme, const QRectF& from, const QRectF& to);
/// One of many arrows, thin; of peers a line between their begins.
void draw_flow(QPainter& painter, const Theme& theme, const QRectF& from, const QRectF& to,
               bool is_peer);
/// What colours and hatches mean, in one line; as wide as it needs.
void draw_legend(QPainter& painter, const Theme& theme, QRectF where);

/// The span that a selection means; none: the timeline does not show it.
std::optional<SpanPlace> place_of_selection(const TimelineData& data, const Selection& selection);
/// The headings that are closed above the span's row.
std::vector<std::string> headings_of(const TimelineData& data, const RowChoices& choices,
                                     const SpanPlace& place);
/// Of all headings of ranks.
std::vector<std::string> rank_keys(const TimelineRows& rows);
/// Those that begin in the range; at most 500, evenly chosen where there are more.
std::vector<SearchHit> hits_in(const std::vector<SearchHit>& hits, TimeRange range);

}  // namespace shardscope::gui
