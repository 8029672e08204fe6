// What Hugging Face models consist of: parameters, ties, buffers, modules, checkpoint files.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/model/checkpoint_files.h"
#include "core/model/config_text.h"
#include "core/model/huggingface.h"
#include "tests/recordings/json_difference.h"
#include "tests/recordings/recorded_file.h"
#include "tests/recordings/recordings.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> compared_fields{"class",
                                               "total_parameters",
                                               "parameter_bytes",
                                               "base_model_prefix",
                                               "no_split_modules",
                                               "no_split_modules_of_class",
                                               "keep_in_fp32_modules",
                                               "keep_in_fp32_modules_strict",
                                               "frozen",
                                               "tied",
                                               "parameters",
                                               "buffers",
                                               "modules",
                                               "config",
                                               "checkpoint"};

JsonValue given(const Json& recorded) {
  return JsonValue::parse(recorded.at("given").dump(), "given", DuplicateKeys::last_wins);
}

Model built(const Json& recorded) {
  ModelOptions options{.class_name = recorded.at("class").get<std::string>()};
  options.constructor = recorded.at("build") == "constructor";
  options.transformers = parse_transformers_version(
      recorded.at("transformers").get<std::string>().substr(0, 1), "transformers");
  return model_of_config(given(recorded), options);
}

Json parameters_of(const Model& model) {
  Json rows = Json::array();
  for (const Parameter& p : model.parameters)
    rows.push_back(Json::array({p.name, p.shape, name_of(p.dtype)}));
  return rows;
}

Json frozen_of(const Model& model) {
  Json names = Json::array();
  for (const Parameter& p : model.parameters)
    if (!p.trainable) names.push_back(p.name);
  return names;
}

Json tied_of(const Model& model) {
  Json pairs = Json::array();
  for (const TiedName& t : model.tied) pairs.push_back(Json::array({t.later, t.first}));
  return pairs;
}

Json buffers_of(const Model& model) {
  Json rows = Json::array();
  for (const ModelBuffer& b : model.buffers)
    rows.push_back(Json::array({b.name, b.shape, name_of(b.dtype), b.persistent}));
  return rows;
}

Json modules_of(const Model& model) {
  Json rows = Json::array();
  for (const Module& m : model.modules) rows.push_back(Json::array({m.name, m.class_name}));
  return rows;
}

std::int64_t parameter_bytes(const Model& model) {
  Bytes bytes;
  for (const Parameter& p : model.parameters) bytes += bytes_of(p.elements(), p.dtype);
  return bytes.count;
}

Json files_of(const CheckpointFiles& checkpoint) {
  Json files = Json::object();
  for (const CheckpointFile& file : checkpoint.files) {
    Json tensors = Json::array();
    for (const SafetensorsTensor& t : file.header.tensors)
      tensors.push_back(
          Json::array({t.name, t.shape, safetensors_name_of(t.dtype), t.begin, t.end}));
    Json metadata = Json::object();
    for (const auto& [key, value] : file.header.metadata) metadata[key] = value;
    files[file.name] = {
        {"metadata", metadata}, {"file_bytes", file.header.file_bytes}, {"tensors", tensors}};
  }
  return files;
}

/// Those of `keys` that are not among `others`.
Json only_in(const std::vector<std::string>& keys, const std::vector<std::string>& others) {
  const std::set<std::string> known(others.begin(), others.end());
  Json names = Json::array();
  for (const std::string& key : keys)
    if (!known.contains(key)) names.push_back(key);
  return names;
}

/// As the recorder reads them: file by file, each by key.
std::vector<std::string> keys_of(const CheckpointFiles& checkpoint) {
  std::vector<std::string> keys;
  for (const CheckpointFile& file : checkpoint.files)
    for (const SafetensorsTensor& tensor : file.header.tensors) keys.push_back(tensor.name);
  return keys;
}

Json other_files(const CheckpointFiles& checkpoint, bool generates) {
  Json names = Json::array({"config.json"});
  if (generates) names.push_back("generation_config.json");
  if (!checkpoint.index.empty()) names.push_back("model.safetensors.index.json");
  return names;
}

