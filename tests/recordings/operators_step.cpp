// The step that record.py of ../shared/data/pytorch/operators records, run on the engine.
#include <nlohmann/json.hpp>
#include <set>

#include "core/format/json_reader.h"
#include "core/model/huggingface.h"
#include "core/pytorch/engine/autocast.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/models/make_module.h"
#include "core/pytorch/engine/models/masks.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "tests/recordings/operators.h"
#include "tests/recordings/operators_log.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

struct Case {
  const Json& recorded;

  std::string text(const char* field) const { return recorded.at(field).get<std::string>(); }
  bool on_cuda() const { return text("device") == "cuda"; }
  eager::Device device() const { return on_cuda() ? eager::Device::cuda : eager::Device::cpu; }
  bool has_autocast() const { return text("precision") == "autocast_bf16"; }
};

eager::SessionSettings session_settings(const Case& c) {
  eager::SessionSettings settings{
      .device = c.device(), .watched = true, .fake_tensors = c.on_cuda()};
  if (!c.recorded.at("sm").is_null()) settings.compute_capability = c.recorded.at("sm").get<int>();
  const Json& kernel = c.recorded.at("kernel");
  if (!kernel.is_null())
    settings.attention = {.flash = kernel == "flash",
                          .efficient = kernel == "efficient",
                          .cudnn = kernel == "cudnn",
                          .math = kernel == "math"};
  return settings;
}

/// record.py's one_packed_sequence, which stands in where tensors have no values.
void ask_fake_packed(eager::Session& s, eager::Tensor positions) {
  using namespace eager;
  const Tensor changes = differences(s, positions, sub(s, indexed_slice(s, positions, 1, 0, 1), 1));
  const auto sequences = [&] { return cumsum(s, compare(s, Comparison::ne, changes, 1), -1); };
  const std::int64_t last = positions.size(1) - 1;
  all(s, compare(s, Comparison::eq, select(s, sequences(), 1, last), 0));
}

/// Where the tokens went is a matter of the weights' values, which the engine does not have: read
/// off the rows that nonzero returned, as far as each layer's loop went.
std::vector<eager::ExpertShares> recorded_routing(const Json& recorded) {
  std::vector<eager::ExpertShares> routing;
  const auto tensor = [&](const Json& rows) -> const Json& {
    return recorded.at("tensors").at(rows.at(0).get<std::size_t>());
  };
  for (const Json& row : recorded.at("operators")) {
    if (row.at(3) != "aten.nonzero.default") continue;
    const Json& shape = tensor(row.at(5)).at(1);
    // The first one of a layer finds the experts (one column), the others the tokens of the expert
    // at which the one-hot mask, whose experts lie side by side, was taken.
    if (shape.at(1) == 1)
      routing.emplace_back();
    else
      routing.back().push_back({.expert = tensor(row.at(4)).at(3).get<std::int64_t>(),
                                .tokens = shape.at(0).get<std::int64_t>()});
  }
  return routing;
}

eager::ModelSettings model_settings(const Case& c) {
  eager::ModelSettings settings;
  settings.attention = c.text("attention") == "eager" ? eager::AttentionImplementation::eager
                                                      : eager::AttentionImplementation::sdpa;
  settings.use_cache = c.recorded.at("use_cache").get<bool>();
  if (c.recorded.at("experts") == "eager") {
    settings.experts = eager::ExpertsImplementation::loop;
    settings.routing = recorded_routing(c.recorded);
  }
  if (c.on_cuda()) settings.ask_packed = ask_fake_packed;
  return settings;
}

Model model_of(const Case& c, const JsonValue& config) {
  const bool half = c.text("precision") == "bf16";
  return model_of_config(
      config, {.class_name = c.text("class"), .dtype = half ? Dtype::bfloat16 : Dtype::float32});
}

struct Inputs {
  eager::Tensor input_ids, labels, attention_mask;
};

