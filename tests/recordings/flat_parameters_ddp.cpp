// ddp_assign.json and ddp_run.json: DistributedDataParallel's buckets.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/sharding/ddp_buckets.h"
#include "tests/recordings/flat_parameters.h"
#include "tests/recordings/recorded_models.h"
#include "tests/recordings/recorded_outcome.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

// --- ddp_assign -------------------------------------------------------------------------------

std::vector<BucketTensor> tensors_of(const Json& given, const std::filesystem::path& folder) {
  std::vector<BucketTensor> tensors;
  const auto add = [&](std::int64_t elements, Dtype dtype) {
    tensors.push_back({.bytes = bytes_of(elements, dtype), .dtype = dtype, .index = {}});
  };
  if (given.contains("model")) {
    const ModuleTree tree = recorded_tree(recorded_model(folder, given.at("model")));
    for (const TreeParameter& parameter : tree.parameters)
      if (!parameter.same_as && parameter.trainable) add(parameter.elements(), parameter.dtype);
  } else {
    for (const Json& row : given.at("tensors"))
      add(row.at(0).get<std::int64_t>(), recorded_dtype(row.at(1)));
  }
  if (given.value("order", "") == "reversed") std::reverse(tensors.begin(), tensors.end());
  return tensors;
}

/// Places whose sparseness PyTorch looks up behind the end of expect_sparse, in memory that nobody
/// wrote: either answer is possible.
struct Sparseness {
  std::vector<std::size_t> undetermined;
};

Sparseness mark_sparse(const Json& given, std::vector<BucketTensor>& tensors) {
  Sparseness sparseness;
  const bool indexed = given.contains("tensor_indices");
  if (!indexed && !given.contains("expect_sparse")) return sparseness;
  const std::vector<bool> expected =
      given.value("expect_sparse", std::vector<bool>(tensors.size(), false));
  if (expected.size() != tensors.size())
    throw Refusal("RuntimeError",
                  {.where = "expect_sparse",
                   .what = fmt::format("{} flags for {} tensors", expected.size(), tensors.size()),
                   .way_out = {}});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (indexed) tensors[i].index = given.at("tensor_indices").at(i).get<std::int64_t>();
    const auto at = static_cast<std::size_t>(tensors[i].index.value_or(std::int64_t(i)));
    if (at < expected.size())
      tensors[i].sparse = expected[at];
    else
      sparseness.undetermined.push_back(i);
  }
  return sparseness;
}

Json assignment_row(const std::vector<Bucket>& buckets, const Json& limits) {
  Json indices = Json::array(), bounds = Json::array();
  for (const Bucket& bucket : buckets) {
    indices.push_back(bucket.tensors);
    bounds.push_back(bucket.limit.count);
  }
  return {{"limits", limits}, {"buckets", indices}, {"per_bucket_limits", bounds}};
}

Json assigned(const Json& given, const std::vector<BucketTensor>& tensors, const Json& limits) {
  std::vector<Bytes> bounds;
  for (const Json& limit : limits) bounds.push_back({limit.get<std::int64_t>()});
  const BucketOrder order =
      given.contains("tensor_indices") ? BucketOrder::as_closed : BucketOrder::by_first_index;
  return assignment_row(assign_buckets(tensors, bounds, order), limits);
}

/// The product's answer; where sparseness is undetermined, the one among all possible that was
/// recorded.
Json assigned_as_recorded(const Json& given, std::vector<BucketTensor> tensors,
                          const Json& recorded) {
  const Json& limits = recorded.at("limits");
  try {
    const std::vector<std::size_t> open = mark_sparse(given, tensors).undetermined;
    for (std::size_t choice = 0; choice < (std::size_t{1} << open.size()); ++choice) {
      for (std::size_t bit = 0; bit < open.size(); ++bit)
        tensors[open[bit]].sparse = (choice >> bit & 1) != 0;
      if (Json row = assigned(given, tensors, limits); row == recorded) return row;
    }
    return assigned(given, tensors, limits);
  } catch (const Refusal& refusal) {
    return {{"limits", limits}, {"error", error_row(refusal)}};
  }
}

Outcome check_assign(const Json& recorded, const std::filesystem::path& folder,
                     const Options& options) {
  const Json& given = recorded.at("case");
  const std::vector<BucketTensor> tensors = tensors_of(given, folder);
  Json bytes = Json::array(), assignments = Json::array();
  for (const BucketTensor& tensor : tensors) bytes.push_back(tensor.bytes.count);
  for (const Json& row : recorded.at("assignments"))
    assignments.push_back(assigned_as_recorded(given, tensors, without_texts(row)));
  return compared(recorded,
                  {{"name", recorded.at("name")},
                   {"case", given},
                   {"bytes", bytes},
                   {"assignments", assignments}},
                  options);
}

// --- ddp_run ----------------------------------------------------------------------------------

DdpOptions options_of(const Json& arguments) {
  DdpOptions options;
  if (arguments.contains("bucket_cap_mb") && !arguments.at("bucket_cap_mb").is_null())
    options.bucket_cap_mib = arguments.at("bucket_cap_mb").get<double>();
  options.bucket_caps_mib = arguments.value("bucket_cap_mb_list", std::vector<double>());
  options.find_unused_parameters = arguments.value("find_unused_parameters", false);
  options.static_graph = arguments.value("static_graph", false);
  return options;
}

