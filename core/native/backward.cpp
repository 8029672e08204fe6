#include "core/native/backward.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace shardscope {
namespace {

class BackwardBuilder {
 public:
  BackwardBuilder(OperatorGraph& graph, const Model& model, const BatchShape& shape)
      : graph_(graph),
        model_(model),
        gradient_dtype_(shape.dtypes.gradients),
        adds_in_place_(!shape.delays_weight_gradients),
        needs_gradient_(graph.values.size(), false),
        gradient_(graph.values.size()),
        covered_(graph.values.size()),
        gelu_of_(graph.values.size()),
        parameter_gradient_(model.parameters.size()) {}

  void build() {
    for (const GraphSegment& segment : graph_.segments)
      if (segment.received) needs_gradient_[segment.received.value] = segment.stage.gives_gradient;
    for (const auto* operators : {&graph_.forward, &graph_.loss})
      for (const Operator& op : *operators) mark_needs(op);
    derive_head();
    for (GraphSegment& segment : graph_.segments)
      if (segment.sent && needs(segment.sent)) receive_gradient(segment);
    for (auto op = graph_.forward.rbegin(); op != graph_.forward.rend(); ++op) derive(*op);
    for (GraphSegment& segment : graph_.segments)
      if (segment.received && needs(segment.received))
        segment.sent_gradient = gradient_[segment.received.value];
  }

 private:
  bool trainable(ValueId value) const {
    return value && model_.parameters[graph_.values[value.value].parameter.value].trainable;
  }
  bool needs(ValueId value) const { return value && needs_gradient_[value.value]; }

  void mark_needs(const Operator& op) {
    bool any = false;
    for (const GraphOperand& operand : op.operands) {
      if (!operand.value || operand.access == Access::write) continue;
      const bool is_parameter = graph_.values[operand.value.value].role == ValueRole::parameter;
      any = any || (is_parameter ? trainable(operand.value) : needs(operand.value));
    }
    for (const GraphOperand& operand : op.operands)
      if (operand.value && operand.access != Access::read)
        needs_gradient_[operand.value.value] = any;
    const auto* linear = op.kernel.get_if<LinearForwardKernel>();
    if (linear && linear->has_gelu) gelu_of_[op.operands[4].value.value] = op.operands[5].value;
  }

  ValueId add_value(std::string name, ValueRole role, Bytes bytes, ParameterId parameter) {
    graph_.values.push_back({std::move(name), role, bytes, parameter});
    gradient_.emplace_back();
    covered_.emplace_back();
    gelu_of_.emplace_back();
    needs_gradient_.push_back(false);
    return ValueId::of(graph_.values.size() - 1);
  }
  ValueId gradient_of_parameter(ValueId parameter) {
    if (!trainable(parameter)) return {};
    const Value value = graph_.values[parameter.value];
    ValueId& gradient = parameter_gradient_[value.parameter.value];
    if (!gradient) {
      const std::int64_t elements = model_.parameters[value.parameter.value].elements();
      gradient = add_value(value.name, ValueRole::parameter_gradient,
                           bytes_of(elements, gradient_dtype_), value.parameter);
    }
    return gradient;
  }
  /// The gradient of a part of an activation, in the order of parts; `fresh` tells whether this is
  /// the part's first contribution.
  ValueId gradient_of(const GraphOperand& part, bool& fresh) {
    const std::uint32_t of = part.value.value;
    fresh = !gradient_[of] || part.offset >= covered_[of];
    if (!gradient_[of]) {
      const ValueId created = add_value("d." + graph_.values[of].name, ValueRole::gradient,
                                        graph_.values[of].bytes, {});
      gradient_[of] = created;
    }
    if (fresh) covered_[of] = part.offset + part.bytes;
    return gradient_[of];
  }
  /// From here on all of `storage` is the gradient of `value`.
  void set_gradient(ValueId value, ValueId storage) {
    gradient_[value.value] = storage;
    covered_[value.value] = graph_.values[value.value].bytes;
  }

  GraphOperand whole(ValueId value, Access access) const {
    if (!value) return {};
    return {value, {}, graph_.values[value.value].bytes, access};
  }
  GraphOperand read(ValueId value) const { return whole(value, Access::read); }
  GraphOperand write(ValueId value) const { return whole(value, Access::write); }
  GraphOperand update(ValueId value) const { return whole(value, Access::read_write); }
  /// The same part of another value of the same shape.
  static GraphOperand same_part(const GraphOperand& part, ValueId value, Access access) {
    return {value, part.offset, part.bytes, access};
  }

