// One training step of a model as the host did it: the programs in an export of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/quantities.h"

namespace shardscope {

/// What examples/pytorch/export_program.py wrote down, checked: every number is a place in its
/// table, and no value is used before it is there.
struct ExportedProgram {
  static constexpr std::int32_t none = -1;  ///< among values: Python's None

  struct Layout {
    Dtype dtype = Dtype::float32;
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
    std::int64_t offset = 0;  ///< in elements
  };
  struct Storage {
    Bytes bytes;
    bool on_host = false;
  };
  struct Value {
    /// constant: a tensor that the model has and did not register; made: in the step.
    enum class Kind : std::uint8_t { parameter, buffer, input, constant, made };
    Kind kind = Kind::made;
    std::int32_t layout = 0;
    std::int32_t storage = 0;
    std::string name = {};    ///< of a parameter or a buffer
    std::int32_t place = -1;  ///< of an input
  };
  struct Event {
    /// call: `inputs` are a module's arguments, `subject` the module, `number` how many are
    /// positional. leave: `outputs` are what it returns, `number` is the event of its call. node:
    /// `subject` is made. save: `subject` keeps inputs[0] as its `number`th. operation: `subject`
    /// is an operator. history: outputs[0] is output `number` of the node `subject`. alias:
    /// outputs[0] lies in the storage of inputs[0]. attention: query, key, value, mask. load:
    /// outputs[0] is what the running node saved as its `number`th. death: of inputs[0]. linear:
    /// input, weight and bias; how it is done follows, up to the event `number`.
    enum class Kind : std::uint8_t {
      call,
      leave,
      node,
      save,
      operation,
      history,
      alias,
      attention,
      load,
      death,
      linear,
      linear_end
    };
    Kind kind = Kind::operation;
    std::int32_t subject = none;
    std::int32_t number = none;
    std::vector<std::int32_t> inputs = {};
    std::vector<std::int32_t> outputs = {};
    std::int64_t flops = -1;  ///< of an operation; -1: unknown
    double dropout = 0;       ///< of attention
    bool causal = false;
    bool grouped_queries = false;
  };
  /// A node of autograd. Leaves (AccumulateGrad) are none of these.
  struct Node {
    struct Output {
      Dtype dtype = Dtype::float32;
      std::vector<std::int64_t> shape;
      bool on_host = false;
    };
    std::string name;
    std::vector<Output> outputs;
    std::vector<std::int32_t> edges;      ///< values whose gradients it makes
    std::vector<std::int32_t> gradients;  ///< values: what comes in, one an output
    std::vector<Event> steps;
    std::vector<std::int32_t> results;  ///< one an edge
    std::vector<std::int32_t> deaths;   ///< values of the forward that nobody has after it
    std::int32_t saved = 0;             ///< how many tensors it keeps
  };

  struct Input {
    Dtype dtype = Dtype::float32;
    std::vector<std::int64_t> shape;
  };

  std::int64_t batch = 1;     ///< sequences
  std::int64_t sequence = 1;  ///< tokens of each
  std::vector<Input> inputs;  ///< of the model, positional ones first
  Dtype parameters = Dtype::float32;
  std::optional<Dtype> autocast;
  std::vector<std::string> operators;
  std::vector<Layout> layouts;
  std::vector<Storage> storages;
  std::vector<Value> values;
  std::vector<std::string> modules;  ///< names, which a call's `subject` is a place in
  std::vector<Event> forward;
  std::vector<std::int32_t> outputs;  ///< what the model returned
  std::int32_t loss = 0;
  std::vector<Node> nodes;
};

/// The programs of an export: one for each size, dtype of parameters and dtype of autocast that it
/// was made for.
struct ExportedStep {
  std::vector<ExportedProgram> programs;

  /// That are there, ascending.
  std::vector<std::int64_t> sequences() const;
  std::vector<std::int64_t> batches(std::int64_t sequence) const;
  bool has(std::int64_t batch, std::int64_t sequence) const;
};

}  // namespace shardscope
