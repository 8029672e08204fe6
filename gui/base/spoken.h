// What a picture says to a screen reader.
#pragma once

#include <QWidget>

namespace shardscope::gui {

/// From now on each QStackedWidget is told as a panel with the page that is shown. To be called
/// before such widgets are made.
void speak_of_pages();

/// To be called first where the picture is made: Qt keeps what it finds when a name is set.
void let_speak(QWidget& picture);

/// Makes `text` the picture's description. Where the picture has the focus, the text is said at
/// once: an item with that name takes the focus of AT-SPI, as a row of a list would. Descriptions
/// that change are not said: Qt 6.4 sends Orca 43 the object in the place of the text.
void say(QWidget& picture, const QString& text);

}  // namespace shardscope::gui
