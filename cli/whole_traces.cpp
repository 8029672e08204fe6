#include "cli/whole_traces.h"

#include <optional>
#include <utility>

#include "traces/chrome_reader.h"
#include "traces/import/imported_runs.h"
#include "traces/import/imported_spans.h"

namespace shardscope {

std::optional<Trace> own_trace(const std::filesystem::path& from, const ImportedTrace& trace) {
  const bool is_folder = std::filesystem::is_directory(from);
  const std::filesystem::path file = is_folder ? from / trace.file : from;
  const bool is_ours = !trace.header_text("shardscope").empty() && file.filename() == trace.file;
  if (!is_ours) return std::nullopt;
  return read_chrome_trace(file).trace;
}

std::vector<Trace> whole_traces(const std::filesystem::path& from,
                                const std::vector<ImportedTrace>& traces) {
  std::vector<Trace> whole;
  std::vector<std::optional<int>> said;
  for (const ImportedTrace& trace : traces) {
    if (std::optional<Trace> own = own_trace(from, trace)) {
      said.emplace_back(own->rank);
      whole.push_back(std::move(*own));
      continue;
    }
    for (Trace& of_rank : rank_traces(trace)) {
      whole.push_back(std::move(of_rank));
      said.push_back(trace.rank);
    }
  }
  const std::vector<int> ranks = ranks_of(said);
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i].rank = ranks[i];
  return whole;
}

}  // namespace shardscope
