// Gradient norm, clipping, AdamW and SGD on the slices of a rank's shard. Slices travel with the
// arguments of a launch, a few dozen at a time.
#pragma once

#include <algorithm>
#include <cmath>

#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/kernels/simt.h"

namespace shardscope::cuda {

/// A slice as a kernel needs it, with the number of its first piece in the launch.
struct LaunchedSlice {
  std::int64_t offset;
  std::int64_t elements;
  std::int64_t first;
  std::int64_t piece;
  std::int64_t piece_run;
  std::int64_t piece_stride;
  bool decay;
};

struct LaunchedSlices {
  static constexpr int most = 48;  ///< so that the arguments stay below 4 KiB
  LaunchedSlice slices[most];
  int count = 0;
  std::int64_t items = 0;

  /// Calls `body(slice, i)`: piece `item` of the launch is the i-th of `slice`.
  template <class Body>
  SHARDSCOPE_DEVICE void find(std::int64_t item, const Body& body) const {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (slices[middle].first <= item)
        low = middle;
      else
        high = middle - 1;
    }
    body(slices[low], item - slices[low].first);
  }
};

constexpr std::int64_t pieces_of(std::int64_t elements) {
  return blocks_for(elements, piece_elements);
}

/// Calls `body(LaunchedSlices)` for all slices, `most` at a time, their pieces numbered.
template <class Body>
void for_launches(std::span<const Slice> slices, const Body& body) {
  constexpr std::size_t most = LaunchedSlices::most;
  for (std::size_t begin = 0; begin < slices.size(); begin += most) {
    LaunchedSlices launch{};
    for (std::size_t i = begin; i < std::min(begin + most, slices.size()); ++i) {
      const Slice& slice = slices[i];
      launch.slices[launch.count++] = {.offset = slice.offset,
                                       .elements = slice.elements,
                                       .first = launch.items,
                                       .piece = slice.piece,
                                       .piece_run = slice.piece_run,
                                       .piece_stride = slice.piece_stride,
                                       .decay = slice.decay};
      launch.items += pieces_of(slice.elements);
    }
    if (launch.items > 0) body(launch);
  }
}

static_assert(piece_elements == warp_size * vector_elements);

/// Calls `body(i, Elements<n>)` for this lane's neighbouring elements of a slice's piece, i from
/// the start of the operand.
template <class Thread, class Body>
SHARDSCOPE_DEVICE void for_lane(Thread& thread, const LaunchedSlice& slice, std::int64_t piece,
                                bool aligned, const Body& body) {
  const std::int64_t begin = piece * piece_elements + thread.index() % warp_size * vector_elements;
  const std::int64_t left = slice.elements - begin, first = slice.offset + begin;
  if (aligned && left >= vector_elements && slice.offset % vector_elements == 0)
    return body(first, Elements<vector_elements>{});
  for (std::int64_t k = 0; k < vector_elements && k < left; ++k) body(first + k, Elements<1>{});
}

/// Calls `body(slice, piece)` for this warp's share of a launch's pieces.
template <class Thread, class Body>
SHARDSCOPE_DEVICE void for_warp_pieces(Thread& thread, const LaunchedSlices& launch,
                                       const Body& body) {
  const std::int64_t warps = thread.count() / warp_size;
  for (std::int64_t item = thread.block() * warps + thread.index() / warp_size; item < launch.items;
       item += thread.blocks() * warps)
    launch.find(item, body);
}

/// A warp sums the squares of one piece.
template <class G>
struct SumOfSquares {
  LaunchedSlices launch;
  const G* g;
  double* pieces;
  bool aligned;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    const std::int64_t warps = thread.count() / warp_size;
    const std::int64_t item = thread.block() * warps + thread.index() / warp_size;
    if (item >= launch.items) return;
    launch.find(item, [&](const LaunchedSlice& slice, std::int64_t piece) {
      double sum = 0;
      for_lane(thread, slice, piece, aligned, [&](std::int64_t i, auto some) {
        constexpr int n = decltype(some)::value;
        float gradient[n];
        load(g + i, gradient);
        for (int k = 0; k < n; ++k)
          sum += static_cast<double>(gradient[k]) * static_cast<double>(gradient[k]);
      });
      sum = warp_sum(thread, sum);
      if (thread.index() % warp_size == 0) pieces[slice.piece + piece] = sum;
    });
  }
};

/// Adds the pieces of a launch to the running sum in one block. A thread adds neighbours, the
/// threads' sums are added in their order: the same for every sharding, as pieces are the same and
/// stand in the same order.
struct AddPieces {
  static constexpr int most_threads = 1024;
  LaunchedSlices launch;
  const double* pieces;
  double* sum;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    auto* sums = thread.template shared<double>();
    const std::int64_t share = blocks_for(launch.items, thread.count());
    const std::int64_t first = thread.index() * share;
    const std::int64_t end = first + share < launch.items ? first + share : launch.items;
    double mine = 0;
    for (std::int64_t item = first; item < end; ++item) {
      launch.find(item, [&](const LaunchedSlice& slice, std::int64_t i) {
        mine += pieces[index_of(slice, i)];
      });
    }
    sums[thread.index()] = mine;
    thread.sync();
    if (thread.index() != 0) return;
    double total = *sum;
    for (int other = 0; other < thread.count(); ++other) total += sums[other];
    *sum = total;
  }

  /// As Slice::piece_index.
  SHARDSCOPE_DEVICE static std::int64_t index_of(const LaunchedSlice& slice, std::int64_t i) {
    if (slice.piece_run == 0) return slice.piece + i;
    const std::int64_t in_unit = slice.offset / piece_elements + i;
    return slice.piece + in_unit / slice.piece_run * slice.piece_stride + in_unit % slice.piece_run;
  }
};

