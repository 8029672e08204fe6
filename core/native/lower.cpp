#include "core/native/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/native/logits_chunks.h"

namespace shardscope {
namespace {

std::string parent_of(const std::string& module) {
  const auto dot = module.rfind('.');
  return dot == std::string::npos ? std::string() : module.substr(0, dot);
}

/// Builds the forward of one decoder; holds the graph and the values of parameters while it grows.
class ForwardBuilder {
 public:
  ForwardBuilder(const Model& model, const BatchShape& shape)
      : model_(model),
        decoder_(*model.decoder),
        shape_(shape),
        parameter_values_(model.parameters.size()) {}

  OperatorGraph build(const std::vector<StageSegment>& stages) {
    graph_.blocks = static_cast<int>(decoder_.blocks.size());
    tokens_ = input("tokens");
    targets_ = input("targets");
    if (decoder_.rope) make_rope_table();
    for (const StageSegment& stage : stages) run_stage(stage);
    return std::move(graph_);
  }

 private:
  std::int64_t rows() const { return shape_.rows(); }
  Dtype element() const { return shape_.dtypes.compute; }

  ValueId add_value(std::string name, ValueRole role, Bytes bytes, ParameterId parameter = {}) {
    graph_.values.push_back({std::move(name), role, bytes, parameter});
    return ValueId::of(graph_.values.size() - 1);
  }
  ValueId activation(std::string name, std::int64_t elements) {
    return add_value(std::move(name), ValueRole::activation, bytes_of(elements, element()));
  }
  /// Means, reciprocal deviations and logarithms of sums: float32 in every precision.
  ValueId statistics(std::string name, std::int64_t elements) {
    return add_value(std::move(name), ValueRole::activation, bytes_of(elements, Dtype::float32));
  }
  ValueId input(std::string name) {
    return add_value(std::move(name), ValueRole::input, bytes_of(rows(), Dtype::int32));
  }
  ValueId parameter(ParameterId id) {
    if (!id) return {};
    ValueId& value = parameter_values_[id.value];
    if (!value) {
      const Parameter& p = model_.parameters[id.value];
      value = add_value(p.name, ValueRole::parameter, bytes_of(p.elements(), element()), id);
    }
    return value;
  }

  GraphOperand whole(ValueId value, Access access) const {
    if (!value) return {};
    return {value, {}, graph_.values[value.value].bytes, access};
  }
  GraphOperand read(ValueId value) const { return whole(value, Access::read); }
  GraphOperand write(ValueId value) const { return whole(value, Access::write); }
  GraphOperand update(ValueId value) const { return whole(value, Access::read_write); }
  GraphOperand from(ValueId value, std::int64_t first_element, Access access) const {
    const Bytes offset = bytes_of(first_element, element());
    return {value, offset, graph_.values[value.value].bytes - offset, access};
  }

  void emit(std::string name, const Kernel& kernel, std::vector<GraphOperand> operands,
            std::vector<ValueId> saves) {
    into_->push_back({std::move(name), kernel, place_, std::move(operands), std::move(saves)});
  }

  void make_rope_table() {
    rope_table_ = add_value("rope_table", ValueRole::table,
                            bytes_of(shape_.length * decoder_.head_dim, Dtype::float32));
    const RopeTableKernel kernel{
        .length = shape_.length, .head_dim = decoder_.head_dim, .rope = *decoder_.rope};
    graph_.setup.push_back({"rope_table", kernel, {}, {write(rope_table_)}, {}});
  }

  void run_stage(const StageSegment& stage) {
    GraphSegment segment{.stage = stage};
    const ValueId handed = handed_over(stage);
    if (!stage.begins && !handed)
      segment.received =
          activation(fmt::format("stage {} input", stage.stage), rows() * decoder_.width);
    ValueId x = stage.begins ? embed() : handed ? handed : segment.received;
    for (int block = stage.first_block; block < stage.first_block + stage.blocks; ++block) {
      place_ = {block};
      x = run_block(decoder_.blocks[static_cast<std::size_t>(block)], block, x);
    }
    if (!stage.ends) segment.sent = x;
    graph_.segments.push_back(segment);
    if (!stage.ends) return;
    place_ = {graph_.blocks};
    const ValueId last = norm(decoder_.final_norm, x);
    into_ = &graph_.loss;
    run_head(last);
  }

