// Operator graph: the forward operators of one micro-batch in execution order, what each saves, and
// the backward operators that follow from them.
#pragma once

#include <string>
#include <vector>

#include "core/base/precision.h"
#include "core/base/quantities.h"
#include "core/model/model.h"
#include "core/native/pipeline_stages.h"
#include "core/schedule/kernel.h"
#include "core/schedule/schedule.h"
#include "core/schedule/target.h"

namespace shardscope {

struct ValueTag;
using ValueId = Id<ValueTag>;

enum class ValueRole : std::uint8_t {
  input,       ///< tokens, targets
  activation,  ///< made in the forward
  gradient,    ///< of an activation
  parameter,
  parameter_gradient,
  loss,
  table,  ///< computed once (rotary cos and sin)
};

struct Value {
  std::string name;
  ValueRole role = ValueRole::activation;
  Bytes bytes;
  ParameterId parameter;  ///< of the roles parameter and parameter_gradient
};

/// An operand of an operator, in the kernel's order; absent if `value` is none.
struct GraphOperand {
  ValueId value;
  Bytes offset;
  Bytes bytes;
  Access access = Access::read;
};

/// Which part of the model an operator belongs to: a block, or the root before and after the
/// blocks.
struct Place {
  static constexpr int before_blocks = -1;
  int block = before_blocks;  ///< 0 .. blocks-1; `blocks` after them
};

struct Operator {
  std::string name;  ///< the module's name, or what it computes
  Kernel kernel;
  Place place;
  std::vector<GraphOperand> operands;
  std::vector<ValueId> saves;  ///< activations that its backward reads
  Phase phase = Phase::forward;
  bool recomputed = false;  ///< a forward operator run again in the backward
};

/// A stage's blocks in the graph, and what goes between it and its neighbours; none where it begins
/// or ends, or where nothing before it is trained.
struct GraphSegment {
  StageSegment stage;
  ValueId received, sent;
  ValueId received_gradient;  ///< of what it sent
  ValueId sent_gradient;      ///< of what it received
};

struct OperatorGraph {
  std::vector<GraphSegment> segments;  ///< in the order of their operators in `forward`
  std::vector<Value> values;
  std::vector<Operator> setup;     ///< once, before the first step
  std::vector<Operator> forward;   ///< up to what the head reads
  std::vector<Operator> loss;      ///< head, loss and the head's gradients, chunk by chunk
  std::vector<Operator> backward;  ///< of `forward`; recomputed forward operators included
  /// `loss` and `backward` behind a forward that is run again as a whole (`checkpoint_stage`), of
  /// the first `micro_batches_again` micro-batches.
  std::vector<Operator> loss_again, backward_again;
  int micro_batches_again = 0;
  int blocks = 0;
};

/// The tokens of one micro-batch on one rank, and what is computed with.
struct BatchShape {
  std::int64_t batch = 1;
  std::int64_t length = 1;
  /// 1 / (micro-batches * data-parallel ranks): gradients and losses then simply add up.
  double loss_scale = 1;
  PrecisionDtypes dtypes;
  Fusions fusions;
  /// Weight gradients of linear layers are computed later than the gradients of their inputs
  /// (pipelines that split the backward), so that nothing may be added in place to what they read.
  bool delays_weight_gradients = false;
  /// Of logits that may exist at once, see logits_chunks.h.
  Bytes logits = most_logits;
  std::int64_t rows() const { return batch * length; }
};

/// Forward and backward of these stages. Throws Error where the model has no decoder or the
/// sequence exceeds its positions.
OperatorGraph lower(const Model& model, const BatchShape& shape,
                    const std::vector<StageSegment>& stages);

}  // namespace shardscope
