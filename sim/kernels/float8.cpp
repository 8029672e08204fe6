#include "sim/kernels/float8.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/model/module_names.h"
#include "sim/kernels/steady_step.h"

namespace shardscope {
namespace {

constexpr std::array<std::string_view, 5> cast_names{"none", "delayed", "current", "compiled",
                                                     "rowwise"};
constexpr Dtype eight_bits = Dtype::uint8;
constexpr std::int64_t largest = 2;  ///< bytes of an element that the pass for it reads

struct CastCost {
  std::int64_t bytes_of_element = 0;
  int launches = 1;
};

CastCost cost_of(Float8Casts casts) {
  switch (casts) {
    case Float8Casts::delayed:
      return {.bytes_of_element = 4, .launches = 1};
    case Float8Casts::current:
      return {.bytes_of_element = 6, .launches = 2};
    default:
      return {.bytes_of_element = 3, .launches = 2};
  }
}

/// The others of a group take the cast that the first one made.
bool shares_input(std::string_view module) {
  constexpr std::array<std::string_view, 3> later{".k_proj", ".v_proj", ".up_proj"};
  return std::ranges::any_of(later, [&](std::string_view end) { return module.ends_with(end); });
}

/// What torch.compile has no kernel of its own in front of: attention's output, and the gradient
/// that comes from another block.
bool comes_from_elsewhere(std::string_view module, bool backward) {
  return module.ends_with(backward ? ".down_proj" : ".o_proj");
}

class Caster {
 public:
  Caster(Schedule schedule, const Float8Kernels& kernels)
      : schedule_(std::move(schedule)), kernels_(kernels) {
    schedule_.names.emplace_back("float8 cast");
    name_ = static_cast<std::uint32_t>(schedule_.names.size() - 1);
  }

  Schedule cast() {
    rewrite_steady_step(schedule_, [&](std::uint32_t i, std::vector<HostAction>& changed) {
      const HostAction action = schedule_.program.actions[i];
      if (action.kind == HostActionKind::launch) take(changed, action);
      changed.push_back(action);
    });
    return std::move(schedule_);
  }

 private:
  /// Of one micro-batch, in the backward: the first product is that of the input's gradient.
  using Use = std::tuple<std::uint32_t, int>;

  void take(std::vector<HostAction>& changed, const HostAction& action) {
    Operation& op = schedule_.operations[action.subject];
    if (std::exchange(gathered_, false) && schedule_.name(op) == copied_tokens)
      return copy_casts(op);
    if (!op.owner || !is_of_block(schedule_.owners[op.owner.value])) return;
    if (op.kind == OperationKind::all_gather && kernels_.gathers_casts) {
      gathered_ = gather_casts(op);
      return;
    }
    if (!is_linear(op)) return;
    const MatmulShape shape = schedule_.works[op.work].matmul;
    const bool backward = op.phase == Phase::backward && !op.recomputed;
    const std::int64_t bytes =
        backward ? bytes_in_backward(op, shape) : bytes_in_forward(op, shape);
    op.work = in_eight_bits(op.work, backward ? kernels_.precise_sums : 1);
    if (bytes > 0) launch_cast(changed, action, Bytes{bytes});
  }

  std::int64_t bytes_in_backward(const Operation& op, const MatmulShape& shape) {
    const bool of_input = first_.emplace(op.owner.value, op.micro_batch).second;
    if (kernels_.casts == Float8Casts::compiled) return compiled_backward(op, shape, of_input);
    if (kernels_.casts == Float8Casts::rowwise) return rowwise_backward(op, shape, of_input);
    return of_input ? shape.m * shape.k * cost_.bytes_of_element : 0;
  }

  std::int64_t compiled_backward(const Operation& op, const MatmulShape& shape, bool of_input) {
    constexpr std::int64_t both_ways = 6, copied = 2;
    const std::string& module = schedule_.owners[op.owner.value];
    if (!of_input) return shares_input(module) ? 0 : shape.k * shape.n * cost_.bytes_of_element;
    const std::int64_t of_weight = kernels_.casts_weights ? cost_.bytes_of_element : copied;
    return shape.m * shape.k * (both_ways + (comes_from_elsewhere(module, true) ? largest : 0)) +
           shape.k * shape.n * of_weight;
  }

