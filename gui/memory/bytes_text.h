// Bytes as people read them.
#pragma once

#include <QString>

#include "core/base/quantities.h"

namespace shardscope::gui {

/// To the byte: "47,185,920 B".
QString exact_bytes(Bytes bytes);
/// With its sign: "+1,024 B", "0 B".
QString signed_bytes(Bytes bytes);
/// "45 MiB".
QString rounded_bytes(Bytes bytes);
/// "+3.2%"; "" where there is nothing to compare with.
QString signed_share(Bytes difference, Bytes of);

}  // namespace shardscope::gui