  bool is_parameter_gradient(const GraphOperand& operand) const {
    return operand.value &&
           graph_.values[operand.value.value].role == ValueRole::parameter_gradient;
  }

  template <KernelStruct K>
  void emit(const Operator& of, K kernel, std::vector<GraphOperand> operands) {
    if constexpr (requires { kernel.gradient_dtype; })
      if (std::ranges::any_of(operands,
                              [&](const auto& one) { return is_parameter_gradient(one); }))
        kernel.gradient_dtype = gradient_dtype_;
    into_->push_back({of.name, kernel, of.place, std::move(operands), {}, Phase::backward});
  }

  void derive(const Operator& op) {
    op.kernel.visit([&](const auto& kernel) { derive(op, kernel); });
  }
  template <KernelStruct K>
  void derive(const Operator& op, const K&) {
    throw Error({.where = op.name,
                 .what = "no backward is known for " + std::string(name_of(K::kind)),
                 .code = ExitCode::outside});
  }

  void receive_gradient(GraphSegment& segment) {
    const Value sent = graph_.values[segment.sent.value];
    segment.received_gradient = add_value("d." + sent.name, ValueRole::gradient, sent.bytes, {});
    set_gradient(segment.sent, segment.received_gradient);
  }

  /// Behind each chunk's loss the chunk's gradients: the loss leaves the gradient of the logits in
  /// their place, where the next chunk's logits may lie then.
  void derive_head() {
    const std::vector<Operator> forward = std::exchange(graph_.loss, {});
    into_ = &graph_.loss;
    const Operator* head = nullptr;
    for (const Operator& op : forward) {
      graph_.loss.push_back(op);
      if (op.kernel.kind() == KernelKind::linear_forward) head = &op;
      if (op.kernel.kind() != KernelKind::cross_entropy) continue;
      const ValueId logits = op.operands[1].value;
      if (needs(logits)) set_gradient(logits, logits);
      derive(*head);
    }
    into_ = &graph_.backward;
  }

  void derive(const Operator& op, const LinearForwardKernel& forward) {
    const GraphOperand& x = op.operands[0];
    const ValueId weight = op.operands[1].value;
    const ValueId bias = op.operands[2].value;
    const ValueId residual = op.operands[3].value;
    const ValueId y = op.operands[forward.has_gelu ? 5 : 4].value;
    if (!needs(y)) return;
    const ValueId dy = gradient_[y.value];
    if (trainable(weight) || trainable(bias)) {
      const LinearBackwardWeightKernel kernel{.layout = forward.layout,
                                              .dtype = forward.dtype,
                                              .has_bias = trainable(bias),
                                              .has_weight_gradient = trainable(weight),
                                              .rows = forward.rows,
                                              .in = forward.in,
                                              .out = forward.out,
                                              .out_stride = forward.out_stride};
      const ValueId dweight = gradient_of_parameter(weight);
      const ValueId dbias = gradient_of_parameter(bias);
      emit(op, kernel, {x, read(dy), write(dweight), write(dbias)});
    }
    if (needs(x.value)) {
      // Where x is a gelu's, its gradient goes through that at once.
      const ValueId h = gelu_of_[x.value.value];
      GraphOperand of = x;
      if (h) of.value = h;
      bool fresh = true;
      const ValueId dx = gradient_of(of, fresh);
      const LinearBackwardInputKernel kernel{.layout = forward.layout,
                                             .dtype = forward.dtype,
                                             .accumulate_input = !fresh,
                                             .has_gelu = h.valid(),
                                             .rows = forward.rows,
                                             .in = forward.in,
                                             .out = forward.out,
                                             .out_stride = forward.out_stride};
      std::vector<GraphOperand> operands{
          read(dy), read(weight), same_part(x, dx, fresh ? Access::write : Access::read_write)};
      if (h) operands.push_back(read(h));
      emit(op, kernel, std::move(operands));
    }
    // The branch has read dy; from here on the same storage is the gradient of what was added to
    // it.
    if (needs(residual)) set_gradient(residual, dy);
  }

