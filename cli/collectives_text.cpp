#include "cli/collectives_text.h"

#include <fmt/format.h>

#include "cli/table.h"
#include "core/base/quantities.h"

namespace shardscope {
namespace {

std::string way_text(const CollectiveSummary& collective) {
  if (collective.algorithm.empty()) return collective.protocol;
  return fmt::format("{} {}, {} channel{}", collective.algorithm, collective.protocol,
                     collective.channels, collective.channels == 1 ? "" : "s");
}

}  // namespace

std::string collectives_text(const Summary& summary, const Painter& painter) {
  if (summary.collectives.empty()) return "";
  Table table({{"collective"},
               {"group"},
               {"ranks", Align::right},
               {"payload", Align::right},
               {"times", Align::right},
               {"each takes", Align::right},
               {"by"}});
  for (const CollectiveSummary& one : summary.collectives)
    table.row({one.kind, one.group, fmt::format("{}", one.ranks), rounded_text(one.bytes),
               fmt::format("{}", one.times), rounded_text(one.time), way_text(one)});
  return "collectives of a step, each alone:\n\n" + table.text(painter);
}

}  // namespace shardscope
