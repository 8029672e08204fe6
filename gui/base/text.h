// Text of the rooms without Qt as Qt has it.
#pragma once

#include <QString>
#include <string_view>

namespace shardscope::gui {

inline QString text_of(std::string_view text) {
  return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

}  // namespace shardscope::gui
