#include "core/config/deepspeed/pydantic_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/nearest_word.h"
#include "core/base/refusal.h"
#include "core/config/deepspeed/pydantic_fields.h"

namespace shardscope {
namespace {

/// The first complaint; pydantic collects all of them, but an exception that is none of its own
/// passes at once.
class Complaint {
 public:
  template <class Function>
  void collect(Function function) {
    try {
      function();
    } catch (const Refusal& refusal) {
      if (refusal.exception() != "ValidationError") throw;
      if (!first_) first_ = refusal;
    }
  }
  void raise() const {
    if (first_) throw *first_;
  }

 private:
  std::optional<Refusal> first_;
};

std::string joined(std::string_view section, std::string_view key) {
  return section.empty() ? std::string(key) : fmt::format("{}.{}", section, key);
}

ConfigValue without_autos(const ConfigValue& given) {
  const bool strict = given.get("strict").truthy();
  ConfigValue kept = ConfigValue::dict();
  kept.set_line(given.line());
  for (const ConfigValue::Entry& entry : given.entries()) {
    if (entry.key == "strict") continue;
    if (strict || !entry.value.is("auto") || entry.key == "replace_method")
      kept.entries().push_back(entry);
  }
  return kept;
}

/// What was given for the field: under its alias, else under its Python name.
const ConfigValue* given_for(const ModelField& field, const ConfigValue& given) {
  if (const ConfigValue* value = given.find(field.name)) return value;
  return field.field.empty() ? nullptr : given.find(field.field);
}

/// Keys that no field takes; a Python name beside its alias is one of them.
void refuse_extras(const PydanticModel& model, const ConfigValue& given, std::string_view section) {
  std::vector<std::string_view> known;
  for (const ModelField& field : model.fields) known.push_back(field.name);
  for (const ConfigValue::Entry& entry : given.entries()) {
    const auto takes = [&](const ModelField& field) {
      return field.name == entry.key || (field.field == entry.key && !given.has(field.name));
    };
    if (std::any_of(model.fields.begin(), model.fields.end(), takes)) continue;
    const std::optional<std::string_view> near = nearest_word(entry.key, known);
    throw Refusal("ValidationError",
                  {.where = fmt::format("line {}: {}", entry.line, joined(section, entry.key)),
                   .what = fmt::format("{} refuses a key that it does not know", model.name),
                   .way_out = near ? fmt::format("did you mean \"{}\"?", *near) : "remove it"});
  }
}

ConfigValue made_of(const PydanticModel& model, const ConfigValue& given,
                    std::string_view section) {
  Complaint complaint;
  ConfigValue made = ConfigValue::dict();
  for (const ModelField& field : model.fields)
    complaint.collect([&] {
      const ConfigValue* value = given_for(field, given);
      made.set(field.name, coerced(field, value != nullptr ? *value : field.otherwise,
                                   joined(section, field.name)));
    });
  complaint.collect([&] { refuse_extras(model, given, section); });
  complaint.raise();
  return made;
}

void run_after(const PydanticModel& model, ConfigValue& made, std::string_view section) {
  if (model.after == nullptr) return;
  try {
    model.after(made);
  } catch (const Refusal& refusal) {
    if (refusal.exception() != "ValueError" && refusal.exception() != "AssertionError") throw;
    Error::Parts parts = refusal.parts();
    parts.where = joined(section, parts.where);
    throw Refusal("ValidationError", std::move(parts));
  }
}

/// DeepSpeedConfigModel._process_deprecated_field.
void move_deprecated(const PydanticModel& model, const ModelField& field, const ConfigValue& given,
                     ConfigValue& made, std::vector<std::string>* warnings) {
  const Deprecation& deprecation = *field.deprecation;
  if (given_for(field, given) == nullptr) return;
  if (warnings != nullptr)
    warnings->push_back(fmt::format("{} is deprecated; use {}", field.name, deprecation.new_field));
  if (deprecation.new_json_name.empty()) return;
  const ConfigValue old = made.get(field.name);
  made.erase(field.name);
  if (given.has(deprecation.new_json_name) || given.has(deprecation.new_field_name))
    throw Refusal("AssertionError",
                  {.where = std::string(field.name),
                   .what = fmt::format("{} and its successor {} stand together, which {} refuses",
                                       field.name, deprecation.new_field, model.name),
                   .way_out = fmt::format("drop {}", field.name)});
  made.set(deprecation.new_json_name,
           deprecation.converted == nullptr ? old : deprecation.converted(old));
}

}  // namespace

ConfigValue validated(const PydanticModel& model, const ConfigValue& given,
                      std::string_view section, std::vector<std::string>* warnings) {
  if (!given.is_dict())
    throw Refusal("TypeError",
                  {.where = std::string(section),
                   .what = fmt::format("expected a section with keys, got {}", given.repr()),
                   .way_out = "write { \"key\": value, ... }"});
  ConfigValue kept = without_autos(given);
  if (model.before != nullptr) model.before(kept);
  ConfigValue made = made_of(model, kept, section);
  run_after(model, made, section);
  for (const ModelField& field : model.fields)
    if (field.deprecation) move_deprecated(model, field, kept, made, warnings);
  for (const ModelField& field : model.fields)
    if (field.hidden) made.erase(field.name);
  return made;
}

}  // namespace shardscope