  /// What the stage before left, where that is on this rank; it is not sent then.
  ValueId handed_over(const StageSegment& stage) {
    if (graph_.segments.empty() || graph_.segments.back().stage.stage + 1 != stage.stage) return {};
    return std::exchange(graph_.segments.back().sent, {});
  }

  ValueId embed() {
    const ParameterId wte = decoder_.token_embedding;
    const ParameterId wpe = decoder_.position_embedding;
    const ValueId x = activation("embedding", rows() * decoder_.width);
    const EmbeddingForwardKernel kernel{.dtype = element(),
                                        .rows = rows(),
                                        .width = decoder_.width,
                                        .vocabulary = decoder_.vocabulary,
                                        .batch = shape_.batch,
                                        .length = shape_.length,
                                        .positions = wpe ? decoder_.max_positions : 0};
    emit(parent_of(model_.parameters[wte.value].name), kernel,
         {read(tokens_), read(parameter(wte)), read(parameter(wpe)), write(x)}, {});
    return x;
  }

  ValueId norm(const Norm& norm, ValueId x) {
    const ValueId y = activation(norm.module, rows() * decoder_.width);
    const bool centred = norm.kind == NormKind::layer_norm;
    const ValueId mean = centred ? statistics(norm.module + ".mean", rows()) : ValueId{};
    const ValueId rstd = statistics(norm.module + ".rstd", rows());
    const NormForwardKernel kernel{.norm = norm.kind,
                                   .dtype = element(),
                                   .has_bias = norm.bias.valid(),
                                   .rows = rows(),
                                   .width = decoder_.width,
                                   .epsilon = norm.epsilon};
    std::vector<ValueId> saves{x, rstd};
    if (centred) saves.push_back(mean);
    emit(norm.module, kernel,
         {read(x), read(parameter(norm.weight)), read(parameter(norm.bias)), write(y), write(mean),
          write(rstd)},
         std::move(saves));
    return y;
  }

  LinearForwardKernel linear_kernel(const Linear& linear, std::int64_t rows) const {
    return {.layout = linear.layout,
            .dtype = element(),
            .has_bias = linear.bias.valid(),
            .rows = rows,
            .in = linear.in,
            .out = linear.out};
  }

  ValueId linear(const Linear& linear, ValueId x, ValueId residual) {
    const ValueId y = activation(linear.module, rows() * linear.out);
    LinearForwardKernel kernel = linear_kernel(linear, rows());
    kernel.has_residual = residual.valid();
    emit(linear.module, kernel,
         {read(x), read(parameter(linear.weight)), read(parameter(linear.bias)), read(residual),
          write(y)},
         {x});
    return y;
  }

  /// gelu_tanh of a linear layer's output, which stays for the backward.
  ValueId linear_gelu(const Linear& linear, std::string name, ValueId x) {
    const ValueId h = activation(linear.module, rows() * linear.out);
    const ValueId y = activation(std::move(name), rows() * linear.out);
    LinearForwardKernel kernel = linear_kernel(linear, rows());
    kernel.has_gelu = true;
    emit(linear.module, kernel,
         {read(x),
          read(parameter(linear.weight)),
          read(parameter(linear.bias)),
          {},
          write(y),
          write(h)},
         {x, h});
    return y;
  }

  /// Where q, k and v lie: one fused value or three, with the elements between their rows.
  struct Projected {
    ValueId q, k, v;
    std::int64_t k_first = 0, v_first = 0;
    std::int64_t q_stride = 0, kv_stride = 0;
  };

