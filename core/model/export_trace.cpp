#include "core/model/export_trace.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/utf8.h"

namespace shardscope {
namespace {

constexpr std::int64_t largest_storage = std::int64_t{1} << 50;  // 1 PiB
constexpr std::int64_t most_rows = std::int64_t{1} << 22;
constexpr std::int64_t largest_size = std::int64_t{1} << 53;

std::vector<JsonValue> rows_of(const JsonValue& trace, std::string_view key) {
  const JsonValue table = trace.at(key);
  if (static_cast<std::int64_t>(table.size()) > most_rows)
    throw table.error(fmt::format("has {} rows, more than {}", table.size(), most_rows));
  return table.elements();
}

struct Storage {
  Bytes bytes;
  bool own = false;      ///< made by forward: no parameter, buffer or input
  bool counted = false;  ///< as kept for backward
};

Storage read_storage(const JsonValue& row) {
  row.only_keys({"bytes", "kind"});
  const std::string kind = row.at("kind").string();
  if (kind != "parameter" && kind != "buffer" && kind != "input" && kind != "other")
    throw row.at("kind").error(fmt::format("unknown kind \"{}\"", shown(kind)),
                               "known are parameter, buffer, input, other");
  return {.bytes = Bytes{row.at("bytes").integer(0, largest_storage)}, .own = kind == "other"};
}

class TraceReader {
 public:
  TraceReader(const JsonValue& trace, const Model& model) : trace_(trace) {
    for (std::size_t i = 0; i < model.modules.size(); ++i) {
      modules_.emplace(model.modules[i].name, i);
      by_module_.push_back({.module = model.modules[i].name});
    }
  }

  ModelTrace read() {
    trace_.only_keys({"batch", "sequence", "tensors_are", "inputs", "execution_order", "operators",
                      "tensors", "storages"});
    ModelTrace result{.batch = trace_.at("batch").integer(1, largest_size),
                      .sequence = trace_.at("sequence").integer(1, largest_size)};
    for (const JsonValue& name : rows_of(trace_, "execution_order")) {
      module_at(name);
      result.execution_order.push_back(name.string());
    }
    for (const JsonValue& row : rows_of(trace_, "storages")) storages_.push_back(read_storage(row));
    for (const JsonValue& row : rows_of(trace_, "tensors")) read_tensor(row);
    for (const JsonValue& row : rows_of(trace_, "operators")) read_operator(row);
    for (ModelTrace::OfModule& module : by_module_)
      if (module.operators > 0) result.by_module.push_back(std::move(module));
    return result;
  }

 private:
  std::size_t module_at(const JsonValue& name) const {
    const auto found = modules_.find(name.string());
    if (found == modules_.end())
      throw name.error(fmt::format("there is no module \"{}\"", shown(name.string())));
    return found->second;
  }

  std::size_t place(const JsonValue& index, std::size_t size) const {
    return static_cast<std::size_t>(index.integer(0, static_cast<std::int64_t>(size) - 1));
  }

  void read_tensor(const JsonValue& row) {
    row.only_keys({"dtype", "shape", "storage"});
    row.at("dtype").string();  // also of kinds that no parameter has, such as complex64
    for (const JsonValue& dimension : row.at("shape").elements())
      dimension.integer(0, largest_size);
    tensors_.push_back(place(row.at("storage"), storages_.size()));
  }

  void read_operator(const JsonValue& row) {
    row.only_keys({"operator", "module", "inputs", "outputs", "saved"});
    row.at("operator").string();
    for (const char* key : {"inputs", "outputs"})
      for (const JsonValue& tensor : row.at(key).elements()) place(tensor, tensors_.size());
    const auto name = row.find("module");
    ModelTrace::OfModule& module = by_module_[name ? module_at(*name) : 0];
    ++module.operators;
    for (const JsonValue& tensor : row.at("saved").elements()) {
      Storage& storage = storages_[tensors_[place(tensor, tensors_.size())]];
      if (storage.own && !std::exchange(storage.counted, true)) module.saved += storage.bytes;
    }
  }

  const JsonValue& trace_;
  std::unordered_map<std::string_view, std::size_t> modules_;
  std::vector<ModelTrace::OfModule> by_module_;
  std::vector<Storage> storages_;
  std::vector<std::size_t> tensors_;  ///< storage of each
};

}  // namespace

ModelTrace read_trace(const JsonValue& trace, const Model& model) {
  return TraceReader(trace, model).read();
}

}  // namespace shardscope
