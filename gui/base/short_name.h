// Names of modules and operations where there is little room.
#pragma once

#include <QFontMetrics>
#include <QString>

namespace shardscope::gui {

/// The name in at most `most` characters: without its outer modules as far as needed, as
/// "c_fc linear_forward" of "transformer.h.0.mlp.c_fc linear_forward" and "gather:h.0" of
/// "gather:transformer.h.0"; a number stays with what it counts. Where that is too long, the
/// operator becomes "fwd" or "bwd" ("c_fc bwd"), then the innermost module stays alone ("c_fc",
/// "h.0"), and what is still too long is cut behind an ellipsis.
QString short_name(const QString& name, qsizetype most);

/// The name in at most `width` pixels. `common` is what this name and its neighbours begin with.
/// Where the name is too wide, an ellipsis replaces `common`; what is still too wide is cut in its
/// middle.
QString elided_name(const QString& name, const QString& common, const QFontMetrics& metrics,
                    int width);

}  // namespace shardscope::gui
