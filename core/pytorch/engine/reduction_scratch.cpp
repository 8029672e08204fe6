// Scratch of reductions: where one output is worked on by several blocks, they meet in memory.
#include <algorithm>
#include <bit>
#include <vector>

#include "core/pytorch/engine/kernel_scratch.h"

namespace shardscope::eager {
namespace {

constexpr std::int64_t warp = 32;
constexpr std::int64_t max_threads = 512;
constexpr std::int64_t vector_elements = 4;
constexpr std::int64_t min_values_per_thread = 16;
constexpr std::int64_t max_values_per_thread = 256;

std::int64_t ceil_div(std::int64_t value, std::int64_t step) { return (value + step - 1) / step; }
std::int64_t last_power(std::int64_t value) {
  return static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(value, 1))));
}

/// One dimension of the iteration, with the input's stride in elements.
struct Extent {
  std::int64_t size = 1;
  std::int64_t stride = 0;
};

/// As TensorIterator::reduce_op has it: reduced dimensions first, each group by stride, neighbours
/// that lie together joined.
struct Iteration {
  std::vector<Extent> reduced;
  std::vector<Extent> kept;
};

void join_neighbours(std::vector<Extent>& extents) {
  std::stable_sort(extents.begin(), extents.end(),
                   [](const Extent& a, const Extent& b) { return a.stride < b.stride; });
  std::vector<Extent> joined;
  for (const Extent& e : extents) {
    if (!joined.empty() && joined.back().size * joined.back().stride == e.stride)
      joined.back().size *= e.size;
    else
      joined.push_back(e);
  }
  extents = std::move(joined);
}

/// The dimensions that are gone are those of the input that the output, read from the left, does
/// not have.
Iteration iteration_of(const TensorImpl& in, const TensorImpl& out) {
  const Dims& sizes = in.layout.sizes;
  const Dims& left = out.layout.sizes;
  const bool kept_as_one = sizes.size() == left.size();
  Iteration iteration;
  int next = 0;
  for (int i = 0; i < sizes.size(); ++i) {
    const bool kept =
        kept_as_one ? left[i] == sizes[i] : next < left.size() && left[next] == sizes[i];
    if (kept && !kept_as_one) ++next;
    if (sizes[i] == 1) continue;
    (kept ? iteration.kept : iteration.reduced).push_back({sizes[i], in.layout.strides[i]});
  }
  join_neighbours(iteration.reduced);
  join_neighbours(iteration.kept);
  return iteration;
}

/// Source: get_output_vec_size, Reduce.cuh.
std::int64_t output_vector(const Iteration& iteration, std::int64_t offset) {
  std::int64_t vector = vector_elements;
  const auto fit = [&](std::int64_t value) {
    while (value % vector != 0) vector /= 2;
  };
  fit(offset);
  fit(iteration.kept[0].size);
  for (const Extent& e : iteration.reduced) fit(e.stride);
  for (std::size_t i = 1; i < iteration.kept.size(); ++i) fit(iteration.kept[i].stride);
  return vector;
}

/// What setReduceConfig (ATen/native/cuda/Reduce.cuh of torch 2.15) decides, as far as it says how
/// much memory blocks share.
class Reduction {
 public:
  Reduction(const Iteration& iteration, std::int64_t offset, const KernelDevice& device) {
    for (const Extent& e : iteration.reduced) inputs_ *= e.size;
    for (const Extent& e : iteration.kept) outputs_ *= e.size;
    across_ = iteration.kept.empty() || (!iteration.reduced.empty() &&
                                         iteration.reduced[0].stride < iteration.kept[0].stride);
    set_block(iteration, offset);
    split(device);
  }

  bool shares_memory() const { return blocks_per_output_ > 1; }
  std::int64_t buffer_bytes(std::int64_t element_bytes) const {
    const std::int64_t bytes = element_bytes * outputs_ * blocks_per_output_;
    return across_ ? bytes : bytes * width_ * vector_;
  }
  std::int64_t semaphore_bytes() const { return 4 * grid_; }

 private:
  void set_block(const Iteration& iteration, std::int64_t offset) {
    std::int64_t along = across_ ? inputs_ : outputs_;
    const std::int64_t other = across_ ? outputs_ : inputs_;
    const std::vector<Extent>& fastest = across_ ? iteration.reduced : iteration.kept;
    if (!fastest.empty() && fastest[0].stride == 1) {
      if (across_ && along >= 128 && iteration.reduced.size() == 1) along /= vector_elements;
      if (!across_) {
        vector_ = output_vector(iteration, offset);
        along /= vector_;
      }
    }
    const std::int64_t limit = max_threads / vector_;
    const std::int64_t along_power = along < limit ? last_power(along) : limit;
    const std::int64_t other_power = other < limit ? last_power(other) : limit;
    width_ = std::min(along_power, warp);
    height_ = std::min(other_power, limit / width_);
    width_ = std::min(along_power, limit / height_);
  }

  void split(const KernelDevice& device) {
    std::int64_t input_step = across_ ? width_ : 1;
    std::int64_t output_step = across_ ? 1 : width_;
    const auto values_per_thread = [&] { return ceil_div(inputs_, input_step); };
    const bool across_warps = values_per_thread() >= std::min(height_ * 16, max_values_per_thread);
    (across_warps ? input_step : output_step) *= height_;
    grid_ = ceil_div(outputs_ / vector_, output_step);
    const std::int64_t target =
        device.multiprocessors * (device.threads_per_multiprocessor / (width_ * height_));
    if (!across_warps || values_per_thread() < max_values_per_thread || grid_ > target) return;
    blocks_per_output_ =
        std::clamp(ceil_div(target, grid_), ceil_div(values_per_thread(), max_values_per_thread),
                   ceil_div(values_per_thread(), min_values_per_thread));
  }

  std::int64_t inputs_ = 1;  // for each output
  std::int64_t outputs_ = 1;
  bool across_ = false;  // the input's fastest dimension is reduced
  std::int64_t vector_ = 1;
  std::int64_t width_ = 1;
  std::int64_t height_ = 1;
  std::int64_t grid_ = 1;
  std::int64_t blocks_per_output_ = 1;
};

/// What is summed up: bool as itself, integers as 8 bytes, everything else in fp32 or wider.
std::int64_t accumulator_bytes(const TensorImpl& out) {
  return std::max<std::int64_t>(size_of(out.layout.dtype).count,
                                out.layout.dtype == Dtype::boolean ? 1 : 4);
}

}  // namespace

void reduction_scratch(const OperatorCall& call, const KernelDevice& device, ScratchPlan& plan) {
  const TensorImpl& in = *call.inputs[0];
  if (in.layout.sizes.product() == 0) return;
  const Reduction reduction(iteration_of(in, *call.outputs[0]), in.layout.offset, device);
  if (!reduction.shares_memory()) return;
  plan.outputs();
  plan.take(reduction.buffer_bytes(accumulator_bytes(*call.outputs[0])));
  plan.take(reduction.semaphore_bytes());
}

}  // namespace shardscope::eager
