#include "core/model/read_exported_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/base/utf8.h"

namespace shardscope {
namespace {

constexpr std::int64_t most_rows = std::int64_t{1} << 22;
constexpr std::int64_t largest_size = std::int64_t{1} << 53;
constexpr std::int64_t largest_storage = std::int64_t{1} << 50;  // 1 PiB
constexpr std::size_t most_dimensions = 7;
constexpr std::size_t most_programs = 256;
constexpr std::size_t most_nested_calls = 256;  // they are played one in the other

using Event = ExportedProgram::Event;
using Value = ExportedProgram::Value;

std::vector<JsonValue> rows_of(const JsonValue& table) {
  if (static_cast<std::int64_t>(table.size()) > most_rows)
    throw table.error(fmt::format("has {} rows, more than {}", table.size(), most_rows));
  return table.elements();
}

std::vector<std::int64_t> sizes_of(const JsonValue& list) {
  if (list.size() > most_dimensions)
    throw list.error(fmt::format("has {} dimensions, more than {}", list.size(), most_dimensions));
  std::vector<std::int64_t> sizes;
  for (const JsonValue& size : list.elements()) sizes.push_back(size.integer(0, largest_size));
  return sizes;
}

Dtype dtype_at(const JsonValue& text) { return parse_dtype(text.string(), text.where()); }

bool is_on_host(const JsonValue& device) {
  const std::string name = device.string();
  if (name != "cpu" && name != "cuda")
    throw device.error(fmt::format("unknown device \"{}\"", shown(name)), "known are cuda, cpu");
  return name == "cpu";
}

/// Bytes from the start of the storage to the end of what a layout reaches.
std::optional<std::int64_t> reach_of(const ExportedProgram::Layout& layout) {
  std::int64_t last = layout.offset;
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    if (layout.shape[i] == 0) return 0;
    std::int64_t step = 0;
    if (__builtin_mul_overflow(layout.shape[i] - 1, layout.strides[i], &step) ||
        __builtin_add_overflow(last, step, &last) || last > largest_size)
      return std::nullopt;
  }
  return bytes_of(last + 1, layout.dtype).count;
}

bool holds_few_elements(const ExportedProgram::Layout& layout) {
  std::int64_t elements = 1;
  for (const std::int64_t size : layout.shape)
    if (__builtin_mul_overflow(elements, size, &elements) || elements > largest_size) return false;
  return true;
}

class ProgramReader {
 public:
  ProgramReader(const JsonValue& json, const Model& model) : json_(json) {
    for (const Module& module : model.modules) {
      modules_.emplace(module.name, static_cast<std::int32_t>(program_.modules.size()));
      program_.modules.push_back(module.name);
    }
    for (const Parameter& parameter : model.parameters) parameters_.insert(parameter.name);
    for (const ModelBuffer& buffer : model.buffers) buffers_.insert(buffer.name);
  }

  ExportedProgram read() {
    json_.only_keys({"batch", "sequence", "inputs", "parameters", "autocast", "operators",
                     "layouts", "storages", "values", "forward", "outputs", "loss", "nodes"});
    program_.batch = json_.at("batch").integer(1, largest_size);
    program_.sequence = json_.at("sequence").integer(1, largest_size);
    for (const JsonValue& row : rows_of(json_.at("inputs")))
      program_.inputs.push_back(
          {.dtype = dtype_at(row.at("dtype")), .shape = sizes_of(row.at("shape"))});
    program_.parameters = dtype_at(json_.at("parameters"));
    if (const auto autocast = json_.find("autocast")) program_.autocast = dtype_at(*autocast);
    for (const JsonValue& name : rows_of(json_.at("operators")))
      program_.operators.push_back(name.string());
    for (const JsonValue& row : rows_of(json_.at("layouts"))) read_layout(row);
    for (const JsonValue& row : rows_of(json_.at("storages")))
      program_.storages.push_back({.bytes = Bytes{field(row, 2, 0).integer(0, largest_storage)},
                                   .on_host = is_on_host(row[1])});
    for (const JsonValue& row : rows_of(json_.at("values"))) read_value(row);
    for (const JsonValue& row : rows_of(json_.at("nodes"))) read_node(row);
    is_there_ = brought_along();
    for (const JsonValue& row : rows_of(json_.at("forward"))) {
      program_.forward.push_back(read_event(row));
      check_forward(row, program_.forward.back());
    }
    if (!open_.empty()) throw json_.at("forward").error("a module's call has no return");
    if (linear_ >= 0) throw json_.at("forward").error("a linear has no linear_end");
    for (const JsonValue& value : json_.at("outputs").elements())
      program_.outputs.push_back(value_or_none(value));
    program_.loss = value_at(json_.at("loss"));
    need(json_.at("loss"), program_.loss);
    read_backward();
    return std::move(program_);
  }

