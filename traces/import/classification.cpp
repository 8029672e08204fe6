#include "traces/import/classification.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

namespace shardscope {
namespace {

const std::vector<std::string> kernels{"kernel"};
const std::vector<std::string> memcpys{"gpu_memcpy", "memcpy"};
const std::vector<std::string> memsets{"gpu_memset", "memset"};
const std::vector<std::string> activities{"kernel", "gpu_memcpy", "memcpy", "gpu_memset", "memset"};
const std::vector<std::string> annotations{"user_annotation", "gpu_user_annotation"};

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

ClassRules own_rules() {
  return {{.categories = joined(memcpys, memsets), .span_class = SpanClass::copy},
          {.categories = kernels,
           .words = {"nccl", "rccl", "dpsk::ep"},
           .span_class = SpanClass::communication},
          {.categories = kernels, .span_class = SpanClass::compute},
          {.categories = annotations, .span_class = SpanClass::annotation}};
}

/// What HTA calls other (synchronization) counts as host here.
ClassRules hta_rules() {
  const std::vector<std::string> on_streams = joined(activities, {"cuda_sync"});
  return {{.categories = on_streams,
           .match = NameMatch::at_start,
           .exact_case = true,
           .words = {"nccl*Kernel"},
           .span_class = SpanClass::communication},
          {.categories = on_streams,
           .match = NameMatch::at_start,
           .exact_case = true,
           .words = {"Memcpy", "Memset", "dma"},
           .span_class = SpanClass::copy},
          {.categories = on_streams,
           .exact_case = true,
           .words = {"Memcpy", "Sync"},
           .span_class = SpanClass::host},
          {.categories = on_streams, .span_class = SpanClass::compute},
          {.categories = annotations, .span_class = SpanClass::annotation}};
}

/// Copies that ROCm before 7.2 ran as kernels.
const std::vector<std::string> rocm_copies{"MEMORY_COPY_HOST_TO_DEVICE",
                                           "MEMORY_COPY_HOST_TO_DEVICE.kd",
                                           "MEMORY_COPY_DEVICE_TO_HOST",
                                           "MEMORY_COPY_DEVICE_TO_HOST.kd",
                                           "MEMORY_COPY_DEVICE_TO_DEVICE",
                                           "MEMORY_COPY_DEVICE_TO_DEVICE.kd",
                                           "__amd_rocclr_copyBuffer",
                                           "__amd_rocclr_copyBuffer.kd",
                                           "__amd_rocclr_copyBufferAligned",
                                           "__amd_rocclr_copyBufferAligned.kd",
                                           "__amd_rocclr_copyBufferRect",
                                           "__amd_rocclr_copyBufferRect.kd",
                                           "__amd_rocclr_copyBufferRectAligned",
                                           "__amd_rocclr_copyBufferRectAligned.kd"};

ClassRules trace_lens_rules() {
  return {{.categories = memcpys, .span_class = SpanClass::copy},
          {.categories = kernels,
           .match = NameMatch::whole,
           .exact_case = true,
           .words = rocm_copies,
           .span_class = SpanClass::copy},
          {.categories = joined(kernels, memsets),
           .words = {"nccl", "rccl", "cross_device_reduce"},
           .span_class = SpanClass::communication},
          {.categories = joined(kernels, memsets), .span_class = SpanClass::compute},
          {.categories = annotations, .span_class = SpanClass::annotation}};
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

/// Do the parts of `word` between its stars stand in `name` one after the other.
bool has_parts(std::string_view name, std::string_view word, NameMatch match) {
  if (match == NameMatch::whole) return name == word;
  bool is_first = true;
  while (true) {
    const std::string_view part = word.substr(0, word.find('*'));
    const std::size_t at = name.find(part);
    if (at == name.npos || (is_first && match == NameMatch::at_start && at != 0)) return false;
    if (part.size() == word.size()) return true;
    name.remove_prefix(at + part.size());
    word.remove_prefix(part.size() + 1);
    is_first = false;
  }
}

bool has_word(const ClassRule& rule, std::string_view name) {
  if (rule.words.empty()) return true;
  const std::string cased = rule.exact_case ? std::string(name) : lower_case(name);
  return std::any_of(rule.words.begin(), rule.words.end(), [&](const std::string& word) {
    return has_parts(cased, rule.exact_case ? word : lower_case(word), rule.match);
  });
}

bool has_category(const ClassRule& rule, std::string_view category) {
  if (rule.categories.empty()) return true;
  return std::any_of(rule.categories.begin(), rule.categories.end(),
                     [&](const std::string& given) { return lower_case(given) == category; });
}

/// `category` in lower case.
SpanClass class_of(const ClassRules& rules, std::string_view category, std::string_view name) {
  for (const ClassRule& rule : rules) {
    if (has_category(rule, category) && has_word(rule, name)) return rule.span_class;
  }
  return SpanClass::host;
}

std::vector<std::string> texts_at(const JsonValue& rule, std::string_view key) {
  std::vector<std::string> texts;
  if (const auto list = rule.find(key)) {
    for (const JsonValue& text : list->elements()) texts.push_back(text.string());
  }
  return texts;
}

std::string_view name_of(NameMatch match) {
  switch (match) {
    case NameMatch::anywhere:
      return "anywhere";
    case NameMatch::at_start:
      return "at_start";
    case NameMatch::whole:
      return "whole";
  }
  return "anywhere";
}

SpanClass class_at(const JsonValue& rule) {
  const JsonValue value = rule.at("class");
  for (const SpanClass known : {SpanClass::compute, SpanClass::communication, SpanClass::copy,
                                SpanClass::host, SpanClass::annotation}) {
    if (value.string() == name_of(known)) return known;
  }
  throw value.error("not a class of events", "compute, communication, copy, host or annotation");
}

NameMatch match_at(const JsonValue& rule) {
  const auto value = rule.find("match");
  if (!value) return NameMatch::anywhere;
  for (const NameMatch known : {NameMatch::anywhere, NameMatch::at_start, NameMatch::whole}) {
    if (value->string() == name_of(known)) return known;
  }
  throw value->error("not a place in a name", "anywhere, at_start or whole");
}

}  // namespace

std::string_view name_of(Definitions definitions) {
  switch (definitions) {
    case Definitions::own:
      return "own";
    case Definitions::hta:
      return "hta";
    case Definitions::hta_exact:
      return "hta_exact";
    case Definitions::trace_lens:
      return "trace_lens";
  }
  return "own";
}

ClassRules class_rules(Definitions definitions) {
  switch (definitions) {
    case Definitions::own:
      break;
    case Definitions::hta:
    case Definitions::hta_exact:
      return hta_rules();
    case Definitions::trace_lens:
      return trace_lens_rules();
  }
  return own_rules();
}

ClassRules class_rules_of(const JsonValue& list) {
  ClassRules rules;
  for (const JsonValue& rule : list.elements()) {
    rule.only_keys({"categories", "match", "exact_case", "words", "class"});
    rules.push_back({.categories = texts_at(rule, "categories"),
                     .match = match_at(rule),
                     .exact_case = rule.has("exact_case") && rule.at("exact_case").boolean(),
                     .words = texts_at(rule, "words"),
                     .span_class = class_at(rule)});
  }
  return rules;
}

ClassRules parse_class_rules(std::string_view text, std::string_view file_name) {
  return class_rules_of(JsonValue::parse(text, file_name));
}

std::string to_json(const ClassRules& rules) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ClassRule& rule : rules) {
    list.push_back({{"categories", rule.categories},
                    {"match", name_of(rule.match)},
                    {"exact_case", rule.exact_case},
                    {"words", rule.words},
                    {"class", name_of(rule.span_class)}});
  }
  return list.dump(1) + "\n";
}

void classify(ImportedTrace& trace, const ClassRules& rules) {
  std::vector<std::string> categories;
  for (const std::string& category : trace.categories) categories.push_back(lower_case(category));
  std::unordered_map<std::uint64_t, SpanClass> known;  // by name and category
  EventColumns& events = trace.events;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const std::uint64_t key = std::uint64_t{events.name[i]} << 16 | events.category[i];
    const auto [at, is_new] = known.try_emplace(key);
    if (is_new) {
      at->second = class_of(rules, categories[events.category[i]], trace.name_of(i));
    }
    events.span_class[i] = at->second;
  }
}

}  // namespace shardscope
