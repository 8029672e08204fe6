// A view with its table beneath it, for whoever prefers rows to pictures.
#pragma once

#include <QSplitter>

#include "gui/base/view.h"

class QAbstractItemView;

namespace shardscope::gui {

class ViewPane : public QSplitter {
  Q_OBJECT
 public:
  ViewPane(View* view, QWidget* parent);

  View* view() const { return view_; }
  bool shows_table() const;
  void show_table(bool shown);

 private:
  View* view_;
  QAbstractItemView* table_ = nullptr;  ///< made when it is first wanted
};

}  // namespace shardscope::gui
