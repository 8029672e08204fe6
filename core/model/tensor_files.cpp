#include "core/model/tensor_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/utf8.h"
#include "core/format/safetensors.h"
#include "core/model/module_names.h"

namespace shardscope {
namespace {

constexpr std::string_view way_out_of_pickles =
    "save_pretrained of the loaded model writes safetensors, and examples/pytorch/export_model.py "
    "describes any model";

bool is_floating(Dtype dtype) {
  constexpr Dtype floating[] = {Dtype::float64, Dtype::float32, Dtype::float16, Dtype::bfloat16};
  return std::find(std::begin(floating), std::end(floating), dtype) != std::end(floating);
}

void check_names(const std::vector<SafetensorsTensor>& tensors, std::string_view where) {
  std::set<std::string_view> known;
  for (const SafetensorsTensor& tensor : tensors) {
    std::string complaint = complaint_about_name(tensor.name);
    if (complaint.empty() && !known.insert(tensor.name).second)
      complaint = fmt::format("tensor {} stands in two files", shown(tensor.name));
    if (!complaint.empty())
      throw Error({.where = std::string(where), .what = complaint, .way_out = {}});
  }
}

/// Tensors by their module, in pre-order; torch's layers register the weight before the bias.
std::vector<const SafetensorsTensor*> in_module_order(const std::vector<SafetensorsTensor>& tensors,
                                                      const std::vector<Module>& modules) {
  std::map<std::string_view, std::vector<const SafetensorsTensor*>> by_owner;
  for (const SafetensorsTensor& tensor : tensors)
    by_owner[owner_of(tensor.name)].push_back(&tensor);
  std::vector<const SafetensorsTensor*> result;
  for (const Module& module : modules) {
    auto& own = by_owner[module.name];
    std::stable_partition(own.begin(), own.end(), [](const SafetensorsTensor* t) {
      return owner_of(t->name).empty() ? t->name != "bias" : !t->name.ends_with(".bias");
    });
    result.insert(result.end(), own.begin(), own.end());
  }
  return result;
}

void add_tensor(const SafetensorsTensor& tensor, Model& model) {
  if (is_floating(tensor.dtype))
    model.parameters.push_back({.name = tensor.name, .shape = tensor.shape, .dtype = tensor.dtype});
  else
    model.buffers.push_back({.name = tensor.name, .shape = tensor.shape, .dtype = tensor.dtype});
}

Model model_of_tensors(const std::vector<SafetensorsTensor>& tensors, std::string_view where) {
  check_names(tensors, where);
  Model model;
  std::vector<std::string> names;
  for (const SafetensorsTensor& tensor : tensors) names.push_back(tensor.name);
  for (std::string& name : implied_modules(names, where))
    model.modules.push_back({.name = std::move(name), .class_name = {}});
  for (const SafetensorsTensor* tensor : in_module_order(tensors, model.modules))
    add_tensor(*tensor, model);
  check_size(model, where);
  if (!model.parameters.empty()) model.dtype = model.parameters.front().dtype;
  model.why_no_decoder =
      "tensor files say neither what a model's classes are nor what they compute";
  model.assumed = {
      "modules and parameters in the order of the files, numbers counting up: files do not say the "
      "model's own",
      "floating-point tensors are trained parameters, all others buffers, and none is tied"};
  return model;
}

/// Where each tensor of an index lies, in the order of the index.
using WeightMap = std::vector<std::pair<std::string, std::string>>;

WeightMap read_weight_map(const JsonValue& index) {
  WeightMap map;
  for (const auto& [name, file] : index.at("weight_map").members()) {
    const std::string text = file.string();
    if (text.ends_with(".bin") || text.ends_with(".pt") || text.ends_with(".pth"))
      throw file.error(fmt::format("{} is a pickle of PyTorch, which is not read", shown(text)),
                       std::string(way_out_of_pickles));
    if (text.empty() || text.find('/') != std::string::npos)
      throw file.error(fmt::format("\"{}\" is no file beside the index", shown(text)));
    map.emplace_back(name, text);
  }
  return map;
}

std::set<std::string> files_of(const WeightMap& map) {
  std::set<std::string> files;
  for (const auto& [name, file] : map) files.insert(file);
  return files;
}

void check_present(const JsonValue& index, const WeightMap& map,
                   const std::filesystem::path& folder) {
  std::vector<std::string> missing;
  const std::set<std::string> files = files_of(map);
  for (const std::string& file : files) {
    std::error_code ignored;
    if (!std::filesystem::exists(folder / file, ignored)) missing.push_back(file);
  }
  if (missing.empty()) return;
  throw index.error(
      fmt::format("names {} tensors but not their shapes, and {} of their {} files {} missing "
                  "beside it: {}{}",
                  map.size(), missing.size(), files.size(), missing.size() == 1 ? "is" : "are",
                  shown(missing.front()), missing.size() > 1 ? ", ..." : ""),
      "put the model's config.json beside it, or the files' first megabytes: their headers are "
      "enough");
}

}  // namespace

Model model_of_safetensors(const std::filesystem::path& path) {
  return model_of_tensors(read_safetensors_header(path).tensors, path.string());
}

Model model_of_safetensors_header(const JsonValue& header) {
  return model_of_tensors(parse_safetensors_header(header).tensors, header.where());
}

Model model_of_safetensors_index(const JsonValue& index, const std::filesystem::path& path) {
  const WeightMap map = read_weight_map(index);
  const std::filesystem::path folder = path.parent_path();
  check_present(index, map, folder);
  std::vector<SafetensorsTensor> tensors;
  std::set<std::pair<std::string, std::string>> found;
  for (const std::string& file : files_of(map))
    for (SafetensorsTensor& tensor : read_safetensors_header(folder / file).tensors) {
      found.emplace(tensor.name, file);
      tensors.push_back(std::move(tensor));
    }
  for (const auto& [name, file] : map)
    if (!found.contains({name, file}))
      throw index.error(
          fmt::format("tensor {} is not in {}, where it should be", shown(name), shown(file)));
  return model_of_tensors(tensors, path.string());
}

}  // namespace shardscope