  Projected project(const DecoderBlock& block, ValueId x) {
    const std::int64_t q_width = decoder_.heads * decoder_.head_dim;
    const std::int64_t kv_width = decoder_.kv_heads * decoder_.head_dim;
    if (block.qkv.size() == 1) {
      const ValueId fused = linear(block.qkv[0], x, {});
      const std::int64_t stride = q_width + 2 * kv_width;
      return {fused, fused, fused, q_width, q_width + kv_width, stride, stride};
    }
    const ValueId q = linear(block.qkv[0], x, {});
    const ValueId k = linear(block.qkv[1], x, {});
    const ValueId v = linear(block.qkv[2], x, {});
    return {q, k, v, 0, 0, q_width, kv_width};
  }

  RopeForwardKernel rope_kernel(const Projected& p) const {
    return {{.dtype = element(),
             .rows = rows(),
             .batch = shape_.batch,
             .length = shape_.length,
             .heads = decoder_.heads,
             .kv_heads = decoder_.kv_heads,
             .head_dim = decoder_.head_dim,
             .q_stride = p.q_stride,
             .kv_stride = p.kv_stride}};
  }

  AttentionForwardKernel attention_kernel(const Projected& p, double scale) const {
    return {{.dtype = element(),
             .rows = rows(),
             .batch = shape_.batch,
             .length = shape_.length,
             .heads = decoder_.heads,
             .kv_heads = decoder_.kv_heads,
             .head_dim = decoder_.head_dim,
             .q_stride = p.q_stride,
             .kv_stride = p.kv_stride,
             .scale = scale}};
  }

  ValueId attend(const DecoderBlock& block, int index, ValueId x) {
    const Projected p = project(block, x);
    const std::string module = parent_of(block.attention_out.module);
    if (rope_table_) {
      emit(module + ".rope", rope_kernel(p),
           {read(rope_table_), from(p.q, 0, Access::read_write),
            from(p.k, p.k_first, Access::read_write)},
           {});
    }
    const double scale = decoder_.attention_scale_by_layer.empty()
                             ? decoder_.attention_scale
                             : decoder_.attention_scale_by_layer[static_cast<std::size_t>(index)];
    const ValueId y = activation(module, rows() * decoder_.heads * decoder_.head_dim);
    const ValueId lse = statistics(module + ".lse", rows() * decoder_.heads);
    const bool fused = p.k == p.q;
    std::vector<ValueId> saves =
        fused ? std::vector{p.q, y, lse} : std::vector{p.q, p.k, p.v, y, lse};
    emit(module, attention_kernel(p, scale),
         {from(p.q, 0, Access::read), from(p.k, p.k_first, Access::read),
          from(p.v, p.v_first, Access::read), write(y), write(lse)},
         std::move(saves));
    return y;
  }

  ValueId activate(const DecoderBlock& block, ValueId x) {
    const std::int64_t width = block.mlp_in[0].out;
    const std::string module = parent_of(block.mlp_in[0].module);
    if (block.mlp == MlpKind::gelu_tanh) {
      if (shape_.fusions.linear_gelu) return linear_gelu(block.mlp_in[0], module + ".gelu", x);
      const ValueId h = linear(block.mlp_in[0], x, {});
      const ValueId y = activation(module + ".gelu", rows() * width);
      emit(module + ".gelu",
           GeluForwardKernel{{.dtype = element(), .rows = rows(), .features = width}},
           {read(h), write(y)}, {h});
      return y;
    }
    const ValueId gate = linear(block.mlp_in[0], x, {});
    const ValueId up = linear(block.mlp_in[1], x, {});
    const ValueId y = activation(module + ".swiglu", rows() * width);
    emit(module + ".swiglu",
         SwigluForwardKernel{{.dtype = element(), .rows = rows(), .features = width}},
         {read(gate), read(up), write(y)}, {gate, up});
    return y;
  }

  ValueId run_block(const DecoderBlock& block, int index, ValueId x) {
    const ValueId attended = attend(block, index, norm(block.attention_norm, x));
    const ValueId middle = linear(block.attention_out, attended, x);
    return linear(block.mlp_out, activate(block, norm(block.mlp_norm, middle)), middle);
  }

