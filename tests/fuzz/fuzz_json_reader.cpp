// Any bytes as JSON: either an Error, or a document whose every value can be visited and dumped.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "core/format/json_reader.h"

namespace {

using shardscope::Error;
using shardscope::JsonValue;

void visit(const JsonValue& value) {
  if (value.is_array()) {
    for (const JsonValue& element : value.elements()) visit(element);
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.members()) visit(member);
  } else if (value.is_integer()) {
    static_cast<void>(value.integer());
  } else if (value.is_number()) {
    static_cast<void>(value.number());
  } else if (value.is_string()) {
    static_cast<void>(value.string());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const JsonValue value =
        JsonValue::parse(text, "fuzz.json", shardscope::DuplicateKeys::last_wins);
    visit(value);
    const std::string dumped = value.dump();
    if (JsonValue::parse(dumped, "dumped.json").dump() != dumped) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
