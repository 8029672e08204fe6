// ddp_assign.json and ddp_run.json: DistributedDataParallel's buckets.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/pytorch/engine/engine.h"
#include "core/pytorch/plans/ddp_buckets.h"
#include "core/pytorch/runtimes/ddp/distributed_data_parallel.h"
#include "tests/recordings/eager_models.h"
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

using namespace eager;  // the runs'

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

/// The iterations of a case, run on the engine.
class DdpIterations {
 public:
  DdpIterations(const Json& given, const Json& model, const ModuleTree& tree, Json constructed)
      : given_(given),
        spec_(model.at("spec")),
        groups_(given.value("world", 2), 0),
        s_({.device = Device::cpu}),
        logged_(std::move(constructed)) {
    const Json arguments = given.value("ddp", Json::object());
    ddp::Options options{
        .buckets = options_of(arguments),
        .gradient_as_bucket_view = arguments.value("gradient_as_bucket_view", false)};
    root_ = eager_module(s_, spec_, tree, given.value("order", std::vector<std::string>()));
    for (const NamedParameter& named : named_parameters_of(*root_)) {
      parameters_.push_back(named.tensor());
      if (named.tensor().requires_grad()) trained_.push_back(named.tensor());
    }
    reduced_ = std::make_unique<Reduced>();
    options.watchers = {reduced_.get()};
    ddp_ = std::make_unique<ddp::DistributedDataParallel>(s_, root_, groups_.world(), options);
  }

  Json run() {
    Json rows = Json::array();
    for (int i = 0; i < given_.value("iterations", 3); ++i) rows.push_back(iteration(i));
    return rows;
  }

 private:
  /// Buckets in the order in which they are reduced.
  struct Reduced : ddp::Watcher {
    std::vector<std::size_t> indices;
    void on_bucket_reduced(Session&, std::size_t index, const Tensor&) override {
      indices.push_back(index);
    }
  };

  Json iteration(int number) {
    for (const Tensor& parameter : parameters_) parameter.set_grad({});
    reduced_->indices.clear();
    if (number > 0) log_last_backward();
    const Tensor loss = eager_loss(s_, spec_, call(s_, *ddp_->module(), eager_input(s_, spec_)));
    backward(s_, loss);
    Json buckets = Json::array();
    for (const std::size_t index : reduced_->indices) {
      const ddp::Reducer::Bucket& bucket = ddp_->reducer().buckets()[index];
      buckets.push_back(Json::array({bucket.variables, bucket.gradients.bytes().count}));
    }
    return {{"logged", in_order(logged_)},
            {"buckets", buckets},
            {"grads_that_share_a_larger_storage", sharing_gradients()}};
  }

  /// Logger::set_runtime_stats_and_log: at the start of a forward, of the backward before it.
  void log_last_backward() {
    const ddp::Reducer& reducer = ddp_->reducer();
    Bytes unused;
    for (const std::size_t variable : reducer.unused()) unused += trained_[variable].bytes();
    logged_["unused_parameter_size"] = unused.count;
    const int before = logged_.value("has_rebuilt_buckets", 0);
    logged_["has_rebuilt_buckets"] = reducer.has_rebuilt_buckets() ? 1 : 0;
    if (logged_["has_rebuilt_buckets"] != before) log_rebuilt(reducer);
    if (!reducer.grad_ready_order().empty())
      logged_["prev_iteration_grad_ready_order_indices"] =
          fmt::format("{}", fmt::join(reducer.grad_ready_order(), ", "));
    logged_["num_buckets_reduced"] = reducer.buckets_reduced();
  }

  void log_rebuilt(const ddp::Reducer& reducer) {
    std::vector<std::string> indices;
    std::vector<std::int64_t> sizes;
    for (const ddp::Reducer::Bucket& bucket : reducer.buckets()) {
      indices.push_back(fmt::format("{}", fmt::join(bucket.variables, " ")));
      sizes.push_back(bucket.gradients.bytes().count);
    }
    logged_["rebuilt_bucket_sizes"] = fmt::format("{}", fmt::join(sizes, ", "));
    logged_["rebuilt_per_bucket_param_indices"] = fmt::format("{}", fmt::join(indices, ", "));
  }

  /// In the recorder's order.
  static Json in_order(const Json& logged) {
    Json row = Json::object();
    for (const char* key :
         {"world_size", "bucket_cap_bytes", "bucket_sizes", "rebuilt_bucket_sizes",
          "has_rebuilt_buckets", "rebuilt_per_bucket_param_indices",
          "prev_iteration_grad_ready_order_indices", "find_unused_parameters",
          "gradient_as_bucket_view", "num_parameter_tensors", "total_parameter_size_bytes",
          "num_buckets_reduced", "static_graph", "unused_parameter_size"})
      if (logged.contains(key)) row[key] = logged.at(key);
    return row;
  }

  int sharing_gradients() const {
    int count = 0;
    for (const Tensor& parameter : parameters_)
      if (const Tensor& gradient = parameter.grad(); gradient.defined())
        count += gradient.storage()->bytes() > gradient.bytes() ? 1 : 0;
    return count;
  }

  const Json& given_;
  const Json& spec_;
  ProcessGroups groups_;
  Session s_;
  Json logged_;
  std::shared_ptr<eager::Module> root_;
  Tensors parameters_, trained_;
  std::unique_ptr<Reduced> reduced_;
  std::unique_ptr<ddp::DistributedDataParallel> ddp_;
};

Json run_of(const Json& given, const Json& model) {
  const ModuleTree tree = recorded_tree(model);
  const DdpBuckets buckets = ddp_buckets(tree, options_of(given.value("ddp", Json::object())));
  const Json constructed = constructed_of(given, tree, buckets);
  const Json iterations = DdpIterations(given, model, tree, constructed).run();
  return {{"parameters", parameters_of(given, tree, buckets)},
          {"constructed", constructed},
          {"iterations", iterations}};
}

Outcome check_run(const Json& recorded, const std::filesystem::path& folder,
                  const Options& options) {
  const Json& given = recorded.at("case");
  Json got{{"name", recorded.at("name")}, {"case", given}};
  try {
    got.update(run_of(given, recorded_model(folder, given.at("model"))));
  } catch (const Refusal& refusal) {
    got["error"] = error_row(refusal);
  }
  return compared(recorded, got, options);
}

}  // namespace

FlatParametersFile ddp_assign_recordings() {
  return {.name = "ddp_assign",
          .fields = {"bytes", "assignments", "per_bucket_limits"},
          .check = check_assign};
}

FlatParametersFile ddp_run_recordings() {
  return {.name = "ddp_run",
          .fields = {"parameters", "constructed", "iterations", "logged", "buckets", "error"},
          .check = check_run};
}

}  // namespace shardscope::recordings