/// Adds names, or "name." of whole modules, that the recorder's forward leaves out: parameters that
/// a node made on the spot holds itself, and children not in `order`.
void add_unused(const Json& node, const std::string& prefix, const Json& order,
                std::vector<std::string>& unused) {
  const Json parameters = node.value("params", Json::object());
  for (const auto& [name, shape] : parameters.items()) unused.push_back(prefix + name);
  const Json children = node.value("children", Json::object());
  for (const auto& [name, child] : children.items()) {
    if (!order.empty() && std::find(order.begin(), order.end(), name) == order.end())
      unused.push_back(prefix + name + ".");
    else
      add_unused(child, prefix + name + ".", Json::array(), unused);
  }
}

std::vector<std::string> unused_parameters(const Json& given, const Json& spec) {
  std::vector<std::string> unused;
  if (spec.contains("root"))
    add_unused(spec.at("root"), "", given.value("order", Json::array()), unused);
  return unused;
}

/// Whether a tensor of a bucket (an index in `ddp.parameters`) is among them.
bool is_unused(const ModuleTree& tree, const DdpBuckets& ddp, std::int64_t tensor,
               const std::vector<std::string>& unused) {
  const std::int32_t id = ddp.parameters[static_cast<std::size_t>(tensor)];
  const std::string& name = tree.parameters[static_cast<std::size_t>(id)].name;
  return std::any_of(unused.begin(), unused.end(), [&](const std::string& pattern) {
    return pattern.ends_with('.') ? name.starts_with(pattern) : name == pattern;
  });
}

Json parameters_of(const Json& given, const ModuleTree& tree, const DdpBuckets& ddp) {
  const std::string prefix = given.contains("order") ? "inner." : "";
  Json rows = Json::array();
  for (const std::int32_t id : ddp.parameters) {
    const TreeParameter& parameter = tree.parameters[static_cast<std::size_t>(id)];
    rows.push_back(Json::array(
        {prefix + parameter.name, bytes_of(parameter.elements(), parameter.dtype).count}));
  }
  return rows;
}

Json constructed_of(const Json& given, const ModuleTree& tree, const DdpBuckets& ddp) {
  const Json arguments = given.value("ddp", Json::object());
  Bytes total;
  std::string sizes;
  for (const Bucket& bucket : ddp.buckets) {
    const Bytes bytes = bytes_of(tree, ddp, bucket);
    total += bytes;
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(bytes.count);
  }
  const auto flag = [&](const char* key) { return arguments.value(key, false) ? 1 : 0; };
  Json row{{"world_size", given.value("world", 2)},
           {"bucket_cap_bytes", ddp.cap.count},
           {"bucket_sizes", sizes},
           {"find_unused_parameters", flag("find_unused_parameters")},
           {"gradient_as_bucket_view", flag("gradient_as_bucket_view")},
           {"num_parameter_tensors", ddp.parameters.size()},
           {"total_parameter_size_bytes", total.count}};
  if (flag("static_graph") != 0) row["static_graph"] = 1;
  return row;
}

/// Buckets that the first iteration reduces: where nobody looks for unused parameters, those of a
/// bucket keep it and all after it waiting.
std::vector<Bucket> reduced_buckets(const ModuleTree& tree, const DdpBuckets& ddp,
                                    const std::vector<std::string>& unused) {
  const auto waits = [&](const Bucket& bucket) {
    return std::any_of(bucket.tensors.begin(), bucket.tensors.end(),
                       [&](std::int64_t tensor) { return is_unused(tree, ddp, tensor, unused); });
  };
  return {ddp.buckets.begin(), std::find_if(ddp.buckets.begin(), ddp.buckets.end(), waits)};
}

Json run_of(const Json& given, const Json& model) {
  const ModuleTree tree = recorded_tree(model);
  const DdpOptions options = options_of(given.value("ddp", Json::object()));
  const DdpBuckets ddp = ddp_buckets(tree, options);
  std::vector<Bucket> reduced = ddp.buckets;
  if (const auto refusal = refused_unused_parameters(options)) {
    reduced = reduced_buckets(tree, ddp, unused_parameters(given, model.at("spec")));
    if (reduced != ddp.buckets && given.value("iterations", 3) > 1) throw Refusal(*refusal);
  }
  Json first = Json::array();
  for (const Bucket& bucket : reduced)
    first.push_back(Json::array({bucket.tensors, bytes_of(tree, ddp, bucket).count}));
  return {{"parameters", parameters_of(given, tree, ddp)},
          {"constructed", constructed_of(given, tree, ddp)},
          {"first_buckets", first}};
}

Outcome check_run(const Json& recorded, const std::filesystem::path& folder,
                  const Options& options) {
  const Json& given = recorded.at("case");
  Json expected = recorded;
  // The first iteration's buckets are those of the constructor; later ones have a field of their
  // own.
  if (recorded.contains("iterations"))
    expected["first_buckets"] = recorded.at("iterations").at(0).at("buckets");
  if (options.leaves_out("logged") && options.leaves_out("buckets")) expected.erase("iterations");
  Json got{{"name", recorded.at("name")}, {"case", given}};
  try {
    got.update(run_of(given, recorded_model(folder, given.at("model"))));
  } catch (const Refusal& refusal) {
    got["error"] = error_row(refusal);
  }
  return compared(expected, got, options);
}

}  // namespace

FlatParametersFile ddp_assign_recordings() {
  return {.name = "ddp_assign",
          .fields = {"bytes", "assignments", "per_bucket_limits"},
          .check = check_assign};
}

FlatParametersFile ddp_run_recordings() {
  return {.name = "ddp_run",
          .fields = {"parameters", "constructed", "first_buckets", "iterations", "logged",
                     "buckets", "error"},
          .check = check_run};
}

}  // namespace shardscope::recordings
