// describe() of record.py: what the model holds.
#include <set>

#include "tests/recordings/finetune.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using namespace eager;

Json shape_of(const Tensor& tensor) {
  Json shape = Json::array();
  for (const std::int64_t size : tensor.sizes()) shape.push_back(size);
  return shape;
}

std::string dtype_name(Dtype dtype) { return std::string(name_of(dtype)); }

/// "model.layers.3.mlp" to "model.layers.*.mlp".
std::string of_all_layers(std::string name) {
  for (const char* list : {".layers.", ".h."}) {
    const std::size_t at = name.find(list);
    if (at == std::string::npos) continue;
    const std::size_t begin = at + std::string_view(list).size();
    const std::size_t end = name.find('.', begin);
    if (end != std::string::npos) name.replace(begin, end - begin, "*");
  }
  return name;
}

/// One entry for all layers that have the same information.
class Groups {
 public:
  void add(const std::string& name, const Json& info) {
    const std::string key = of_all_layers(name);
    for (Group& group : groups_)
      if (group.name == key && group.info == info) {
        ++group.count;
        return;
      }
    groups_.push_back({key, info, 1});
  }
  Json rows() const {
    Json rows = Json::array();
    for (const Group& group : groups_) {
      Json row{{"name", group.name}, {"count", group.count}};
      row.update(group.info);
      rows.push_back(row);
    }
    return rows;
  }

 private:
  struct Group {
    std::string name;
    Json info;
    int count;
  };
  std::vector<Group> groups_;
};

struct Totals {
  std::int64_t elements = 0, bytes = 0;
};

Json row_of(const Tensor& tensor) {
  return {{"shape", shape_of(tensor)}, {"dtype", dtype_name(tensor.dtype())}};
}

Json quantized_row(const Tensor& packed, const QuantizedLayer& layer) {
  Json row = row_of(packed);
  row["class"] = layer.is_4bit() ? "Params4bit" : "Int8Params";
  Json state = Json::object();
  if (!layer.is_4bit()) state["CB"] = {dtype_name(packed.dtype()), shape_of(packed)};
  for (const auto& [name, tensor] : layer.state())
    state[name] = {dtype_name(tensor.dtype()), shape_of(tensor)};
  row["quant_state"] = state;
  if (layer.is_4bit()) {
    Json shape = Json::array();
    for (const std::int64_t size : layer.shape()) shape.push_back(size);
    row["logical_shape"] = shape;
  }
  return row;
}

}  // namespace

Json described_model(const FineTuneCase& recorded) {
  SessionSettings settings;
  settings.device = Device::meta;
  Session meta(settings);
  const FineTuned tuned = fine_tuned(
      meta, meta, {recorded.config, recorded.setup.model, *recorded.setup.fine_tuning}, {});
  Groups trainable, frozen, buffers;
  Totals of_trainable, of_frozen;
  std::int64_t state_bytes = 0;
  for (const NamedParameter& p : named_parameters_of(*tuned.module)) {
    const auto layer = p.place == 0 ? tuned.quantized.find(p.module) : nullptr;
    const Tensor& tensor = p.tensor();
    (tensor.requires_grad() ? trainable : frozen)
        .add(p.name, layer ? quantized_row(tensor, *layer) : row_of(tensor));
    Totals& totals = tensor.requires_grad() ? of_trainable : of_frozen;
    totals.elements += tensor.numel();
    totals.bytes += tensor.bytes().count;
    if (!layer) continue;
    for (const auto& [name, state] : layer->state()) state_bytes += state.bytes().count;
  }
  const bool on_meta = recorded.settings.at("load") == "meta";
  for (const auto& [name, buffer] : named_buffers_of(*tuned.module)) {
    Json row = row_of(buffer);
    row["device"] = on_meta ? "meta" : "cuda";
    buffers.add(name, row);
  }
  return {{"trainable_parameters", of_trainable.elements},
          {"trainable_bytes", of_trainable.bytes},
          {"frozen_stored_elements", of_frozen.elements},
          {"frozen_bytes", of_frozen.bytes},
          {"quant_state_bytes", state_bytes},
          {"trainable", trainable.rows()},
          {"frozen", frozen.rows()},
          {"buffers", buffers.rows()}};
}

}  // namespace shardscope::recordings
