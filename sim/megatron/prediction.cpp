#include "sim/megatron/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/base/dtype.h"
#include "sim/megatron/divided_step.h"
#include "sim/megatron/stage_memory.h"
#include "sim/megatron/training.h"
#include "sim/prediction/memory_allowances.h"
#include "sim/prediction/outside_memory.h"
#include "traces/analysis.h"

namespace shardscope {
namespace {

using megatron::Settings;

constexpr std::string_view formula =
    "flops of a rank's forward and backward, 6 a parameter of products and token and causal "
    "attention, without recomputation / (step time x peak of a device)";

enum TrackOf : std::uint16_t { compute_track, communication_track, transfer_track };

double share(Duration part, Duration whole) {
  return whole.ns > 0 ? part.seconds() / whole.seconds() : 0;
}

Duration scaled(Duration time, double factor) {
  return Duration::from_seconds(time.seconds() * factor);
}

/// The trace of one rank of the pipeline.
class RankTrace {
 public:
  RankTrace(const Settings& settings, const PlayedStep& played, int rank, double stretch)
      : s_(settings), played_(played), rank_(rank), stretch_(stretch) {
    trace_.kind = TraceKind::predicted;
    trace_.rank = rank * (settings.world / settings.pipeline);
    trace_.world = settings.world;
    trace_.device = played.pipeline.ranks.empty() ? "" : "cuda";
    trace_.tracks = {{"compute", Stream::compute},
                     {"communication", Stream::reduce},
                     {"send and receive", Stream::send_receive}};
  }

  Trace build(const Accounting& update) {
    hold_states();
    for (const PlayedAction& one : played_.pipeline.ranks[static_cast<std::size_t>(rank_)])
      add(one);
    add_update(update);
    remember();
    std::ranges::stable_sort(trace_.spans, {},
                             [](const Span& span) { return std::pair(span.track, span.start.ns); });
    return std::move(trace_);
  }

 private:
  struct Change {
    Duration time;
    MemoryCategory category;
    Bytes bytes;  ///< more, or less than before
    OperationId operation;
  };

  Duration at(Duration time) const { return scaled(time, stretch_); }

  void change(Duration time, MemoryCategory category, Bytes bytes, OperationId operation = {}) {
    if (bytes.count != 0) changes_.push_back({time, category, bytes, operation});
  }

  void hold_states() {
    const megatron::StateBytes states = megatron::state_bytes(s_, rank_);
    change({}, MemoryCategory::parameters, states.parameters);
    change({}, MemoryCategory::gradients, states.gradients);
    change({}, MemoryCategory::optimizer_states, states.optimizer);
    change({}, MemoryCategory::workspace,
           states.eight_bits + megatron::unread_gradients(s_, rank_));
  }

  OperationId operation(std::string name, OperationKind kind, Phase phase, const Action& action) {
    const OperationId id = OperationId::of(trace_.facts.size());
    trace_.facts.push_back({.operation = id,
                            .name = std::move(name),
                            .kind = kind,
                            .phase = phase,
                            .micro_batch = std::max(0, action.micro_batch),
                            .unit = fmt::format("stage {}", action.stage)});
    return id;
  }

  void span(Duration start, Duration length, TrackOf track, SpanClass kind, OperationId operation) {
    if (length.ns <= 0) return;
    const std::string& name = trace_.facts[operation.value].name;
    const auto [found, fresh] =
        names_.try_emplace(name, static_cast<std::uint32_t>(trace_.names.size()));
    if (fresh) trace_.names.push_back(name);
    trace_.spans.push_back({.start = start,
                            .duration = length,
                            .name = found->second,
                            .track = track,
                            .span_class = kind,
                            .operation = operation,
                            .step = 1});
  }

  void add(const PlayedAction& one) {
    if (is_compute(one.action.kind)) return add_chunk(one);
    if (!is_send(one.action.kind) && !is_receive(one.action.kind)) return;
    const bool sends = is_send(one.action.kind);
    const OperationId id =
        operation(text_of(one.action), sends ? OperationKind::send : OperationKind::receive,
                  is_of_gradient(one.action.kind) ? Phase::backward : Phase::forward, one.action);
    span(at(one.start), at(one.end) - at(one.start), transfer_track, SpanClass::communication, id);
  }

  /// Compute, and communication beside and behind it, in the shares of the stage that was played.
  void add_chunk(const PlayedAction& one) {
    const bool forward = one.action.kind == ActionKind::forward;
    const Accounting& parts = forward ? played_.pipeline.forward : played_.pipeline.backward;
    const Duration start = at(one.start);
    const Duration length = at(one.end) - start;
    const Phase phase = forward ? Phase::forward : Phase::backward;
    const std::string_view word = forward ? "forward" : "backward";
    const OperationId computes = operation(fmt::format("{} of micro-batch {} in stage {}", word,
                                                       one.action.micro_batch, one.action.stage),
                                           OperationKind::compute, phase, one.action);
    const Duration computed = scaled(length, share(parts.compute, parts.span));
    span(start, computed, compute_track, SpanClass::compute, computes);
    if (parts.communication.ns > 0) {
      const OperationId moves = operation(fmt::format("communication in {}", word),
                                          OperationKind::all_reduce, phase, one.action);
      const Duration beside = scaled(length, share(parts.overlap, parts.span));
      span(start + computed - beside, scaled(length, share(parts.communication, parts.span)),
           communication_track, SpanClass::communication, moves);
    }
    const megatron::ChunkMemory memory = megatron::chunk_memory(s_, one.action.stage);
    if (forward)
      forward_memory(memory, start, start + length, computes);
    else
      backward_memory(memory, start, start + length, computes);
  }

