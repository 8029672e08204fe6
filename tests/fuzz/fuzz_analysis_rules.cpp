// Any text as rules for events and memory: either an Error, or rules that come back from their own
// JSON.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "traces/import/analysis_rules.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardscope;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const AnalysisRules rules = parse_analysis_rules(text, "fuzz.json", Definitions::own);
    if (parse_analysis_rules(to_json(rules), "again.json", Definitions::hta) != rules) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
