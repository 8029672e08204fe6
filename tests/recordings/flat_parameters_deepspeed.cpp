// deepspeed_zero.json: partitions of DeepSpeed engines.
#include <nlohmann/json.hpp>
#include <regex>

#include "core/base/refusal.h"
#include "core/pytorch/plans/deepspeed_flat_groups.h"
#include "core/pytorch/plans/deepspeed_zero3.h"
#include "tests/recordings/flat_parameters.h"
#include "tests/recordings/recorded_models.h"
#include "tests/recordings/recorded_outcome.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

bool is_enabled(const Json& config, const char* key) {
  return config.contains(key) && config.at(key).value("enabled", false);
}

ZeroSettings settings_of(const Json& given) {
  const Json& config = given.at("config");
  const Json& zero = config.at("zero_optimization");
  ZeroSettings settings;
  settings.stage = zero.at("stage").get<int>();
  settings.world = given.at("world").get<int>();
  if (is_enabled(config, "bf16")) settings.precision = Dtype::bfloat16;
  if (is_enabled(config, "fp16")) settings.precision = Dtype::float16;
  if (config.contains("data_types") && config.at("data_types").contains("grad_accum_dtype"))
    settings.gradient_accumulation = recorded_dtype(config.at("data_types").at("grad_accum_dtype"));
  settings.round_robin_gradients = zero.value("round_robin_gradients", false);
  settings.parameter_alignment = zero.value("parameter_alignment", false);
  settings.sub_group_size = zero.value("sub_group_size", settings.sub_group_size);
  settings.parameter_persistence_threshold =
      zero.value("stage3_param_persistence_threshold", settings.parameter_persistence_threshold);
  settings.model_persistence_threshold =
      zero.value("stage3_model_persistence_threshold", settings.model_persistence_threshold);
  return settings;
}

/// The recorder's optimizer: every parameter goes to the first group whose pattern fits.
OptimizerGroups groups_of(const Json& given, const ModuleTree& tree) {
  const Json patterns = given.value("groups", Json::array({".*"}));
  OptimizerGroups groups(patterns.size());
  for (const std::int32_t id : all_parameters(tree))
    for (std::size_t i = 0; i < patterns.size(); ++i)
      if (std::regex_match(tree.parameters[static_cast<std::size_t>(id)].name,
                           std::regex(patterns.at(i).get<std::string>()))) {
        groups[i].push_back(id);
        break;
      }
  return groups;
}

/// A case in the recording's format.
class Engine {
 public:
  Engine(const ModuleTree& tree, const Json& given)
      : tree_(tree), groups_(groups_of(given, tree)), settings_(settings_of(given)) {}

  Json result() const {
    switch (zero_optimizer(settings_)) {
      case ZeroOptimizer::bf16:
        return flat_result("BF16_Optimizer", [&](const ZeroFlatGroup& g) { return bf16_row(g); });
      case ZeroOptimizer::stage_1_and_2:
        return flat_result("DeepSpeedZeroOptimizer",
                           [&](const ZeroFlatGroup& g) { return stage_1_or_2_row(g); });
      case ZeroOptimizer::stage_3:
        break;
    }
    return stage_3_result();
  }

 private:
  const TreeParameter& parameter(std::int32_t id) const {
    return tree_.parameters[static_cast<std::size_t>(id)];
  }

  Json names_of(const std::vector<std::int32_t>& parameters) const {
    Json names = Json::array();
    for (const std::int32_t id : parameters) names.push_back(parameter(id).name);
    return names;
  }

  template <class Row>
  Json by_rank(const Row& row) const {
    Json ranks = Json::object();
    for (int rank = 0; rank < settings_.world; ++rank) ranks[std::to_string(rank)] = row(rank);
    return ranks;
  }

  template <class Row>
  Json flat_result(const char* optimizer, const Row& row) const {
    Json groups = Json::array();
    for (const ZeroFlatGroup& group : zero_flat_groups(tree_, groups_, settings_))
      groups.push_back(row(group));
    return {{"optimizer_class", optimizer}, {"alignment_factor", 2}, {"groups", groups}};
  }

  Json flat_parameters(const ZeroFlatGroup& group) const {
    Json rows = Json::array();
    for (const std::int32_t id : group.parameters)
      rows.push_back(
          Json::array({parameter(id).name, parameter(id).shape, parameter(id).elements()}));
    return rows;
  }