  void forward_memory(const megatron::ChunkMemory& memory, Duration start, Duration end,
                      OperationId id) {
    change(start, MemoryCategory::activations, memory.kept + memory.head, id);
    change(start, MemoryCategory::temporaries, memory.in_forward, id);
    change(end, MemoryCategory::temporaries, Bytes{} - memory.in_forward, id);
  }

  /// The output layer runs first; then what it kept is free.
  void backward_memory(const megatron::ChunkMemory& memory, Duration start, Duration end,
                       OperationId id) {
    const Duration behind_head = memory.head.count > 0 ? start + scaled(end - start, 0.01) : start;
    change(start, MemoryCategory::temporaries, memory.in_head, id);
    change(behind_head, MemoryCategory::temporaries, Bytes{} - memory.in_head, id);
    change(behind_head, MemoryCategory::activations, Bytes{} - memory.head, id);
    change(behind_head, MemoryCategory::temporaries, memory.in_backward, id);
    change(end, MemoryCategory::temporaries, Bytes{} - memory.in_backward, id);
    change(end, MemoryCategory::activations, Bytes{} - memory.kept, id);
  }

  /// Behind the last backward of all ranks: what is left of reductions, then the update.
  void add_update(const Accounting& update) {
    const Duration start = at(played_.pipeline.last_end);
    const Action all{.stage = rank_};
    const OperationId moves = operation("gradients reduced, parameters gathered",
                                        OperationKind::all_reduce, Phase::optimizer, all);
    const OperationId updates =
        operation("optimizer", OperationKind::optimizer, Phase::optimizer, all);
    span(start, at(update.exposed_communication), communication_track, SpanClass::communication,
         moves);
    span(start + at(update.exposed_communication), at(update.compute), compute_track,
         SpanClass::compute, updates);
  }

  void remember() {
    // What is let go at a moment is free for what is asked for then.
    std::ranges::stable_sort(changes_, {}, [](const Change& one) {
      return std::pair(one.time.ns, one.bytes.count > 0);
    });
    CategoryBytes live;
    for (const Change& one : changes_) {
      live[one.category] += one.bytes;
      trace_.memory.push_back({.time = one.time, .operation = one.operation, .live = live});
    }
  }