  void derive(const Operator& op, const NormForwardKernel& forward) {
    const ValueId x = op.operands[0].value;
    const ValueId weight = op.operands[1].value;
    const ValueId bias = op.operands[2].value;
    const ValueId y = op.operands[3].value;
    if (!needs(y)) return;
    NormBackwardKernel kernel{.norm = forward.norm,
                              .dtype = forward.dtype,
                              .has_bias = trainable(bias),
                              .has_weight_gradient = trainable(weight),
                              .rows = forward.rows,
                              .width = forward.width};
    GraphOperand dx;
    ValueId to_add;
    if (needs(x)) {
      bool fresh = true;
      ValueId gradient = gradient_of(op.operands[0], fresh);
      if (!fresh && !adds_in_place_) {
        to_add = gradient;
        fresh = true;
        const Value value = graph_.values[gradient.value];
        gradient = add_value(value.name, ValueRole::gradient, value.bytes, {});
        set_gradient(x, gradient);
      }
      kernel.accumulate_input = !fresh;
      dx = fresh ? write(gradient) : update(gradient);
    }
    const ValueId dweight = gradient_of_parameter(weight);
    const ValueId dbias = gradient_of_parameter(bias);
    emit(op, kernel,
         {read(gradient_[y.value]), read(x), read(weight), read(op.operands[4].value),
          read(op.operands[5].value), dx, write(dweight), write(dbias)});
    if (to_add)
      emit(op, AddKernel{.dtype = forward.dtype, .elements = forward.rows * forward.width},
           {read(to_add), update(dx.value)});
  }

  void derive(const Operator& op, const AttentionForwardKernel& forward) {
    const GraphOperand& q = op.operands[0];
    const GraphOperand& k = op.operands[1];
    const GraphOperand& v = op.operands[2];
    const ValueId y = op.operands[3].value;
    if (!needs(y)) return;
    bool fresh = true;
    const ValueId dq = gradient_of(q, fresh);
    const ValueId dk = gradient_of(k, fresh);
    const ValueId dv = gradient_of(v, fresh);
    emit(op, AttentionBackwardKernel{forward},
         {read(gradient_[y.value]), q, k, v, read(y), read(op.operands[4].value),
          same_part(q, dq, Access::write), same_part(k, dk, Access::write),
          same_part(v, dv, Access::write)});
  }

  void derive(const Operator& op, const RopeForwardKernel& forward) {
    const GraphOperand& q = op.operands[1];
    const GraphOperand& k = op.operands[2];
    if (!needs(q.value)) return;
    emit(op, RopeBackwardKernel{forward},
         {op.operands[0], same_part(q, gradient_[q.value.value], Access::read_write),
          same_part(k, gradient_[k.value.value], Access::read_write)});
  }

  void derive(const Operator& op, const GeluForwardKernel& forward) {
    const ValueId h = op.operands[0].value;
    const ValueId y = op.operands[1].value;
    if (!needs(y)) return;
    emit(op, GeluBackwardKernel{forward}, {read(h), update(gradient_[y.value])});
    set_gradient(h, gradient_[y.value]);
  }

  void derive(const Operator& op, const SwigluForwardKernel& forward) {
    const ValueId gate = op.operands[0].value;
    const ValueId up = op.operands[1].value;
    const ValueId y = op.operands[2].value;
    if (!needs(y)) return;
    emit(op, SwigluBackwardKernel{forward}, {read(gradient_[y.value]), update(gate), update(up)});
    set_gradient(gate, gate);
    set_gradient(up, up);
  }

  void derive(const Operator& op, const EmbeddingForwardKernel& forward) {
    const ValueId x = op.operands[3].value;
    if (!needs(x)) return;
    const ValueId dwte = gradient_of_parameter(op.operands[1].value);
    const ValueId dwpe = gradient_of_parameter(op.operands[2].value);
    const EmbeddingBackwardKernel kernel{.dtype = forward.dtype,
                                         .rows = forward.rows,
                                         .width = forward.width,
                                         .vocabulary = forward.vocabulary,
                                         .batch = forward.batch,
                                         .length = forward.length,
                                         .positions = forward.positions};
    emit(op, kernel, {op.operands[0], read(gradient_[x.value]), write(dwte), write(dwpe)});
  }

  OperatorGraph& graph_;
  const Model& model_;
  Dtype gradient_dtype_;
  bool adds_in_place_;
  std::vector<Operator>* into_ = &graph_.backward;
  std::vector<bool> needs_gradient_;         // by forward value
  std::vector<ValueId> gradient_;            // by value: the storage of its gradient so far
  std::vector<Bytes> covered_;               // by value: up to where its gradient is written
  std::vector<ValueId> gelu_of_;             // by value: what it is the gelu of, where joined
  std::vector<ValueId> parameter_gradient_;  // by parameter
};

}  // namespace

void differentiate(OperatorGraph& graph, const Model& model, const BatchShape& shape) {
  BackwardBuilder(graph, model, shape).build();
}

}  // namespace shardscope
