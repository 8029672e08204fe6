// What events count as, by rules that are data: shown, edited, and kept in a file.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/format/json_reader.h"
#include "traces/import/imported_trace.h"

namespace shardscope {

/// Where a rule's words are looked for in a name.
enum class NameMatch : std::uint8_t { anywhere, at_start, whole };

/// Events of one of `categories` whose name has one of `words` count as `span_class`. In a word '*'
/// stands for any text ("nccl*Kernel"), except where the whole name must fit. Letters' case does
/// not matter unless `exact_case`, and then in names only; an empty list holds for all.
struct ClassRule {
  std::vector<std::string> categories;
  NameMatch match = NameMatch::anywhere;
  bool exact_case = false;
  std::vector<std::string> words;
  SpanClass span_class = SpanClass::host;
  bool operator==(const ClassRule&) const = default;
};

/// The first rule that fits decides; where none does, an event counts as host.
using ClassRules = std::vector<ClassRule>;

/// Whose definitions are followed. hta is HolisticTraceAnalysis as it comes, which rounds times to
/// whole microseconds; hta_exact the same without rounding.
enum class Definitions : std::uint8_t { own, hta, hta_exact, trace_lens };
inline constexpr std::array all_definitions{Definitions::own, Definitions::hta,
                                            Definitions::hta_exact, Definitions::trace_lens};
std::string_view name_of(Definitions definitions);

/// own: communication is a kernel whose name holds nccl, rccl or dpsk::ep, a copy memcpy or memset.
/// hta: by name alone, as HolisticTraceAnalysis 0.5.0 does (hta/utils/utils.py, get_kernel_type).
/// trace_lens: as TraceLens 171dd74 does (TreePerf/gpu_event_analyser.py, util.py): memset is
/// compute.
ClassRules class_rules(Definitions definitions);

/// Rules from JSON: [{"categories": [...], "match": "anywhere|at_start|whole",
/// "exact_case": false, "words": [...], "class": "communication"}]. Throws Error with file, line
/// and key.
ClassRules class_rules_of(const JsonValue& list);
ClassRules parse_class_rules(std::string_view text, std::string_view file_name);
std::string to_json(const ClassRules& rules);

/// Sets span_class of every event.
void classify(ImportedTrace& trace, const ClassRules& rules);

}  // namespace shardscope