 private:
  static std::int32_t place(const JsonValue& index, std::size_t size) {
    return static_cast<std::int32_t>(index.integer(0, static_cast<std::int64_t>(size) - 1));
  }
  std::int32_t value_at(const JsonValue& index) const {
    return place(index, program_.values.size());
  }
  std::int32_t value_or_none(const JsonValue& index) const {
    return static_cast<std::int32_t>(
        index.integer(-1, static_cast<std::int64_t>(program_.values.size()) - 1));
  }
  std::vector<std::int32_t> values_at(const JsonValue& list) const {
    std::vector<std::int32_t> values;
    for (const JsonValue& index : list.elements()) values.push_back(value_or_none(index));
    return values;
  }
  /// Element `i` of a row of `size`.
  static JsonValue field(const JsonValue& row, std::size_t size, std::size_t i) {
    if (row.size() != size)
      throw row.error(fmt::format("has {} fields, expected {}", row.size(), size));
    return row[i];
  }

  void read_layout(const JsonValue& row) {
    ExportedProgram::Layout layout{.dtype = dtype_at(field(row, 4, 0)),
                                   .shape = sizes_of(row[1]),
                                   .strides = sizes_of(row[2]),
                                   .offset = row[3].integer(0, largest_size)};
    if (layout.shape.size() != layout.strides.size())
      throw row.error("has another number of strides than of dimensions");
    if (!reach_of(layout) || !holds_few_elements(layout))
      throw row.error("has or reaches over more than 2^53 elements");
    program_.layouts.push_back(std::move(layout));
  }

  void read_value(const JsonValue& row) {
    static constexpr std::array kinds{"parameter", "buffer", "input", "constant", "made"};
    if (row.size() < 3) throw row.error("has fewer than 3 fields");
    const std::string kind = row[0].string();
    const auto found = std::find(kinds.begin(), kinds.end(), kind);
    if (found == kinds.end())
      throw row[0].error(fmt::format("unknown kind \"{}\"", shown(kind)),
                         "known are parameter, buffer, input, constant, made");
    Value value{.kind = static_cast<Value::Kind>(found - kinds.begin()),
                .layout = place(row[1], program_.layouts.size()),
                .storage = place(row[2], program_.storages.size())};
    if (value.kind == Value::Kind::parameter || value.kind == Value::Kind::buffer) {
      value.name = field(row, 4, 3).string();
      const auto& known = value.kind == Value::Kind::parameter ? parameters_ : buffers_;
      if (!known.contains(value.name))
        throw row[3].error(fmt::format("there is no {} \"{}\"", kind, shown(value.name)));
    }
    if (value.kind == Value::Kind::input)
      value.place = place(field(row, 4, 3), program_.inputs.size());
    const auto reach = reach_of(program_.layouts[static_cast<std::size_t>(value.layout)]);
    const Bytes held = program_.storages[static_cast<std::size_t>(value.storage)].bytes;
    if (*reach > held.count)
      throw row.error(fmt::format("reaches {} bytes into a storage of {}", *reach, held.count));
    program_.values.push_back(std::move(value));
  }

