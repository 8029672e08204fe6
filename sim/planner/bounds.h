// What the step time and the memory of a choice cannot fall below, without a schedule of it.
#pragma once

#include <map>
#include <span>
#include <stop_token>
#include <vector>

#include "sim/planner/trial.h"

namespace shardscope::planner {

class PipelineBounds;

struct Bounds {
  Duration time;
  Bytes memory;  ///< with what lies outside
};

/// Lower bounds of every choice. A forward and backward of the model alone is recorded once for
/// each (batch, checkpointing, dtypes), sizes of units follow once for each sharding from
/// core/pytorch/plans:
///
///   W = its kernels x micro-batches + what the optimizer has to read at memory bandwidth
///   C = gathers and reductions that the sharding needs at least, each as one collective
///   S = those of them, and copies, that the runtime puts on the stream that computes
///   time >= W + S + (C - S) (1 - 1 / compute_slowdown): compute is slowed while collectives run
///   time >= C; time >= launches x launch time: the host, which under DeepSpeed also takes what is
///             reduced apart for each rank
///   memory >= P + OS + buffers + the most that activations and temporaries take in that forward
///             and backward
///   memory >= P + G + OS
///
/// What a `stop` comes before has no bound: 0.
std::vector<Bounds> bounds_of(std::span<const Choice> choices, const TrialInputs& inputs,
                              unsigned threads, const std::stop_token& stop = {});
/// The same; `known` pipelines need not be bounded anew, and these become known.
std::vector<Bounds> bounds_of(std::span<const Choice> choices, const TrialInputs& inputs,
                              unsigned threads, const std::stop_token& stop, PipelineBounds& known);

/// No higher than those, and without a recording: of torchtitan's choices by formula
/// (sim/planner/torchtitan_floor.h), of others 0.
std::vector<Bounds> floors_of(std::span<const Choice> choices, const TrialInputs& inputs,
                              unsigned threads, const std::stop_token& stop = {});

}  // namespace shardscope::planner
