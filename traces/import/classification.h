// What events count as, by rules that are data: shown, edited, and kept in a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/imported_trace.h"

namespace shardscope {

/// Where a rule's words are looked for in a name.
enum class NameMatch : std::uint8_t { anywhere, at_start };

/// Events of one of `categories` whose name has one of `words` count as `span_class`. Letters' case
/// does not matter; an empty list holds for all.
struct ClassRule {
  std::vector<std::string> categories;
  NameMatch match = NameMatch::anywhere;
  std::vector<std::string> words;
  SpanClass span_class = SpanClass::host;
  bool operator==(const ClassRule&) const = default;
};

/// The first rule that fits decides; where none does, an event counts as host.
using ClassRules = std::vector<ClassRule>;

/// Whose definitions are followed.
enum class Definitions : std::uint8_t { own, hta, trace_lens };
std::string_view name_of(Definitions definitions);

/// own: communication is a kernel whose name holds nccl, rccl or dpsk::ep, a copy memcpy or memset.
/// hta: by name alone, as HolisticTraceAnalysis f4d0062 does (hta/utils/utils.py, get_kernel_type).
/// trace_lens: as TraceLens 171dd74 does: memset is compute.
ClassRules class_rules(Definitions definitions);

/// Rules from a JSON file: [{"categories": [...], "match": "anywhere|at_start", "words": [...],
/// "class": "communication"}]. Throws Error with file, line and key.
ClassRules read_class_rules(const std::filesystem::path& path);
ClassRules parse_class_rules(std::string_view text, std::string_view file_name);
std::string to_json(const ClassRules& rules);

/// Sets span_class of every event.
void classify(ImportedTrace& trace, const ClassRules& rules);

}  // namespace shardscope
