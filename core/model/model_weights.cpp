#include "core/model/model_weights.h"

#include <fmt/format.h>

#include <set>
#include <string>

#include "core/base/error.h"
#include "core/format/is_there.h"
#include "core/format/json_reader.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

/// The files that the index names; they lie beside it.
std::vector<fs::path> files_of_index(const fs::path& index) {
  std::set<std::string> names;
  for (const auto& [tensor, file] :
       JsonValue::read_file(index, DuplicateKeys::refuse).at("weight_map").members()) {
    const std::string name = file.string();
    if (fs::path(name).filename() != name || name.empty() || name == "..")
      throw file.error("expected a file name without a folder");
    names.insert(name);
  }
  std::vector<fs::path> paths;
  for (const std::string& name : names) paths.push_back(index.parent_path() / name);
  return paths;
}

/// The names under which a file may hold a parameter.
std::vector<std::string> names_of(const Model& model, const Parameter& parameter) {
  std::vector<std::string> names{parameter.name};
  for (const TiedName& tied : model.tied)
    if (tied.first == parameter.name) names.push_back(tied.later);
  const std::string prefix = model.base_model_prefix + ".";
  if (parameter.name.starts_with(prefix)) names.push_back(parameter.name.substr(prefix.size()));
  return names;
}

bool is_floating(Dtype dtype) {
  return dtype == Dtype::float64 || dtype == Dtype::float32 || dtype == Dtype::float16 ||
         dtype == Dtype::bfloat16;
}

}  // namespace

bool has_weights(const fs::path& folder) {
  return is_there(folder / "model.safetensors") ||
         is_there(folder / "model.safetensors.index.json");
}

std::optional<std::string> unread_weights(const fs::path& folder) {
  if (has_weights(folder)) return std::nullopt;
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (is_there(folder / name)) return name;
  return std::nullopt;
}

std::vector<fs::path> weight_files(const fs::path& folder) {
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  if (fs::exists(single)) return {single};
  if (fs::exists(index)) return files_of_index(index);
  if (const auto unread = unread_weights(folder))
    throw Error(
        {.where = (folder / *unread).string(),
         .what = "these weights are not read, and there is no model.safetensors",
         .way_out = "save the model as safetensors (save_pretrained of transformers does)"});
  throw Error(
      {.where = folder.string(),
       .what = "holds neither model.safetensors nor model.safetensors.index.json",
       .way_out =
           "give a folder with weights, or start from random ones (\"weights\": \"random\")"});
}

ModelWeights::ModelWeights(const fs::path& folder, const Model& model) : folder_(folder) {
  for (const fs::path& path : weight_files(folder)) files_.emplace_back(path);
  for (const Parameter& parameter : model.parameters) places_.push_back(place_of(model, parameter));
}

ModelWeights::Place ModelWeights::place_of(const Model& model, const Parameter& parameter) const {
  for (const std::string& name : names_of(model, parameter)) {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      const SafetensorsTensor* tensor = files_[i].find(name);
      if (!tensor) continue;
      const auto fail = [&](std::string what) {
        throw Error({.where = files_[i].path().string(),
                     .what = fmt::format("tensor {} {}", name, what),
                     .way_out = {}});
      };
      if (tensor->shape != parameter.shape)
        fail(fmt::format("has shape [{}], the model's config needs [{}]",
                         fmt::join(tensor->shape, ", "), fmt::join(parameter.shape, ", ")));
      if (!is_floating(tensor->dtype))
        fail(fmt::format("is {}, expected a floating-point type", name_of(tensor->dtype)));
      return {.file = i, .tensor = tensor};
    }
  }
  throw Error({.where = folder_.string(),
               .what = fmt::format("the weights of {} are missing", parameter.name),
               .way_out = "give the folder of a whole model of this config"});
}

void ModelWeights::read(ParameterId parameter, std::int64_t first, std::span<float> out) const {
  const Place& place = places_[parameter.value];
  files_[place.file].read_floats(*place.tensor, first, out);
}

}  // namespace shardscope