  void read_node(const JsonValue& row) {
    row.only_keys({"name", "outputs", "edges", "gradients", "steps", "results", "deaths"});
    ExportedProgram::Node node{.name = row.at("name").string()};
    for (const JsonValue& output : row.at("outputs").elements())
      node.outputs.push_back({.dtype = dtype_at(field(output, 3, 0)),
                              .shape = sizes_of(output[1]),
                              .on_host = is_on_host(output[2])});
    node.edges = values_at(row.at("edges"));
    node.gradients = values_at(row.at("gradients"));
    node.results = values_at(row.at("results"));
    if (node.gradients.size() != node.outputs.size())
      throw row.at("gradients").error("has another number of gradients than the node of outputs");
    if (node.results.size() > node.edges.size())
      throw row.at("results").error("has more results than the node has edges");
    for (const JsonValue& value : row.at("deaths").elements())
      node.deaths.push_back(value_at(value));
    program_.nodes.push_back(std::move(node));
    made_.push_back(false);
  }

  // ---- Events

  Event read_event(const JsonValue& row) const {
    if (row.size() == 0) throw row.error("has no field");
    const std::string kind = row[0].string();
    if (kind == "op") return read_operation(row);
    if (kind == "die") return {.kind = Event::Kind::death, .inputs = {value_at(field(row, 2, 1))}};
    if (kind == "alias")
      return {.kind = Event::Kind::alias,
              .inputs = {value_at(field(row, 3, 2))},
              .outputs = {value_at(row[1])}};
    if (kind == "load")
      return {.kind = Event::Kind::load,
              .number = place(field(row, 3, 2), most_rows),
              .outputs = {value_at(row[1])}};
    return read_forward_event(row, kind);
  }

  Event read_operation(const JsonValue& row) const {
    return {.kind = Event::Kind::operation,
            .subject = place(field(row, 5, 1), program_.operators.size()),
            .inputs = given_values(row[2]),
            .outputs = given_values(row[3]),
            .flops = row[4].integer(-1)};
  }

  std::vector<std::int32_t> given_values(const JsonValue& list) const {
    std::vector<std::int32_t> values;
    for (const JsonValue& index : list.elements()) values.push_back(value_at(index));
    return values;
  }

  Event read_forward_event(const JsonValue& row, const std::string& kind) const {
    if (kind == "call") {
      const std::string name = field(row, 4, 1).string();
      const auto found = modules_.find(name);
      if (found == modules_.end())
        throw row[1].error(fmt::format("there is no module \"{}\"", shown(name)));
      std::vector<std::int32_t> arguments = values_at(row[2]);
      const auto number = place(row[3], arguments.size() + 1);
      return {.kind = Event::Kind::call,
              .subject = found->second,
              .number = number,
              .inputs = std::move(arguments)};
    }
    if (kind == "return")
      return {.kind = Event::Kind::leave, .outputs = values_at(field(row, 2, 1))};
    if (kind == "node")
      return {.kind = Event::Kind::node, .subject = place(field(row, 2, 1), program_.nodes.size())};
    if (kind == "save")
      return {.kind = Event::Kind::save,
              .subject = place(field(row, 3, 1), program_.nodes.size()),
              .inputs = {value_at(row[2])}};
    if (kind == "history")
      return {.kind = Event::Kind::history,
              .subject = place(field(row, 4, 2), program_.nodes.size()),
              .number = place(row[3], most_rows),
              .outputs = {value_at(row[1])}};
    if (kind == "linear")
      return {.kind = Event::Kind::linear,
              .inputs = {value_at(field(row, 5, 1)), value_at(row[2]), value_or_none(row[3])},
              .outputs = {value_at(row[4])}};
    if (kind == "linear_end") return {.kind = Event::Kind::linear_end};
    if (kind == "attention") {
      check_attention(row);
      return {.kind = Event::Kind::attention,
              .inputs = {value_at(field(row, 9, 1)), value_at(row[2]), value_at(row[3]),
                         value_or_none(row[4])},
              .outputs = {value_at(row[5])},
              .dropout = row[6].number(0, 1),
              .causal = row[7].boolean(),
              .grouped_queries = row[8].boolean()};
    }
    throw row[0].error(
        fmt::format("unknown event \"{}\"", shown(kind)),
        "known are op, alias, die, load, call, return, node, save, history, attention, "
        "linear, linear_end");
  }