/// clip = {norm, factor}; clip[0] holds the sum of squares before.
struct ClipFactor {
  double* clip;
  double limit;
  bool has_limit;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    if (thread.index() != 0) return;
    const double norm = ::sqrt(clip[0]);
    const double factor = limit / (norm + 1e-6);
    clip[0] = norm;
    // Written so that a norm that is not a number makes the factor so, too.
    clip[1] = !has_limit || factor > 1.0 ? 1.0 : factor;
  }
};

/// Where the norm of all gradients is not finite, a step changes nothing. The difference is 0 for
/// numbers, and not a number for infinities and what is none.
SHARDSCOPE_DEVICE bool is_left_out(const double* clip) {
  return clip && !(clip[0] - clip[0] == 0.0);
}

/// The factor on gradients; 1 where nothing is clipped.
SHARDSCOPE_DEVICE float gradient_factor(const double* clip) {
  return clip ? static_cast<float>(clip[1]) : 1.0f;
}

/// What changes from step to step comes from the device's memory, so that a launch that is replayed
/// is right in every step.
struct SetStepState {
  StepState value;
  StepState* state;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    if (thread.index() == 0) *state = value;
  }
};

/// Of AdamW in one step.
struct AdamWScalars {
  float kept, step_size, root;
};

/// Made in double precision and rounded once, as torch.optim.AdamW's are.
SHARDSCOPE_DEVICE AdamWScalars adamw_scalars(const StepState& state, double group_rate,
                                             double beta1, double beta2, double weight_decay) {
  const auto step = static_cast<double>(state.step);
  const double rate = state.learning_rate * group_rate;
  return {.kept = static_cast<float>(1.0 - rate * weight_decay),
          .step_size = static_cast<float>(rate / (1.0 - ::pow(beta1, step))),
          .root = static_cast<float>(::sqrt(1.0 - ::pow(beta2, step)))};
}

template <class T, class G>
struct AdamW {
  LaunchedSlices launch;
  const StepState* state;
  const double* clip;
  const G* g;
  T* p;
  T* m;
  T* v;
  Bfloat16* copy;  ///< null: none
  double group_rate, beta1, beta2, weight_decay;
  float first_weight, second_weight, epsilon;
  bool aligned;

  static constexpr std::int64_t shared_bytes = sizeof(AdamWScalars);

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    if (is_left_out(clip)) return;
    auto* scalars = thread.template shared<AdamWScalars>();
    if (thread.index() == 0)
      *scalars = adamw_scalars(*state, group_rate, beta1, beta2, weight_decay);
    thread.sync();
    const auto [kept, step_size, root] = *scalars;
    const auto second_kept = static_cast<float>(beta2);
    const float factor = gradient_factor(clip);
    for_warp_pieces(thread, launch, [&](const LaunchedSlice& slice, std::int64_t piece) {
      const float decayed = slice.decay ? kept : 1.0f;
      for_lane(thread, slice, piece, aligned, [&](std::int64_t i, auto some) {
        constexpr int n = decltype(some)::value;
        float gradient[n], parameter[n], first[n], second[n];
        load(g + i, gradient);
        load(p + i, parameter);
        load(m + i, first);
        load(v + i, second);
        for (int k = 0; k < n; ++k) {
          gradient[k] *= factor;
          first[k] += first_weight * (gradient[k] - first[k]);
          second[k] = second[k] * second_kept + second_weight * gradient[k] * gradient[k];
          const float denominator = sqrtf(second[k]) / root + epsilon;
          parameter[k] = parameter[k] * decayed - step_size * first[k] / denominator;
        }
        store(m + i, first);
        store(v + i, second);
        store(p + i, parameter);
        if (copy) store(copy + i, parameter);
      });
    });
  }
};

template <class T, class G>
struct Sgd {
  LaunchedSlices launch;
  const StepState* state;
  const double* clip;
  const G* g;
  T* p;
  T* buffer;       ///< null: no momentum
  Bfloat16* copy;  ///< null: none
  double group_rate;
  float decay, momentum;
  bool nesterov, aligned;