  Json partition_sizes(const ZeroFlatGroup& group) const {
    return std::vector<std::int64_t>(static_cast<std::size_t>(settings_.world),
                                     group.partition_elements);
  }

  Json stage_1_or_2_row(const ZeroFlatGroup& group) const {
    const Json ranks = by_rank([&](int rank) -> Json {
      const ZeroPartition partition = zero_partition(tree_, group, rank);
      return {{"padding", partition.padding_elements},
              {"params_in_partition", names_of(partition.parameters)},
              {"first_offset", partition.first_offset},
              {"master_numel", group.partition_elements},
              {"master_dtype", "float32"}};
    });
    return {
        {"params", flat_parameters(group)},           {"offsets", group.offsets},
        {"padding_after_param", group.padding},       {"flat_numel", group.flat_elements},
        {"flat_dtype", name_of(group.dtype)},         {"partition_numels", partition_sizes(group)},
        {"partition_size", group.partition_elements}, {"ranks", ranks}};
  }

  Json bf16_row(const ZeroFlatGroup& group) const {
    const Json ranks = by_rank([&](int rank) -> Json {
      return {{"padding", booked_padding(group, rank)}, {"master_numel", group.partition_elements}};
    });
    return {{"params", flat_parameters(group)},
            {"flat_numel", group.flat_elements},
            {"partition_numels", partition_sizes(group)},
            {"fp32_gradients_flat_numel", group.flat_elements},
            {"ranks", ranks}};
  }

  Json stage_3_result() const {
    const Zero3Plan plan = zero3_plan(tree_, groups_, settings_);
    Json parameters = Json::array(), sub_groups = Json::array();
    for (const Zero3Parameter& p : plan.parameters) parameters.push_back(parameter_row(p));
    for (const Zero3SubGroup& g : plan.sub_groups) sub_groups.push_back(sub_group_row(g, plan));
    return {{"optimizer_class", "DeepSpeedZeroOptimizer_Stage3"},
            {"params", parameters},
            {"persistent_parameters", names_of(plan.persistent_parameters)},
            {"low_precision_buffer_numel", plan.partition_elements},
            {"sub_groups", sub_groups}};
  }

  Json parameter_row(const Zero3Parameter& p) const {
    const TreeParameter& source = parameter(p.parameter);
    return {{"name", source.name},
            {"shape", source.shape},
            {"ds_numel", source.elements()},
            {"partition_numel", p.partition_elements},
            {"local_numel", p.partition_elements},
            {"padding_size", p.padding_elements},
            {"persists", p.persistent},
            {"trainable", source.trainable}};
  }

  Json sub_group_row(const Zero3SubGroup& group, const Zero3Plan& plan) const {
    const Json ranks = by_rank([&](int rank) -> Json {
      Json padding = Json::array();
      for (const std::int32_t id : group.parameters)
        for (const Zero3Parameter& p : plan.parameters)
          if (p.parameter == id) padding.push_back(booked_padding(p, rank, settings_.world));
      return {{"padding", padding},
              {"master_numel", group.partition_elements},
              {"master_dtype", "float32"}};
    });
    return {{"params", names_of(group.parameters)},
            {"param_group", group.optimizer_group},
            {"flat_numel", group.partition_elements},
            {"ranks", ranks}};
  }

  const ModuleTree& tree_;
  OptimizerGroups groups_;
  ZeroSettings settings_;
};

Outcome check(const Json& recorded, const std::filesystem::path& folder, const Options& options) {
  const Json& given = recorded.at("case");
  Json got{{"name", recorded.at("name")}, {"case", given}};
  try {
    const ModuleTree tree =
        recorded_tree(recorded_model(folder, given.at("model").get<std::string>()));
    got.update(Engine(tree, given).result());
  } catch (const Refusal& refusal) {
    got["error"] = error_row(refusal);
  }
  return compared(recorded, got, options);
}

}  // namespace

FlatParametersFile deepspeed_zero_recordings() {
  return {
      .name = "deepspeed_zero",
      .fields = {"optimizer_class", "alignment_factor", "groups", "params", "persistent_parameters",
                 "low_precision_buffer_numel", "sub_groups", "ranks", "error"},
      .check = check};
}

}  // namespace shardscope::recordings