/// The list of cases: in the folder, or in that of transformers 5 beside it.
std::filesystem::path folder_of_cases(const std::filesystem::path& folder) {
  for (const auto& place : {folder, folder / ".." / "parameters"})
    if (std::filesystem::exists(place / "cases.json")) return place;
  return {};
}

/// max_shard_size of save_pretrained: it stands in the list of cases, not in what was recorded.
Bytes max_shard_of(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path place = folder_of_cases(folder);
  if (place.empty()) return default_max_shard;
  for (const Json& row : recorded_json(place, "cases"))
    if (row.value("name", "") == name && row.contains("max_shard"))
      return parse_bytes(row.at("max_shard").get<std::string>(), "max_shard");
  return default_max_shard;
}

Json checkpoint_of(const Json& recorded, const Model& model, Bytes max_shard) {
  const CheckpointFiles checkpoint = checkpoint_files(model, max_shard);
  const bool generates = !generation_config_text(given(recorded), model).empty();
  const std::vector<std::string> state_dict = model.state_dict_keys();
  const std::vector<std::string> saved = keys_of(checkpoint);
  return {{"state_dict", state_dict},
          {"only_in_state_dict", only_in(state_dict, saved)},
          {"only_in_files", only_in(saved, state_dict)},
          {"other_files", other_files(checkpoint, generates)},
          {"index", checkpoint.index.empty() ? Json() : Json::parse(checkpoint.index)},
          {"files", files_of(checkpoint)}};
}

Json got_of(const Json& recorded, Bytes max_shard) {
  const Model model = built(recorded);
  Json got{{"class", model.class_name},
           {"total_parameters", model.parameter_elements()},
           {"parameter_bytes", parameter_bytes(model)},
           {"base_model_prefix", model.base_model_prefix},
           {"no_split_modules", model.no_split_classes},
           {"no_split_modules_of_class", model.no_split_classes_of_class},
           {"keep_in_fp32_modules", model.keep_in_fp32},
           {"keep_in_fp32_modules_strict", model.keep_in_fp32_strict},
           {"frozen", frozen_of(model)},
           {"tied", tied_of(model)},
           {"parameters", parameters_of(model)},
           {"buffers", buffers_of(model)},
           {"modules", modules_of(model)},
           {"config", Json::parse(config_text(given(recorded), model))}};
  if (recorded.contains("checkpoint"))
    got["checkpoint"] = checkpoint_of(recorded, model, max_shard);
  return got;
}

/// Where the library refused, ours must; the texts are not compared.
Outcome check_refusal(const Json& recorded) {
  try {
    config_text(given(recorded), built(recorded));
  } catch (const Error&) {
    return {};
  }
  return {.difference = "expected a refusal: " + recorded.at("error").get<std::string>(),
          .worst_share = {},
          .worst = {}};
}

Outcome check(const std::filesystem::path& folder, const std::string& name,
              const Options& options) {
  const Json recorded = recorded_json(folder, name);
  if (recorded.contains("error")) return check_refusal(recorded);
  const Json got = got_of(recorded, max_shard_of(folder, name));
  for (const auto& [field, value] : got.items()) {
    if (options.leaves_out(field)) continue;
    if (!recorded.contains(field))
      return {.difference = field + ": not recorded", .worst_share = {}, .worst = {}};
    const std::string difference = json_difference(field, recorded.at(field), value);
    if (!difference.empty()) return {.difference = difference, .worst_share = {}, .worst = {}};
  }
  return {};
}

std::vector<std::string> cases(const std::filesystem::path& folder) {
  return recorded_names(folder, {"cases", "differences"});
}

}  // namespace

Kind parameters_kind() {
  return {.name = "parameters", .fields = compared_fields, .cases = cases, .check = check};
}

Kind parameters_v4_kind() {
  return {.name = "parameters_v4", .fields = compared_fields, .cases = cases, .check = check};
}

}  // namespace shardscope::recordings
