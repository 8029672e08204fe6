// The first column of a table, which holds names, takes the width that the others leave.
#pragma once

class QTableView;

namespace shardscope::gui {

/// Never below `least` pixels: then the table scrolls. A user who drags the column keeps its width.
void widen_names(QTableView& table, int least);

}  // namespace shardscope::gui