  static constexpr std::int64_t shared_bytes = 0;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    if (is_left_out(clip)) return;
    const auto rate = static_cast<float>(state->learning_rate * group_rate);
    const bool first_step = state->step == 1;
    const float factor = gradient_factor(clip);
    for_warp_pieces(thread, launch, [&](const LaunchedSlice& slice, std::int64_t piece) {
      for_lane(thread, slice, piece, aligned, [&](std::int64_t i, auto some) {
        constexpr int n = decltype(some)::value;
        float gradient[n], parameter[n], average[n];
        load(g + i, gradient);
        load(p + i, parameter);
        if (buffer) load(buffer + i, average);
        for (int k = 0; k < n; ++k) {
          gradient[k] *= factor;
          if (slice.decay) gradient[k] += decay * parameter[k];
          float direction = gradient[k];
          if (buffer) {
            average[k] = first_step ? gradient[k] : momentum * average[k] + gradient[k];
            direction = nesterov ? gradient[k] + momentum * average[k] : average[k];
          }
          parameter[k] -= rate * direction;
        }
        if (buffer) store(buffer + i, average);
        store(p + i, parameter);
        if (copy) store(copy + i, parameter);
      });
    });
  }
};

template <class Stream>
void run(const SumOfSquaresKernel& kernel, const KernelCall& call, Stream& stream) {
  constexpr std::int64_t warps = usual_threads / warp_size;
  with_element(kernel.gradient_dtype, [&](auto gradient) {
    using G = typename decltype(gradient)::Type;
    for_launches(call.slices, [&](const LaunchedSlices& launch) {
      const G* g = operand<G>(call, 0);
      stream.launch(SumOfSquares<G>{launch, g, operand<double>(call, 1), are_aligned(g)},
                    {.blocks = blocks_for(launch.items, warps)});
    });
  });
}

template <class Stream>
void run(const ClipCoefficientKernel& kernel, const KernelCall& call, Stream& stream) {
  auto* clip = operand<double>(call, 1);
  constexpr int threads = AddPieces::most_threads;
  stream.launch(fill_zero_of(clip, 1), {.threads = warp_size});
  for_launches(call.slices, [&](const LaunchedSlices& launch) {
    stream.launch(AddPieces{launch, operand<const double>(call, 0), clip},
                  {.threads = threads, .shared_bytes = threads * sizeof(double)});
  });
  stream.launch(ClipFactor{clip, kernel.clip, kernel.has_clip}, {.threads = warp_size});
}

template <class T, class G>
AdamW<T, G> adamw_body(const AdamWKernel& kernel, const KernelCall& call, const StepState* state) {
  return {.launch = {},
          .state = state,
          .clip = operand<const double>(call, 0),
          .g = operand<G>(call, 1),
          .p = operand<T>(call, 2),
          .m = operand<T>(call, 3),
          .v = operand<T>(call, 4),
          .copy = kernel.has_copy ? operand<Bfloat16>(call, 5) : nullptr,
          .group_rate = kernel.rate,
          .beta1 = kernel.beta1,
          .beta2 = kernel.beta2,
          .weight_decay = kernel.weight_decay,
          .first_weight = static_cast<float>(1.0 - kernel.beta1),
          .second_weight = static_cast<float>(1.0 - kernel.beta2),
          .epsilon = static_cast<float>(kernel.epsilon),
          .aligned = are_aligned(operand<G>(call, 1), operand<T>(call, 2), operand<T>(call, 3),
                                 operand<T>(call, 4), operand<Bfloat16>(call, 5))};
}

template <class T, class G>
Sgd<T, G> sgd_body(const SgdKernel& kernel, const KernelCall& call, const StepState* state) {
  return {.launch = {},
          .state = state,
          .clip = operand<const double>(call, 0),
          .g = operand<G>(call, 1),
          .p = operand<T>(call, 2),
          .buffer = operand<T>(call, 3),
          .copy = kernel.has_copy ? operand<Bfloat16>(call, 4) : nullptr,
          .group_rate = kernel.rate,
          .decay = static_cast<float>(kernel.weight_decay),
          .momentum = static_cast<float>(kernel.momentum),
          .nesterov = kernel.nesterov,
          .aligned = are_aligned(operand<G>(call, 1), operand<T>(call, 2), operand<T>(call, 3),
                                 operand<Bfloat16>(call, 4))};
}

/// Starts `body` on all slices of the call.
template <class Body, class Stream>
void launch_update(Body body, const KernelCall& call, Stream& stream) {
  for_launches(call.slices, [&](const LaunchedSlices& launch) {
    body.launch = launch;
    LaunchShape shape = vector_shape(launch.items * piece_elements);
    shape.shared_bytes = Body::shared_bytes;
    stream.launch(body, shape);
  });
}

template <class Stream>
void run(const AdamWKernel& kernel, const KernelCall& call, Stream& stream) {
  with_elements(kernel, [&](auto element, auto gradient) {
    using T = typename decltype(element)::Type;
    using G = typename decltype(gradient)::Type;
    launch_update(adamw_body<T, G>(kernel, call, stream.step_state()), call, stream);
  });
}

template <class Stream>
void run(const SgdKernel& kernel, const KernelCall& call, Stream& stream) {
  with_elements(kernel, [&](auto element, auto gradient) {
    using T = typename decltype(element)::Type;
    using G = typename decltype(gradient)::Type;
    launch_update(sgd_body<T, G>(kernel, call, stream.step_state()), call, stream);
  });
}

}  // namespace shardscope::cuda
