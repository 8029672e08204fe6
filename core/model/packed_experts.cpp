#include "core/model/packed_experts.h"

#include <fmt/format.h>

#include "core/model/modules.h"
#include "core/model/natural_order.h"

namespace shardscope {
namespace {

std::string name_in_files(std::string name, const ExpertFiles& files) {
  constexpr std::string_view here = ".mlp.";
  if (const std::size_t at = name.find(here); at != std::string::npos)
    name.replace(at, here.size(), files.block);
  return name;
}

/// Rows [begin, end) of each expert, as tensors "<experts>.<n>.<part>.weight" of one block.
struct Slices {
  std::string_view part;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t block = 0;
};

void store_slices(Model& model, ParameterId packed, const ExpertFiles& files,
                  const Slices& slices) {
  const Parameter& parameter = model.parameters[packed.value];
  const std::string experts =
      name_in_files(parameter.name.substr(0, parameter.name.rfind('.')), files);
  const std::int64_t rows = parameter.shape[1], columns = parameter.shape[2];
  for (std::int64_t i = 0; i < parameter.shape[0]; ++i)
    model.stored.push_back({.key = fmt::format("{}.{}.{}.weight", experts, i, slices.part),
                            .parameter = packed,
                            .first = (i * rows + slices.begin) * columns,
                            .shape = {slices.end - slices.begin, columns},
                            .block = slices.block});
}

}  // namespace

void add_packed_experts(Model& model, const std::string& name, const PackedExperts& packed,
                        const FeedForward& shape) {
  add_module(model, name, packed.class_name);
  add_parameter(model, name + ".gate_up_proj", {packed.experts, 2 * shape.inner, shape.width},
                {.standard_deviation = shape.standard_deviation});
  add_parameter(model, name + ".down_proj", {packed.experts, shape.width, shape.inner},
                {.standard_deviation = shape.standard_deviation});
  if (!shape.activation.empty())
    add_module(model, name + ".act_fn", activation_class(shape.activation));
}

void add_dense_feed_forward(Model& model, const std::string& name, std::string_view class_name,
                            const FeedForward& shape) {
  add_module(model, name, class_name);
  const auto linear = [&](const char* part, std::int64_t in, std::int64_t out) {
    add_linear(model, name + part, {.in = in, .out = out, .bias = false}, shape.standard_deviation);
  };
  linear(".gate_proj", shape.width, shape.inner);
  linear(".up_proj", shape.width, shape.inner);
  linear(".down_proj", shape.inner, shape.width);
  add_module(model, name + ".act_fn", activation_class(shape.activation));
}

void add_expert_list(Model& model, const std::string& name, const PackedExperts& list,
                     const FeedForward& shape) {
  add_module(model, name, "ModuleList");
  for (std::int64_t i = 0; i < list.experts; ++i)
    add_dense_feed_forward(model, fmt::format("{}.{}", name, i), list.class_name, shape);
}

void add_router(Model& model, const std::string& name, const PackedExperts& router,
                const FeedForward& shape) {
  add_module(model, name, router.class_name);
  add_parameter(model, name + ".weight", {router.experts, shape.width},
                {.standard_deviation = shape.standard_deviation});
}

void store_experts_apart(Model& model, const ExpertFiles& files) {
  std::int64_t block = 0;
  for (const ParameterId id : in_natural_order(model)) {
    const Parameter& parameter = model.parameters[id.value];
    if (parameter.name.ends_with(".experts.gate_up_proj")) {
      // Gate and up are copied apart before they are cut, unless a single expert lets them lie as
      // they are.
      const std::int64_t rows = parameter.shape[1];
      store_slices(model, id, files, {files.parts[0], 0, rows / 2, ++block});
      if (parameter.shape[0] > 1) ++block;
      store_slices(model, id, files, {files.parts[1], rows / 2, rows, block});
    } else if (parameter.name.ends_with(".experts.down_proj")) {
      store_slices(model, id, files, {files.parts[2], 0, parameter.shape[1], ++block});
    } else {
      model.stored.push_back(
          {.key = name_in_files(parameter.name, files), .parameter = id, .shape = parameter.shape});
    }
  }
}

std::int64_t read_local_experts(const ConfigReader& config) {
  const std::int64_t experts = config.version() == TransformersVersion::v4
                                   ? config.layers({"num_local_experts"})
                                   : config.layers({"num_experts", "num_local_experts"});
  check_experts(config, "num_local_experts", experts);
  return experts;
}

void check_experts(const ConfigReader& config, std::string_view key, std::int64_t experts,
                   std::string_view key_of_chosen) {
  // An expert is several modules and tensors: all layers' together stay countable.
  constexpr std::int64_t most_experts = 1 << 16;
  const std::int64_t layers = config.layers({"num_hidden_layers"});
  if (const std::int64_t chosen = config.integer(key_of_chosen); chosen < 1 || chosen > experts)
    throw config.error(key_of_chosen,
                       fmt::format("expected 1 to the {} experts, got {}", experts, chosen));
  if (layers * experts > most_experts)
    throw config.error(std::string(key),
                       fmt::format("{} experts in {} layers are more than {} in all", experts,
                                   layers, most_experts));
}

}  // namespace shardscope
