#include "sim/kernels/rematerialization.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace shardscope {
namespace {

template <class Predicate>
bool any_backward_use(const CompiledValues& values, std::uint32_t b, Predicate predicate) {
  return std::ranges::any_of(values.life(b).uses, [&](const ValueUse& use) {
    return values.is_backward(use.op) && predicate(use);
  });
}

std::size_t last_backward_use(const CompiledValues& values, std::uint32_t b) {
  std::size_t last = 0;
  for (const ValueUse& use : values.life(b).uses)
    if (values.is_backward(use.op)) last = std::max(last, values.end_of(use.op));
  return last;
}

}  // namespace

Rematerialization::Rematerialization(const CompiledValues& values)
    : values_(values),
      nodes_(values.buffers(), none),
      needed_until_(values.buffers(), 0),
      kept_until_(values.buffers(), 0) {
  for (std::uint32_t b = 0; b < values.buffers(); ++b)
    if (is_demanded(b)) demanded_.push_back(b);
  build();
  cut_.solve();
  for (const std::uint32_t b : demanded_) require(b, last_backward_use(values, b));
}

bool Rematerialization::is_forward_value(std::uint32_t b) const {
  return values_.is_value(b) && !values_.is_another(b) &&
         !values_.is_backward(values_.life(b).uses.front().op);
}

/// A product or attention of backward reads it.
bool Rematerialization::is_forced(std::uint32_t b) const {
  return any_backward_use(values_, b,
                          [&](const ValueUse& use) { return values_.run(use.op) == no_run; });
}

bool Rematerialization::is_demanded(std::uint32_t b) const {
  return is_forward_value(b) &&
         any_backward_use(values_, b, [](const ValueUse&) { return true; }) && !is_forced(b);
}

/// Somebody beside its own kernel reads it in forward, so that it is written out anyway.
bool Rematerialization::is_materialized(std::uint32_t b) const {
  const std::uint32_t own = values_.run(values_.life(b).uses.front().op);
  return own == no_run || std::ranges::any_of(values_.life(b).uses, [&](const ValueUse& use) {
           return !values_.is_backward(use.op) && values_.run(use.op) != own;
         });
}

/// ban_recompute_used_far_apart: an operator that reads what its graph has made and another kernel
/// has read before. Inputs of the graph do not count.
bool Rematerialization::reads_what_was_read_before(std::uint32_t op) const {
  return std::ranges::any_of(values_.operands(op), [&](const Operand& operand) {
    if (!operand.buffer || operand.access == Access::write) return false;
    const std::uint32_t b = values_.value_of(operand);
    if (!values_.is_value(b) || values_.graph(b) != values_.graph_of(op)) return false;
    return std::ranges::any_of(values_.life(b).uses, [&](const ValueUse& use) {
      return use.op < op && use.access == Access::read && values_.run(use.op) != values_.run(op);
    });
  });
}

/// Of norms and softmax the result can be made again of what they read and their statistics.
bool Rematerialization::is_statistic(std::uint32_t op, std::uint32_t b) const {
  std::int64_t largest = 0;
  for (const Operand& operand : values_.operands(op))
    if (operand.access != Access::write) largest = std::max(largest, operand.bytes.count);
  return values_.bytes(b) * 4 < largest;
}

bool Rematerialization::can_be_recomputed(std::uint32_t b) const {
  if (!is_forward_value(b)) return false;
  const std::optional<std::uint32_t> op = values_.writer(b);
  if (!op || !values_.stays_in_graph(b) || reads_what_was_read_before(*op)) return false;
  switch (values_.kind(*op)) {
    case WorkKind::pointwise:
    case WorkKind::copy:
    case WorkKind::fill:
      return true;
    case WorkKind::norm_forward:
    case WorkKind::softmax:
      return !is_statistic(*op, b);
    default:
      return false;
  }
}

/// What its operator reads, and is not there anyway.
std::vector<std::uint32_t> Rematerialization::sources_of(std::uint32_t b) const {
  std::vector<std::uint32_t> sources;
  for (const Operand& operand : values_.operands(values_.life(b).uses.front().op)) {
    if (!operand.buffer || operand.access == Access::write) continue;
    const std::uint32_t source = values_.value_of(operand);
    if (source != b && is_forward_value(source)) sources.push_back(source);
  }
  return sources;
}

/// Bytes, twice those of a value that would be written out for backward alone. Nothing of what is
/// kept anyway.
std::int64_t Rematerialization::weight(std::uint32_t b) const {
  if (is_forced(b)) return 0;
  return values_.bytes(b) * (is_materialized(b) ? 1 : 2);
}

void Rematerialization::build() {
  std::vector<std::uint32_t> open = demanded_;
  for (const std::uint32_t b : demanded_) nodes_[b] = cut_.add_node(weight(b));
  while (!open.empty()) {
    const std::uint32_t b = open.back();
    open.pop_back();
    if (!can_be_recomputed(b)) {
      cut_.add_source(nodes_[b]);
      continue;
    }
    for (const std::uint32_t source : sources_of(b)) {
      if (nodes_[source] == none) {
        nodes_[source] = cut_.add_node(weight(source));
        open.push_back(source);
      }
      cut_.add_edge(nodes_[source], nodes_[b]);
    }
  }
  for (const std::uint32_t b : demanded_) cut_.add_sink(nodes_[b]);
}

/// A value is needed at a place of the program: it is kept, or all that it is made of.
void Rematerialization::require(std::uint32_t value, std::size_t place) {
  std::vector<std::uint32_t> open{value};
  while (!open.empty()) {
    const std::uint32_t b = open.back();
    open.pop_back();
    if (needed_until_[b] >= place) continue;
    needed_until_[b] = place;
    if (cut_.is_cut(nodes_[b]) || is_forced(b) || !can_be_recomputed(b))
      kept_until_[b] = place;
    else
      for (const std::uint32_t source : sources_of(b)) open.push_back(source);
  }
}

}  // namespace shardscope