  const std::vector<std::int64_t>& shape_of(std::int32_t value) const {
    return program_
        .layouts[static_cast<std::size_t>(program_.values[static_cast<std::size_t>(value)].layout)]
        .shape;
  }

  /// Query, key and value are [batch, heads, tokens, width].
  void check_attention(const JsonValue& row) const {
    for (std::size_t i = 1; i <= 3; ++i) {
      const auto& shape = shape_of(value_at(field(row, 9, i)));
      if (shape.size() != 4)
        throw row[i].error(fmt::format("has {} dimensions, expected 4", shape.size()));
    }
    const std::vector<std::int64_t>&query = shape_of(value_at(row[1])),
          &key = shape_of(value_at(row[2])), &value = shape_of(value_at(row[3]));
    const bool fits = query[0] == key[0] && key[0] == value[0] && key[1] == value[1] &&
                      key[2] == value[2] && query[3] == key[3] && key[1] > 0 &&
                      query[1] % key[1] == 0;
    if (!fits) throw row.error("has a query, key and value that do not go together");
  }

  // ---- What is there when

  std::vector<bool> brought_along() const {
    std::vector<bool> there;
    for (const Value& value : program_.values) there.push_back(value.kind != Value::Kind::made);
    return there;
  }

  void need(const JsonValue& row, std::int32_t value) const {
    if (value >= 0 && !is_there_[static_cast<std::size_t>(value)])
      throw row.error(fmt::format("value {} is used before it is made", value));
  }

  void put(std::int32_t value) { is_there_[static_cast<std::size_t>(value)] = true; }

  void need_node(const JsonValue& row, std::int32_t node) const {
    if (!made_[static_cast<std::size_t>(node)])
      throw row.error(fmt::format("node {} is used before it is made", node));
  }

  void check_forward(const JsonValue& row, Event& event) {
    for (const std::int32_t value : event.inputs) need(row, value);
    if (linear_ >= 0 && (event.kind == Event::Kind::call || event.kind == Event::Kind::leave))
      throw row.error("a module's call in a linear");
    ExportedProgram::Node* node = event.kind == Event::Kind::node ||
                                          event.kind == Event::Kind::save ||
                                          event.kind == Event::Kind::history
                                      ? &program_.nodes[static_cast<std::size_t>(event.subject)]
                                      : nullptr;
    switch (event.kind) {
      case Event::Kind::call:
        if (open_.size() == most_nested_calls)
          throw row.error(fmt::format("is nested in {} calls, too many", open_.size()));
        if (program_.forward.size() > 1 &&
            program_.modules[static_cast<std::size_t>(event.subject)].empty())
          throw row.error("the model calls itself");
        open_.push_back(static_cast<std::int32_t>(program_.forward.size()) - 1);
        break;
      case Event::Kind::leave:
        if (open_.empty()) throw row.error("a return without a call");
        event.number = std::exchange(open_.back(), 0);
        open_.pop_back();
        for (const std::int32_t value : event.outputs) need(row, value);
        return;
      case Event::Kind::node:
        if (made_[static_cast<std::size_t>(event.subject)])
          throw row.error(fmt::format("node {} is made twice", event.subject));
        for (const std::int32_t value : node->edges) need(row, value);
        made_[static_cast<std::size_t>(event.subject)] = true;
        break;
      case Event::Kind::save:
        need_node(row, event.subject);
        event.number = node->saved++;
        break;
      case Event::Kind::history:
        need_node(row, event.subject);
        need(row, event.outputs[0]);
        if (static_cast<std::size_t>(event.number) >= node->outputs.size())
          throw row.error(
              fmt::format("node {} has {} outputs", event.subject, node->outputs.size()));
        return;
      case Event::Kind::death:
        is_there_[static_cast<std::size_t>(event.inputs[0])] = false;
        break;
      case Event::Kind::linear:
        if (linear_ >= 0) throw row.error("a linear in a linear");
        linear_ = static_cast<std::int32_t>(program_.forward.size()) - 1;
        return;
      case Event::Kind::linear_end:
        if (linear_ < 0) throw row.error("a linear_end without a linear");
        program_.forward[static_cast<std::size_t>(linear_)].number =
            static_cast<std::int32_t>(program_.forward.size()) - 1;
        need(row,
             program_.forward[static_cast<std::size_t>(std::exchange(linear_, -1))].outputs[0]);
        break;
      case Event::Kind::load:
        throw row.error("only a backward loads what was saved");
      default:
        break;
    }
    for (const std::int32_t value : event.outputs) put(value);
  }

