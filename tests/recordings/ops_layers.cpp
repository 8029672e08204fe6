// Norms, activations, rotary embedding, attention, loss and embedding of the kind `ops`.
#include <cmath>
#include <optional>

#include "tests/recordings/ops_case.h"
#include "tests/recordings/ops_device.h"

namespace shardscope::recordings {
namespace {

using Floats = std::vector<float>;

void check_norm(OpsCase& c, NormKind kind) {
  Floats x = c.input("x"), weight = c.input("weight"), dy = c.input("dy");
  const bool layer = kind == NormKind::layer_norm;
  Floats bias = layer ? c.input("bias") : Floats{};
  const auto width = static_cast<std::int64_t>(weight.size());
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / width;
  Floats y(x.size()), mean(x.size()), rstd(x.size()), dx(x.size());
  Floats dweight(weight.size()), dbias(weight.size());
  const Operand optional_bias = layer ? Operand(bias) : nullptr;
  const Operand optional_mean = layer ? Operand(mean) : nullptr;
  run_kernel(NormForwardKernel{.norm = kind,
                               .has_bias = layer,
                               .rows = rows,
                               .width = width,
                               .epsilon = c.number("eps")},
             {x, weight, optional_bias, y, optional_mean, rstd});
  run_kernel(NormBackwardKernel{.norm = kind, .has_bias = layer, .rows = rows, .width = width},
             {dy, x, weight, optional_mean, rstd, dx, dweight, layer ? Operand(dbias) : nullptr});
  c.compare("y", y);
  c.compare("dx", dx);
  c.compare("dweight", dweight);
  if (layer) c.compare("dbias", dbias);
}

ActivationKernel elementwise(const Floats& values) {
  return {.rows = 1, .features = static_cast<std::int64_t>(values.size())};
}

/// The sizes of an attention or rotary case, with heads side by side in a row, as our kernels have
/// them.
template <class Heads>
Heads heads_kernel(const OpsCase& c) {
  Heads kernel;
  kernel.batch = c.integer("batch");
  kernel.length = c.integer("length");
  kernel.rows = kernel.batch * kernel.length;
  kernel.heads = c.integer("heads");
  kernel.kv_heads = c.integer("kv_heads");
  kernel.head_dim = c.integer("head_dim");
  kernel.q_stride = kernel.heads * kernel.head_dim;
  kernel.kv_stride = kernel.kv_heads * kernel.head_dim;
  return kernel;
}

enum class Order { to_rows, to_heads };
/// Reorders (batch, heads, length, dim), PyTorch's, to (batch, length, heads, dim), ours, or back.
template <class Heads>
Floats reordered(const Floats& from, const Heads& k, std::int64_t heads, Order order) {
  Floats to(from.size());
  for (std::int64_t b = 0; b < k.batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t t = 0; t < k.length; ++t)
        for (std::int64_t i = 0; i < k.head_dim; ++i) {
          const std::int64_t by_head = ((b * heads + h) * k.length + t) * k.head_dim + i;
          const std::int64_t by_row = ((b * k.length + t) * heads + h) * k.head_dim + i;
          (order == Order::to_rows ? to[by_row] : to[by_head]) =
              order == Order::to_rows ? from[by_head] : from[by_row];
        }
  return to;
}

Rope rope_of(const nlohmann::ordered_json& parameters) {
  Rope rope{.theta = parameters.at("rope_theta").get<double>(), .llama3 = {}, .linear_factor = {}};
  const std::string type = parameters.at("rope_type").get<std::string>();
  if (type == "linear") rope.linear_factor = parameters.at("factor").get<double>();
  if (type == "llama3")
    rope.llama3 = {.factor = parameters.at("factor").get<double>(),
                   .low_freq_factor = parameters.at("low_freq_factor").get<double>(),
                   .high_freq_factor = parameters.at("high_freq_factor").get<double>(),
                   .original_max_position_embeddings =
                       parameters.at("original_max_position_embeddings").get<std::int64_t>()};
  return rope;
}

/// Rows [first, first + length) of the table, both halves of a row alike as PyTorch's cos and sin
/// are.
Floats table_half(const Floats& table, const RopeKernel& k, std::int64_t first,
                  std::int64_t half_begin) {
  Floats out;
  for (std::int64_t t = first; t < first + k.length; ++t)
    for (std::int64_t i = 0; i < k.head_dim; ++i)
      out.push_back(table[t * k.head_dim + half_begin + i % (k.head_dim / 2)]);
  return out;
}

/// The angle at position 1 is the inverse frequency itself.
Floats inverse_frequencies(const Floats& table, const RopeKernel& k) {
  Floats out;
  for (std::int64_t i = 0; i < k.head_dim / 2; ++i)
    out.push_back(std::atan2(table[k.head_dim + k.head_dim / 2 + i], table[k.head_dim + i]));
  return out;
}

template <class Rotation>
void compare_rotation(OpsCase& c, const Rotation& kernel, std::span<float> table,
                      const std::string& q_name, const std::string& k_name,
                      const std::string& q_result, const std::string& k_result) {
  Floats q = reordered(c.input(q_name), kernel, kernel.heads, Order::to_rows);
  Floats k = reordered(c.input(k_name), kernel, kernel.kv_heads, Order::to_rows);
  run_kernel(kernel, {table, q, k});
  c.compare(q_result, reordered(q, kernel, kernel.heads, Order::to_heads));
  c.compare(k_result, reordered(k, kernel, kernel.kv_heads, Order::to_heads));
}

}  // namespace

void check_layer_norm(OpsCase& c) { check_norm(c, NormKind::layer_norm); }
void check_rms_norm(OpsCase& c) { check_norm(c, NormKind::rms_norm); }

void check_gelu_tanh(OpsCase& c) {
  Floats x = c.input("x"), dy = c.input("dy"), y(x.size());
  run_kernel(GeluForwardKernel{elementwise(x)}, {x, y});
  run_kernel(GeluBackwardKernel{elementwise(x)}, {x, dy});
  c.compare("y", y);
  c.compare("dx", dy);
}

void check_swiglu(OpsCase& c) {
  Floats gate = c.input("gate"), up = c.input("up"), dy = c.input("dy"), y(gate.size());
  run_kernel(SwigluForwardKernel{elementwise(gate)}, {gate, up, y});
  run_kernel(SwigluBackwardKernel{elementwise(gate)}, {dy, gate, up});
  c.compare("y", y);
  c.compare("dgate", gate);
  c.compare("dup", up);
}

void check_rope(OpsCase& c) {
  const auto kernel = heads_kernel<RopeKernel>(c);
  const std::int64_t first = c.integer("first_position");
  const RopeTableKernel all_positions{.length = std::max<std::int64_t>(2, first + kernel.length),
                                      .head_dim = kernel.head_dim,
                                      .rope = rope_of(c.settings().at("rope_parameters"))};
  Floats table(static_cast<std::size_t>(all_positions.length * kernel.head_dim));
  run_kernel(all_positions, {table});
  c.compare("inv_freq", inverse_frequencies(table, kernel));
  c.compare("cos", table_half(table, kernel, first, 0));
  c.compare("sin", table_half(table, kernel, first, kernel.head_dim / 2));
  const auto from_first =
      std::span(table).subspan(static_cast<std::size_t>(first * kernel.head_dim));
  compare_rotation(c, RopeForwardKernel{kernel}, from_first, "q", "k", "q_out", "k_out");
  compare_rotation(c, RopeBackwardKernel{kernel}, from_first, "dq_out", "dk_out", "dq", "dk");
}

void check_causal_attention(OpsCase& c) {
  auto kernel = heads_kernel<AttentionKernel>(c);
  kernel.scale = c.settings().at("results").at("scale").get<double>();
  const auto rows = [&](const char* name, std::int64_t heads) {
    return reordered(c.input(name), kernel, heads, Order::to_rows);
  };
  Floats q = rows("q", kernel.heads), k = rows("k", kernel.kv_heads),
         v = rows("v", kernel.kv_heads);
  Floats dy = rows("dy", kernel.heads), y(q.size()), lse(q.size());
  Floats dq(q.size()), dk(k.size()), dv(v.size());
  run_kernel(AttentionForwardKernel{kernel}, {q, k, v, y, lse});
  run_kernel(AttentionBackwardKernel{kernel}, {dy, q, k, v, y, lse, dq, dk, dv});
  c.compare("y", reordered(y, kernel, kernel.heads, Order::to_heads));
  c.compare("dq", reordered(dq, kernel, kernel.heads, Order::to_heads));
  c.compare("dk", reordered(dk, kernel, kernel.kv_heads, Order::to_heads));
  c.compare("dv", reordered(dv, kernel, kernel.kv_heads, Order::to_heads));
}

void check_cross_entropy(OpsCase& c) {
  Floats logits = c.input("logits");
  const std::vector<std::int64_t> recorded_targets = c.integers("targets");
  std::vector<std::int32_t> targets(recorded_targets.begin(), recorded_targets.end());
  const CrossEntropyKernel kernel{.rows = c.integer("rows"), .classes = c.integer("vocab")};
  std::vector<double> row_losses;
  for (std::int64_t row = 0; row < kernel.rows; ++row) {
    CrossEntropyKernel of_row = kernel;
    of_row.rows = 1;
    const auto begin = logits.begin() + row * kernel.classes;
    Floats copy(begin, begin + kernel.classes);
    std::vector<double> loss(1);
    const std::span target(&targets[row], 1);
    if (targets[row] >= 0) run_kernel(of_row, {target, copy, loss, nullptr});
    row_losses.push_back(loss[0]);
  }
  std::vector<double> loss(1);
  run_kernel(kernel, {targets, logits, loss, nullptr});
  c.compare("loss", loss);
  c.compare("row_loss", row_losses);
  c.compare("dlogits", logits);
}

void check_embedding(OpsCase& c) {
  Floats weight = c.input("weight"), dy = c.input("dy");
  const std::vector<std::int64_t> ids = c.integers("ids");
  std::vector<std::int32_t> tokens(ids.begin(), ids.end());
  const auto rows = static_cast<std::int64_t>(tokens.size());
  const std::int64_t width = c.integer("width"), vocabulary = c.integer("vocab");
  Floats y(dy.size()), dweight(weight.size());
  run_kernel(
      EmbeddingForwardKernel{
          .rows = rows, .width = width, .vocabulary = vocabulary, .batch = 1, .length = rows},
      {tokens, weight, nullptr, y});
  run_kernel(
      EmbeddingBackwardKernel{
          .rows = rows, .width = width, .vocabulary = vocabulary, .batch = 1, .length = rows},
      {tokens, dy, dweight, nullptr});
  c.compare("y", y);
  c.compare("dweight", dweight);
}

}  // namespace shardscope::recordings