Inputs make_inputs(eager::Session& s, const Case& c) {
  const auto batch = c.recorded.at("batch").get<std::int64_t>();
  const auto tokens = c.recorded.at("sequence").get<std::int64_t>();
  const eager::Like like{Dtype::int64, c.device()};
  const bool classifies = c.text("class").find("SequenceClassification") != std::string::npos;
  Inputs inputs;
  inputs.input_ids = allocate(s, like, {batch, tokens});
  inputs.labels = classifies ? allocate(s, like, {batch}) : allocate(s, like, {batch, tokens});
  if (c.recorded.at("padding").get<bool>())
    inputs.attention_mask = allocate(s, like, {batch, tokens});
  return inputs;
}

Json module_rows(eager::Module& root) {
  Json rows = Json::array();
  for (const eager::Module* module : eager::modules_of(root))
    rows.push_back(Json::array({module->name, module->class_name}));
  return rows;
}

/// What is there before the step, in the recorder's order.
void name_storages(OperatorLog& log, eager::Module& root, const Inputs& inputs) {
  for (const eager::NamedParameter& parameter : named_parameters_of(root))
    log.name_storage(parameter.tensor(), "parameter", parameter.name);
  for (const auto& [name, buffer] : named_buffers_of(root))
    log.name_storage(buffer, "buffer", name);
  log.name_storage(inputs.input_ids, "input", "input_ids");
  log.name_storage(inputs.labels, "input", "labels");
  if (inputs.attention_mask) log.name_storage(inputs.attention_mask, "input", "attention_mask");
}

eager::Tensor forward(eager::Session& s, const Case& c, eager::Module& root, const Inputs& inputs) {
  const auto run = [&] {
    return call_one(s, root, {inputs.input_ids, inputs.attention_mask, inputs.labels});
  };
  if (!c.has_autocast()) return run();
  const eager::Autocast autocast(s, Dtype::bfloat16);
  return run();
}

/// Names of the additions in a backward that nothing watches, in order.
class Additions final : public eager::Observer {
 public:
  bool running = false;
  std::vector<std::string> names;

  void on_operator(eager::Session&, const eager::OperatorCall& call) override {
    if (!running) return;
    if (call.op.name == "aten.add_.Tensor") names.emplace_back("add_");
    if (call.op.name == "aten.add.Tensor") names.emplace_back("add");
  }
};

std::vector<std::string> additions_unwatched(const Case& c, const JsonValue& config) {
  eager::SessionSettings settings = session_settings(c);
  settings.watched = false;
  eager::Session s(settings);
  Additions additions;
  s.observe(additions);
  const auto root = make_module(s, model_of(c, config), config, model_settings(c));
  const Inputs inputs = make_inputs(s, c);
  const eager::Tensor loss = forward(s, c, *root, inputs);
  additions.running = true;
  backward(s, loss);
  return additions.names;
}

/// The names are null where they cannot be matched one to one, and on cuda.
Json fan_in(const Case& c, const JsonValue& config, const OperatorLog& log) {
  const std::vector<std::size_t> rows = log.additions();
  const auto names = c.on_cuda() ? std::vector<std::string>() : additions_unwatched(c, config);
  Json table = Json::array();
  for (std::size_t i = 0; i < rows.size(); ++i)
    table.push_back(Json::array({rows[i], names.size() == rows.size() ? Json(names[i]) : Json()}));
  return table;
}

}  // namespace

Json operators_result(const Json& recorded) {
  const Case c{recorded};
  const JsonValue config =
      JsonValue::parse(recorded.at("given").dump(), "given", DuplicateKeys::last_wins);
  eager::Session s(session_settings(c));
  OperatorLog log(s);  // outlives what it watches
  const auto root = make_module(s, model_of(c, config), config, model_settings(c));
  const Inputs inputs = make_inputs(s, c);
  s.observe(log);
  name_storages(log, *root, inputs);
  log.start();
  const eager::Tensor loss = forward(s, c, *root, inputs);
  log.record_graph(loss);
  backward(s, loss);
  log.stop();
  for (const eager::NamedParameter& parameter : named_parameters_of(*root))
    if (parameter.tensor().grad())
      log.name_storage(parameter.tensor().grad(), "gradient", parameter.name);
  Json result = log.result();
  result["modules"] = module_rows(*root);
  result["fan_in"] = fan_in(c, config, log);
  return result;
}

}  // namespace shardscope::recordings