  std::int64_t rowwise_backward(const Operation& op, const MatmulShape& shape, bool of_input) {
    constexpr std::int64_t scaled = 4;
    const bool again = of_input || !shares_input(schedule_.owners[op.owner.value]);
    const std::int64_t gradient = shape.m * shape.k;
    return (of_input ? gradient * cost_.bytes_of_element : bytes_across(gradient)) +
           (again ? bytes_across(shape.k * shape.n) : 0) + shape.m * shape.n * scaled;
  }

  /// After a pass for the largest values. Transposed writes are slower: their bytes are scaled up.
  std::int64_t bytes_across(std::int64_t elements) const {
    const auto cast = static_cast<double>(elements * cost_.bytes_of_element);
    return elements * largest + std::llround(cast / kernels_.transposed_casts);
  }

  /// Whether it was not in 8 bits before.
  bool gather_casts(Operation& op) {
    Collective gathered = schedule_.collectives[op.detail];
    if (size_of(gathered.dtype).count < 2) return false;
    op.bytes = Bytes{op.bytes.count / size_of(gathered.dtype).count};
    gathered.dtype = eight_bits;
    schedule_.collectives.push_back(gathered);
    op.detail = static_cast<std::uint32_t>(schedule_.collectives.size() - 1);
    return true;
  }

  /// The copy of tokens that have just been gathered in 8 bits in the place of 16.
  void copy_casts(Operation& op) {
    DeviceWork copy = schedule_.works[op.work];
    copy.dtype = eight_bits;
    copy.bytes = op.bytes = op.bytes / 2;
    op.work = row_of(copy);
  }

  bool is_linear(const Operation& op) const {
    if (op.work == Operation::no_work) return false;
    const DeviceWork& work = schedule_.works[op.work];
    return work.kind == WorkKind::matmul && work.matmul.batch == 1 && work.dtype != eight_bits;
  }

  std::int64_t bytes_in_forward(const Operation& op, const MatmulShape& shape) const {
    const std::string& module = schedule_.owners[op.owner.value];
    const bool seeks =
        kernels_.casts == Float8Casts::compiled && comes_from_elsewhere(module, false);
    const std::int64_t of_input =
        shares_input(module) ? 0 : cost_.bytes_of_element + (seeks ? largest : 0);
    const std::int64_t of_weight = kernels_.casts_weights ? cost_.bytes_of_element : 0;
    return shape.m * shape.k * of_input + shape.k * shape.n * of_weight;
  }

  /// At `rate` of the full rate: as a product that is so much deeper, with rows as aligned.
  std::uint32_t in_eight_bits(std::uint32_t work, double rate) {
    DeviceWork product = schedule_.works[work];
    product.dtype = eight_bits;
    constexpr std::int64_t aligned = 16;
    const double added = static_cast<double>(product.matmul.k) * (1 / rate - 1);
    product.matmul.k += aligned * std::llround(added / aligned);
    return row_of(product);
  }

  std::uint32_t row_of(const DeviceWork& work) {
    const auto found = std::ranges::find(schedule_.works, work);
    const auto place = static_cast<std::uint32_t>(found - schedule_.works.begin());
    if (found == schedule_.works.end()) schedule_.works.push_back(work);
    return place;
  }

  void launch_cast(std::vector<HostAction>& changed, const HostAction& product, Bytes bytes) {
    const DeviceWork work{.kind = WorkKind::pointwise,
                          .dtype = eight_bits,
                          .launches = cost_.launches,
                          .bytes = bytes};
    Operation op = bare_operation(schedule_, product);
    op.name = name_;
    op.work = row_of(work);
    op.bytes = work.bytes;
    add_launch(schedule_, op, product.lane, changed);
  }

  Schedule schedule_;
  const Float8Kernels& kernels_;
  CastCost cost_ = cost_of(kernels_.casts);
  std::uint32_t name_ = 0;
  std::set<Use> first_;
  bool gathered_ = false;  ///< 8 bits in the place of 16, by the launch before
};

}  // namespace

std::string_view name_of(Float8Casts casts) { return cast_names[static_cast<std::size_t>(casts)]; }

Schedule with_float8(Schedule schedule, const Float8Kernels& kernels) {
  if (kernels.casts == Float8Casts::none || schedule.steps.empty()) return schedule;
  return Caster(std::move(schedule), kernels).cast();
}

}  // namespace shardscope
