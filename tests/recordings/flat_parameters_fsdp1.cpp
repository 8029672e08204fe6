// fsdp1.json: units, flat parameters and shards of FullyShardedDataParallel.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "core/base/refusal.h"
#include "tests/recordings/flat_parameters.h"
#include "tests/recordings/fsdp1_case.h"
#include "tests/recordings/json_difference.h"
#include "tests/recordings/recorded_models.h"
#include "tests/recordings/recorded_outcome.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using Plans = std::vector<std::pair<int, Fsdp1Plan>>;  // by rank

// --- What the product says, in the recording's format
// ---------------------------------------------

Json composition_of(const Fsdp1Plan& plan, const ModuleTree& tree) {
  Json units = Json::array();
  for (const Fsdp1Unit& unit : plan.units) {
    Json parameters = Json::array();
    for (const Fsdp1Unit::Parameter& parameter : unit.parameters) {
      const TreeParameter& source = tree.parameters[static_cast<std::size_t>(parameter.source)];
      parameters.push_back(Json::array({parameter.name, source.shape, source.elements()}));
    }
    Json row{{"module", unit.module}, {"class", unit.class_name}, {"params", parameters}};
    for (const Fsdp1Unit::Alias& alias : unit.aliases)
      row["shared"].push_back(Json::array({alias.name, alias.first}));
    units.push_back(std::move(row));
  }
  return units;
}

Json rank_row(const ShardPiece& piece) {
  Json row{piece.padding_elements, piece.elements};
  if (piece.range)
    for (const std::int64_t number :
         {std::int64_t{piece.range->first}, piece.range->first_element,
          std::int64_t{piece.range->last}, piece.range->last_element, piece.range->offset})
      row.push_back(number);
  return row;
}

Json numbers_of(const Fsdp1Unit& unit, const Plans& plans) {
  if (unit.parameters.empty()) return nullptr;
  Json fill = Json::array(), ranks = Json::object();
  for (const Fill& f : unit.flat.fill) fill.push_back(Json::array({f.before, f.elements}));
  for (const auto& [rank, plan] : plans)
    ranks[std::to_string(rank)] = rank_row(piece_of(unit.flat, unit.shard_of(rank)));
  const bool whole = unit.strategy == ShardingStrategy::no_shard;
  return {{"strategy", torch_name(unit.strategy)},
          {"aligned_numel", unit.alignment_elements},
          {"compute_dtype", name_of(unit.compute_dtype)},
          {"reduce_dtype", name_of(unit.reduce_dtype)},
          {"requires_grad", unit.trainable},
          {"fill", fill},
          {"unpadded_unsharded", unit.flat.unpadded_elements},
          {"padded_unsharded", whole ? Json() : Json(unit.flat.padded_elements())},
          {"shard", unit.flat.shard_elements},
          {"ranks", ranks}};
}

std::string warning_text(const Fsdp1Warning& warning) {
  static const std::vector<std::string> kinds{"NO_SHARD for one rank", "BatchNorm in full",
                                              "mixed trainable", "whole unit ignored"};
  const bool named = warning.kind != Fsdp1Warning::Kind::whole_unit_ignored;
  return kinds.at(static_cast<std::size_t>(warning.kind)) + (named ? ": " + warning.subject : "");
}

