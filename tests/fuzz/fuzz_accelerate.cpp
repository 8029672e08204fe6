// Any bytes as a configuration file of accelerate: every stage, lint and the writer; and what the
// YAML writer wrote is read back to the same value.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/refusal.h"
#include "core/config/accelerate/lint.h"
#include "core/config/yaml/yaml_reader.h"
#include "core/config/yaml/yaml_writer.h"
#include "tests/recordings/ports/to_fsdp2.h"

namespace {

using namespace shardscope;

/// Sequential(Linear, Linear), the second inside a block.
const accelerate::PreparedModel& model() {
  static const accelerate::PreparedModel small = [] {
    accelerate::PreparedModel result;
    result.tree.parameters = {{.name = "0.weight", .shape = {8, 4}},
                              {.name = "1.linear.weight", .shape = {8, 8}}};
    result.tree.modules = {
        {.name = "", .class_name = "Sequential", .children = {1, 2}},
        {.name = "0", .class_name = "Linear", .parameters = {0}, .parent = 0},
        {.name = "1", .class_name = "Block", .children = {3}, .parent = 0},
        {.name = "1.linear", .class_name = "Linear", .parameters = {1}, .parent = 2}};
    result.facts.no_split_classes = {"Block"};
    result.widths.hidden_size = 8;
    return result;
  }();
  return small;
}

/// Values that YAML can say: no dates, sets or bytes, whose text is read as text, and no NaN.
bool is_plain(const ConfigValue& value) {
  if (value.object() != nullptr) return false;
  if (value.is_double()) return value.number() == value.number();
  if (value.is_list())
    for (const ConfigValue& element : value.elements())
      if (!is_plain(element)) return false;
  if (value.is_dict())
    for (const ConfigValue::Entry& entry : value.entries())
      if (entry.key_type != "str" || !is_plain(entry.value)) return false;
  return true;
}

void check_round_trip(const ConfigValue& value) {
  if (!is_plain(value)) return;
  try {
    if (!(read_yaml(yaml_text(value), "again.yaml") == value)) std::abort();
  } catch (const Refusal&) {
    std::abort();
  }
}

void resolve_as(std::string_view text, const char* name) {
  const accelerate::Resolution resolution =
      accelerate::resolve({.file_name = name,
                           .text = std::string(text),
                           .model = &model(),
                           .read_file = [](const std::string&) {
                             return std::string(R"({"zero_optimization": {"stage": 3}})");
                           }});
  const std::vector<Finding> findings = accelerate::lint(resolution, text, &model());
  if (resolution.loaded.error && findings.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"config.yaml", "config.json"}) {
    try {
      resolve_as(text, name);
    } catch (const Error&) {
    }
  }
  try {
    const ConfigValue value = read_yaml(text, "config.yaml");
    check_round_trip(value);
    check_round_trip(accelerate::to_fsdp2(value).config);
  } catch (const Error&) {
  }
  return 0;
}