  const Settings& s_;
  const PlayedStep& played_;
  int rank_;
  double stretch_;
  Trace trace_;
  std::vector<Change> changes_;
  std::map<std::string, std::uint32_t, std::less<>> names_;
};

MemorySummary memory_of(const Trace& trace, TimeWindow window, Bytes outside) {
  const MemoryPeak peak = memory_peak(trace, window);
  const OperationFacts* at = FactsTable(trace).find(peak.operation);
  return {.peak_allocated = peak.total,
          .peak_active = peak.total,
          .peak_reserved = peak.total,
          .outside = outside,
          .at_operation = at ? at->name : "",
          .at_peak = peak.at_peak,
          .maximum = peak.maximum};
}

/// Communicators of several ranks that a rank is in.
std::int64_t communicators_of(const Settings& s) {
  return (s.tensor > 1) + (s.context > 1) + (s.pipeline > 1) + (s.data_context() > 1) +
         (s.expert > 1) + (s.expert > 1 && s.data_context() > s.expert);
}

/// Of the step behind the last backward, so that all of it sums to `length`.
Accounting update_of(const DividedTraining& training, const PlayedStep& played, Duration length) {
  Accounting update = played.pipeline.updated;
  if (training.update) {
    update.exposed_communication = megatron_exchange_time(*training.update, training.profile);
    update.compute = played.pipeline.update - update.exposed_communication;
  }
  update.exposed_communication += played.pipeline.shared_gradient;
  const Duration known = update.exposed_communication + update.compute;
  if (known <= length) return update;
  const double factor = share(length, known);
  update.exposed_communication = scaled(update.exposed_communication, factor);
  update.compute = length - update.exposed_communication;
  return update;
}

std::string strategy_of(const Settings& s) {
  return s.distributed_optimizer ? "distributed optimizer" : "data parallel";
}

std::string precision_of(const Settings& s) {
  if (s.float8 != megatron::Float8::none) return "fp8";
  return s.parameters == Dtype::float32   ? "fp32"
         : s.parameters == Dtype::float16 ? "fp16_mixed"
                                          : "bf16_mixed";
}

RunFacts facts_of(const Settings& s, const std::vector<OutsideFigure>& outside,
                  const HardwareProfile& profile) {
  RunFacts facts;
  facts.strategy = strategy_of(s);
  facts.runtime = "megatron";
  facts.precision = precision_of(s);
  if (profile.memory.count > 0) facts.device_memory = profile.memory;
  facts.tokens_per_step = s.sequences() * s.shape.seq;
  facts.model_flops = megatron_flops(s);
  facts.peak = peak_of(profile, s.float8 == megatron::Float8::none ? s.parameters : Dtype::uint8);
  facts.mfu_formula = formula;
  for (const OutsideFigure& figure : outside) {
    facts.outside_items.push_back(figure.item);
    facts.outside += figure.item.bytes;
    if (figure.item.bytes.count > 0)
      facts.allowances.push_back(allowance({.item = figure.item.item,
                                            .below = figure.spread,
                                            .above = figure.spread,
                                            .source = figure.item.source},
                                           figure.item.bytes));
  }
  return facts;
}

StageSummary stage_of(const Settings& s, const Summary& summary, int rank) {
  StageSummary stage{.rank = rank,
                     .compute = summary.time.compute,
                     .exposed_communication = summary.time.exposed_communication,
                     .idle = summary.time.idle,
                     .bubble_share = share(summary.time.idle, summary.time.span),
                     .activations = summary.memory.maximum[MemoryCategory::activations],
                     .peak = summary.memory.peak_allocated,
                     .reserved = summary.memory.peak_reserved};
  const std::vector<int> layers = s.stage_layers();
  for (int chunk = 0; chunk < s.stages_per_rank; ++chunk) {
    stage.stages.push_back(chunk * s.pipeline + rank);
    stage.layers += layers[static_cast<std::size_t>(stage.stages.back())];
  }
  return stage;
}

void tell_of_all(const Settings& s, std::vector<Prediction>& predictions) {
  PipelineSummary pipeline{.schedule = s.stages_per_rank > 1 ? "Interleaved1F1B" : "1F1B",
                           .stages_per_rank = s.stages_per_rank,
                           .micro_batches = static_cast<int>(s.micro_batches())};
  bool fits = true;
  for (int rank = 0; rank < s.pipeline; ++rank) {
    const Summary& summary = predictions[static_cast<std::size_t>(rank)].summary;
    pipeline.ranks.push_back(stage_of(s, summary, rank));
    pipeline.bubble_share += pipeline.ranks.back().bubble_share / s.pipeline;
    fits = fits && summary.fits;
  }
  for (Prediction& one : predictions) {
    one.summary.pipeline = pipeline;
    one.summary.fits = fits;
  }
}

}  // namespace

Flops megatron_flops(const Settings& s) {
  const std::vector<int> layers = s.stage_layers();
  double products = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    const megatron::HeldParameters held = megatron::held_parameters(s, static_cast<int>(stage));
    const ExpertShape& experts = s.shape.experts;
    const double active = experts.experts == 0 ? 0
                                               : static_cast<double>(held.experts) * s.expert *
                                                     static_cast<double>(experts.chosen) /
                                                     static_cast<double>(experts.experts);
    products += static_cast<double>(held.linear - held.experts) * s.tensor + active;
  }
  products += static_cast<double>(s.padded_vocabulary()) * static_cast<double>(s.shape.hidden);
  const LatentShape& latents = s.shape.latents;
  const double columns = static_cast<double>(
      s.shape.heads *
      (latents.rank > 0 ? latents.plain + latents.rotary + latents.value : 2 * s.shape.head_size));
  const double attention =
      3 * static_cast<double>(s.shape.layers) * columns * static_cast<double>(s.shape.seq);
  const double tokens =
      static_cast<double>(s.sequences()) * static_cast<double>(s.shape.seq) / s.world;
  return Flops{std::llround(tokens * (6 * products + attention))};
}

std::vector<Prediction> predict_megatron(const Settings& settings, std::vector<std::string> assumed,
                                         const HardwareProfile& profile) {
  const DividedTraining training = megatron_training(settings, profile);
  assumed.insert(assumed.end(), training.assumed.begin(), training.assumed.end());
  const PlayedStep played = played_step(training);
  const DividedStep& step = played.step;
  // Without a pipeline the step is played as a whole, and its micro-batches may overlap.
  const double stretch = std::min(1.0, share(step.time, played.pipeline.last_end));
  const Duration rest = step.time - scaled(played.pipeline.last_end, stretch);
  const Accounting update = update_of(training, played, rest);
  const std::vector<OutsideFigure> outside = outside_figures(communicators_of(settings), profile);
  std::vector<Prediction> predictions;
  for (int rank = 0; rank < settings.pipeline; ++rank) {
    RunFacts facts = facts_of(settings, outside, profile);
    facts.assumed = assumed;
    facts.low_factor = share(step.low, step.time);
    facts.high_factor = share(step.high, step.time);
    Prediction& one = predictions.emplace_back();
    one.trace = RankTrace(settings, played, rank, stretch).build(update);
    const TimeWindow window{.begin = {}, .end = step.time};
    facts.steps = {{.label = "steady",
                    .window = window,
                    .memory = memory_of(one.trace, window, facts.outside)}};
    one.summary = summarize(one.trace, facts);
  }
  if (settings.pipeline > 1) tell_of_all(settings, predictions);
  return predictions;
}

}  // namespace shardscope
