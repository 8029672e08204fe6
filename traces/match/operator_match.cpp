#include "traces/match/operator_match.h"

namespace shardscope {
namespace {

struct Key {
  std::string name;
  std::string_view shapes;
  bool has_shapes = false;
  bool takes_outputs = false;  ///< its caller gives the tensors that it writes, behind its inputs
};

Key key_of(const Trace& trace, const PredictedOperation& operation) {
  const OperationFacts& facts = *operation.facts;
  const bool has_shapes = facts.shapes != OperationFacts::unnamed;
  return {.name = traced_name(facts.name),
          .shapes = has_shapes ? std::string_view(trace.names[facts.shapes]) : std::string_view(),
          .has_shapes = has_shapes,
          .takes_outputs = facts.name.ends_with(".out") || facts.name.starts_with("fsdp.")};
}

bool may_agree(const Key& key, const std::string& seen) {
  if (!key.has_shapes || seen.empty() || key.shapes == seen) return true;
  return key.takes_outputs && seen.starts_with(std::string(key.shapes) + " ");
}

}  // namespace

std::string traced_name(std::string_view schema) {
  const std::size_t library = schema.find('.');
  if (library == std::string_view::npos) return std::string(schema);
  const std::size_t overload = schema.find('.', library + 1);
  return std::string(schema.substr(0, library)) +
         "::" + std::string(schema.substr(library + 1, overload - library - 1));
}

std::set<std::string, std::less<>> traced_names(const PredictedSchedule& schedule) {
  std::set<std::string_view> schemas;
  for (const PredictedStep& step : schedule.steps)
    for (const PredictedOperation& operation : step.operators)
      schemas.insert(operation.facts->name);
  std::set<std::string, std::less<>> names;
  for (const std::string_view schema : schemas) names.insert(traced_name(schema));
  return names;
}

SequenceMatch match_operators(const Trace& trace, const std::vector<PredictedOperation>& predicted,
                              const std::vector<ProfiledOperator>& profiled) {
  std::vector<Key> keys;
  for (const PredictedOperation& operation : predicted) keys.push_back(key_of(trace, operation));
  const auto alike = [&](std::size_t i, std::size_t j) { return keys[i].name == profiled[j].name; };
  const auto agrees = [&](std::size_t i, std::size_t j) {
    return alike(i, j) && may_agree(keys[i], profiled[j].shapes);
  };
  const auto says_all = [&](std::size_t i, std::size_t j) {
    return keys[i].has_shapes && (keys[i].shapes.empty() || !profiled[j].shapes.empty());
  };
  return match_sequences({.predicted = keys.size(),
                          .profiled = profiled.size(),
                          .agrees = agrees,
                          .alike = alike,
                          .says_all = says_all});
}

std::string text_of(const Trace& trace, const OperationFacts& facts) {
  std::string text = traced_name(facts.name);
  if (facts.shapes != OperationFacts::unnamed) text += " of " + trace.names[facts.shapes];
  if (facts.module != OperationFacts::unnamed && !trace.names[facts.module].empty())
    text += " in " + trace.names[facts.module];
  return text;
}

std::string text_of(const ProfiledOperator& op) {
  return std::string(op.name) + (op.shapes.empty() ? "" : " of " + op.shapes);
}

}  // namespace shardscope