void add_once(Json& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

std::size_t index_in(Json& list, const Json& value) {
  const auto found = std::find(list.begin(), list.end(), value);
  const auto index = static_cast<std::size_t>(found - list.begin());
  if (index == list.size()) list.push_back(value);
  return index;
}

/// Composition and units of all ranks, or what each rank makes where they do not agree.
void add_plans(const Plans& plans, const ModuleTree& tree, Json& compositions, Json& row) {
  std::vector<Json> layouts;
  for (const auto& [rank, plan] : plans) layouts.push_back(composition_of(plan, tree));
  const bool agree = std::all_of(layouts.begin(), layouts.end(),
                                 [&](const Json& layout) { return layout == layouts.front(); });
  if (!agree) {
    for (std::size_t i = 0; i < plans.size(); ++i)
      row["compositions_by_rank"][std::to_string(plans[i].first)] =
          index_in(compositions, layouts[i]);
    return;
  }
  row["composition"] = index_in(compositions, layouts.front());
  row["units"] = Json::array();
  for (const Fsdp1Unit& unit : plans.front().second.units)
    row["units"].push_back(numbers_of(unit, plans));
  Json warnings = Json::array();
  for (const auto& [rank, plan] : plans)
    for (const Fsdp1Warning& warning : plan.warnings) add_once(warnings, warning_text(warning));
  if (!warnings.empty()) row["warnings"] = warnings;
}

Json error_with_text(const std::exception& error) {
  const auto* refusal = dynamic_cast<const Refusal*>(&error);
  return {{"type", refusal != nullptr ? Json(refusal->exception()) : Json()},
          {"text", error.what()}};
}

/// One case through the product, in the recording's format.
class Computation {
 public:
  Computation(const Json& given, const Json& model)
      : given_(given), model_(model), tree_(recorded_tree(model)) {}

  Json result() {
    Json variants = Json::array();
    for (const Json& variant : fsdp1_variants(given_)) variants.push_back(computed(variant));
    Json all{{"compositions", compositions_}, {"variants", variants}};
    if (asked_accelerate_) all["accelerate_policy"] = accelerate_policy_;
    return all;
  }

 private:
  Json computed(const Json& variant) {
    Json row = variant;
    int rank = 0;
    try {
      Plans plans;
      for (const int next : recorded_ranks(given_, variant.at("world").get<int>())) {
        rank = next;
        const Fsdp1Settings settings = fsdp1_settings(given_, variant, model_, tree_);
        note_policy(settings.auto_wrap);
        plans.emplace_back(rank, plan_fsdp1(tree_, settings, rank));
      }
      add_plans(plans, tree_, compositions_, row);
    } catch (const Error& error) {
      row["error"] = error_with_text(error);
      row["error_on_rank"] = rank;
    }
    return row;
  }

  void note_policy(const AutoWrap& wrap) {
    if (given_.at("policy").at("kind") != "accelerate") return;
    asked_accelerate_ = true;
    if (const auto* transformer = std::get_if<TransformerWrap>(&wrap)) {
      const std::set<std::string> classes(transformer->classes.begin(), transformer->classes.end());
      accelerate_policy_ = {{"function", "transformer_auto_wrap_policy"},
                            {"kwargs", {{"transformer_layer_cls", classes}}}};
    } else if (const auto* size = std::get_if<SizeWrap>(&wrap)) {
      accelerate_policy_ = {{"function", "size_based_auto_wrap_policy"},
                            {"kwargs", {{"min_num_params", size->min_elements}}}};
    }
  }

  const Json& given_;
  const Json& model_;
  ModuleTree tree_;
  Json compositions_ = Json::array();
  bool asked_accelerate_ = false;
  Json accelerate_policy_;
};

// --- What was recorded, without the wording
// -------------------------------------------------------

std::string classes_in(const std::string& text) {
  static const std::regex quoted("<class '([^']*\\.)?([^'.]+)'>");
  std::set<std::string> classes;
  for (std::sregex_iterator i(text.begin(), text.end(), quoted), end; i != end; ++i)
    classes.insert((*i)[2]);
  return fmt::format("{}", fmt::join(classes, ", "));
}

/// Empty for what is no warning of FSDP's.
std::string recorded_warning(const std::string& text) {
  using Kind = Fsdp1Warning::Kind;
  static const std::regex one_rank(
      "FSDP is switching to use `NO_SHARD` .*ShardingStrategy\\.(\\w+).*");
  static const std::regex frozen("(\\S*) ?has both parameters with requires_grad=True.*");
  std::smatch match;
  if (std::regex_match(text, match, one_rank))
    return warning_text(
        {Kind::no_shard_for_one_rank, std::string(name_of(torch_strategy(match[1])))});
  if (std::regex_match(text, match, frozen)) return warning_text({Kind::mixed_trainable, match[1]});
  if (text.starts_with("Both mixed precision and an auto_wrap_policy"))
    return warning_text({Kind::batch_norm_in_full, classes_in(text)});
  if (text.starts_with("Trying to ignore the top-level module"))
    return warning_text({Kind::whole_unit_ignored, {}});
  return {};
}

void strip_wording(Json& recorded, Json& got) {
  if (recorded.contains("warnings")) {
    Json warnings = Json::array();
    for (const Json& text : recorded.at("warnings"))
      if (const std::string known = recorded_warning(text); !known.empty())
        add_once(warnings, known);
    recorded.erase("warnings");
    if (!warnings.empty()) recorded["warnings"] = warnings;
  }
  if (recorded.contains("error") && got.contains("error")) {
    got["error"]["text"] = recorded.at("error").at("text");
    // An error of our own that is no library's has no class to compare.
    if (got.at("error").at("type").is_null())
      got["error"]["type"] = recorded.at("error").at("type");
  }
}

/// The error of ours that the recording knows nothing of, else the first difference.
std::string difference_of(const Json& expected, const Json& got) {
  for (std::size_t i = 0; i < got.at("variants").size(); ++i) {
    const Json& variant = got.at("variants")[i];
    if (variant.contains("error") && i < expected.at("variants").size() &&
        !expected.at("variants")[i].contains("error"))
      return fmt::format("variants[{}]: {}", i, variant.at("error").at("text").get<std::string>());
  }
  return json_difference("result", expected, got);
}

Outcome check(const Json& recorded, const std::filesystem::path& folder, const Options& options) {
  const Json& given = recorded.at("case");
  const Json model = recorded_model(folder, given.at("model").get<std::string>());
  Json got = Computation(given, model).result();
  Json expected = recorded;
  expected.erase("name");
  expected.erase("case");
  for (std::size_t i = 0; i < expected.at("variants").size() && i < got.at("variants").size(); ++i)
    strip_wording(expected["variants"][i], got["variants"][i]);
  for (const std::string& field : options.except)
    for (Json* side : {&expected, &got}) {
      side->erase(field);
      for (Json& variant : (*side)["variants"]) variant.erase(field);
    }
  return {.difference = difference_of(expected, got), .worst_share = {}, .worst = {}};
}

}  // namespace

FlatParametersFile fsdp1_recordings() {
  return {.name = "fsdp1",
          .fields = {"compositions", "composition", "compositions_by_rank", "units", "error",
                     "warnings", "accelerate_policy"},
          .check = check};
}

}  // namespace shardscope::recordings
