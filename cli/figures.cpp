#include "cli/figures.h"

#include "core/format/atomic_file.h"
#include "traces/figure.h"

namespace shardscope {

void write_figures(Predicted<const Trace*> predicted, Profiled<const Trace*> profiled,
                   const std::string& title, const RunFolder& folder) {
  create_folder(folder.figures());
  write_atomically(folder.figures() / "memory.svg", memory_figure(predicted, profiled, title));
  write_atomically(folder.figures() / "streams.svg", streams_figure(predicted, profiled, title));
}

}  // namespace shardscope