  void read_backward() {
    const std::vector<JsonValue> rows = json_.at("nodes").elements();
    for (std::size_t i = rows.size(); i-- > 0;) {
      ExportedProgram::Node& node = program_.nodes[i];
      for (const std::int32_t value : node.gradients)
        if (value >= 0) put(value);
      for (const JsonValue& row : rows_of(rows[i].at("steps")))
        node.steps.push_back(backward_step(row, node));
      for (const std::int32_t value : node.results) need(rows[i].at("results"), value);
    }
  }

  Event backward_step(const JsonValue& row, const ExportedProgram::Node& node) {
    Event event = read_event(row);
    const bool known = event.kind == Event::Kind::operation || event.kind == Event::Kind::alias ||
                       event.kind == Event::Kind::load || event.kind == Event::Kind::death;
    if (!known) throw row[0].error("does not belong in a backward");
    if (event.kind == Event::Kind::load && event.number >= node.saved)
      throw row[2].error(fmt::format("the node saves {} tensors", node.saved));
    for (const std::int32_t value : event.inputs) need(row, value);
    if (event.kind == Event::Kind::death)
      is_there_[static_cast<std::size_t>(event.inputs[0])] = false;
    for (const std::int32_t value : event.outputs) put(value);
    return event;
  }

  const JsonValue& json_;
  ExportedProgram program_;
  std::unordered_map<std::string, std::int32_t> modules_;
  std::unordered_set<std::string> parameters_;
  std::unordered_set<std::string> buffers_;
  std::vector<bool> is_there_;      ///< by value
  std::vector<bool> made_;          ///< by node
  std::int32_t linear_ = -1;        ///< event of one that has not ended
  std::vector<std::int32_t> open_;  ///< events of calls that have not returned
};

void check_begin(const JsonValue& json, const ExportedProgram& program) {
  const bool begins_with_model =
      !program.forward.empty() && program.forward[0].kind == Event::Kind::call &&
      program.modules[static_cast<std::size_t>(program.forward[0].subject)].empty();
  if (!begins_with_model)
    throw json.at("forward").error("the step does not begin with the model's own call");
}

}  // namespace

ExportedStep read_exported_step(const JsonValue& programs, const Model& model) {
  if (programs.size() > most_programs)
    throw programs.error(
        fmt::format("has {} programs, more than {}", programs.size(), most_programs));
  if (programs.size() == 0) throw programs.error("has no program");
  ExportedStep step;
  for (const JsonValue& json : programs.elements()) {
    step.programs.push_back(ProgramReader(json, model).read());
    check_begin(json, step.programs.back());
  }
  return step;
}

std::vector<std::int64_t> ExportedStep::sequences() const {
  std::set<std::int64_t> all;
  for (const ExportedProgram& program : programs) all.insert(program.sequence);
  return {all.begin(), all.end()};
}

std::vector<std::int64_t> ExportedStep::batches(std::int64_t sequence) const {
  std::set<std::int64_t> all;
  for (const ExportedProgram& program : programs)
    if (program.sequence == sequence) all.insert(program.batch);
  return {all.begin(), all.end()};
}

bool ExportedStep::has(std::int64_t batch, std::int64_t sequence) const {
  return std::any_of(programs.begin(), programs.end(), [&](const ExportedProgram& program) {
    return program.batch == batch && program.sequence == sequence;
  });
}

}  // namespace shardscope