  /// Rows of the micro-batch that are worked on together.
  struct Chunk {
    std::int64_t first = 0;
    std::int64_t rows = 0;
    std::int64_t stride = 0;  ///< of its logits
    std::string suffix;       ///< of names, where there are several
  };

  /// Head and loss, one chunk of rows after the other.
  void run_head(ValueId x) {
    const LogitsChunks chunks =
        logits_chunks(rows(), decoder_.vocabulary, element(), shape_.logits);
    const ValueId loss = add_value("loss", ValueRole::loss, bytes_of(1, Dtype::float64));
    const ValueId counted = chunks.count > 1 ? count_targets() : ValueId{};
    for (std::int64_t i = 0; i < chunks.count; ++i) {
      const std::int64_t first = i * chunks.rows;
      const Chunk chunk{.first = first,
                        .rows = std::min(chunks.rows, rows() - first),
                        .stride = chunks.stride,
                        .suffix = chunks.count > 1 ? fmt::format("[{}]", i) : ""};
      add_loss(chunk, head(chunk, x), counted, loss);
    }
  }

  ValueId count_targets() {
    const ValueId counted =
        add_value("counted", ValueRole::activation, bytes_of(1, Dtype::float64));
    emit("loss", CountTargetsKernel{.dtype = element(), .rows = rows()},
         {read(targets_), write(counted)}, {});
    return counted;
  }

  /// The chunk's logits.
  ValueId head(const Chunk& chunk, ValueId x) {
    const Linear& linear = decoder_.head;
    const ValueId logits = activation(linear.module + chunk.suffix, chunk.rows * chunk.stride);
    LinearForwardKernel kernel = linear_kernel(linear, chunk.rows);
    kernel.out_stride = chunk.stride == linear.out ? 0 : chunk.stride;
    const GraphOperand of_x{x, bytes_of(chunk.first * linear.in, element()),
                            bytes_of(chunk.rows * linear.in, element()), Access::read};
    emit(linear.module + chunk.suffix, kernel,
         {of_x, read(parameter(linear.weight)), read(parameter(linear.bias)), {}, write(logits)},
         {x});
    return logits;
  }

  void add_loss(const Chunk& chunk, ValueId logits, ValueId counted, ValueId loss) {
    const std::int64_t classes = decoder_.vocabulary;
    const CrossEntropyKernel kernel{.dtype = element(),
                                    .has_count = counted.valid(),
                                    .rows = chunk.rows,
                                    .classes = classes,
                                    .logits_stride = chunk.stride == classes ? 0 : chunk.stride,
                                    .scale = shape_.loss_scale};
    const GraphOperand targets{targets_, bytes_of(chunk.first, Dtype::int32),
                               bytes_of(chunk.rows, Dtype::int32), Access::read};
    emit("loss" + chunk.suffix, kernel, {targets, update(logits), update(loss), read(counted)},
         {logits});
  }

  const Model& model_;
  const Decoder& decoder_;
  BatchShape shape_;
  OperatorGraph graph_;
  std::vector<Operator>* into_ = &graph_.forward;
  Place place_;
  std::vector<ValueId> parameter_values_;  // by parameter
  ValueId tokens_, targets_, rope_table_;
};

}  // namespace

OperatorGraph lower_native_forward(const Model& model, const BatchShape& shape,
                                   const std::vector<StageSegment>& stages) {
  if (!model.decoder) {
    throw Error({.where = model.class_name,
                 .what = "the native runtime cannot run this model: " + model.why_no_decoder,
                 .way_out = "give a GPT2LMHeadModel or LlamaForCausalLM"});
  }
  if (model.decoder->position_embedding && shape.length > model.decoder->max_positions) {
    throw Error({.where = "--seq",
                 .what = "a sequence of " + std::to_string(shape.length) +
                         " tokens is longer than the model's " +
                         std::to_string(model.decoder->max_positions) + " positions",
                 .way_out = "give at most " + std::to_string(model.decoder->max_positions)});
  }
  return ForwardBuilder(model, shape).build(stages);
}

}  // namespace shardscope
