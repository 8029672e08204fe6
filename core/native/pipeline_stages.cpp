#include "core/native/pipeline_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "core/base/error.h"
#include "core/base/refusal.h"
#include "core/pipeline/transfer_order.h"

namespace shardscope {
namespace {

constexpr std::string_view stages_option = "--pipeline-stages";

std::vector<int> equal_blocks(int blocks, int stages) {
  std::vector<int> counts(static_cast<std::size_t>(stages), blocks / stages);
  for (int i = 0; i < blocks % stages; ++i) ++counts[static_cast<std::size_t>(i)];
  return counts;
}

std::int64_t elements_of(const Linear& linear) { return linear.in * linear.out; }

std::int64_t work_of(const DecoderBlock& block) {
  std::int64_t work = elements_of(block.attention_out) + elements_of(block.mlp_out);
  for (const auto* linears : {&block.qkv, &block.mlp_in})
    for (const Linear& linear : *linears) work += elements_of(linear);
  return work;
}

/// Deals blocks out so that no stage has more than `most`; empty where that takes more stages.
std::vector<int> dealt(const std::vector<std::int64_t>& work, std::int64_t head, int stages,
                       std::int64_t most) {
  std::vector<int> counts;
  std::int64_t sum = 0;
  // From the last stage on, which has the head as well.
  std::int64_t before = head;
  int count = 0;
  for (std::size_t i = work.size(); i-- > 0;) {
    const auto left = static_cast<int>(i + 1);
    const int stages_left = stages - static_cast<int>(counts.size()) - 1;
    sum = before + work[i];
    // Each of the stages before needs a block of its own.
    const bool needed = left <= stages_left;
    if (count > 0 && (sum > most || needed)) {
      counts.push_back(count);
      count = 0;
      before = 0;
      sum = work[i];
    }
    if (sum > most) return {};
    ++count;
    before = sum;
  }
  counts.push_back(count);
  if (static_cast<int>(counts.size()) > stages) return {};
  std::ranges::reverse(counts);
  return counts;
}

/// The least largest stage, found by halving.
std::vector<int> balanced_blocks(const Decoder& decoder, int stages) {
  std::vector<std::int64_t> work;
  for (const DecoderBlock& block : decoder.blocks) work.push_back(work_of(block));
  const std::int64_t head = elements_of(decoder.head);
  std::int64_t low = 0;
  std::int64_t high = std::accumulate(work.begin(), work.end(), head);
  while (low + 1 < high) {
    const std::int64_t middle = low + (high - low) / 2;
    const std::vector<int> counts = dealt(work, head, stages, middle);
    (counts.empty() ? low : high) = middle;
  }
  return dealt(work, head, stages, high);
}

std::vector<int> given_blocks(const PipelineChoice& choice, int blocks, int stages,
                              std::string_view where) {
  const int sum = std::accumulate(choice.layers.begin(), choice.layers.end(), 0);
  if (static_cast<int>(choice.layers.size()) != stages || sum != blocks) {
    throw Error(
        {.where = std::string(where),
         .what = fmt::format("{} gives {} stages {} layers, but there are {} stages and {} "
                             "layers",
                             text_of_stages(choice), choice.layers.size(), sum, stages, blocks),
         .way_out = "give a number of layers for each stage"});
  }
  for (std::size_t i = 1; i + 1 < choice.layers.size(); ++i) {
    if (choice.layers[i] > 0) continue;
    throw Error(
        {.where = std::string(where),
         .what = fmt::format("stage {} of {} has no layers", i, stages),
         .way_out = "only the first stage (embedding) and the last one (head) may have none"});
  }
  return choice.layers;
}

/// Marks the parameters of a norm or a linear layer.
void mark(std::vector<bool>& has, ParameterId id) {
  if (id) has[id.value] = true;
}
void mark(std::vector<bool>& has, const Norm& norm) {
  mark(has, norm.weight);
  mark(has, norm.bias);
}
void mark(std::vector<bool>& has, const Linear& linear) {
  mark(has, linear.weight);
  mark(has, linear.bias);
}
void mark(std::vector<bool>& has, const DecoderBlock& block) {
  mark(has, block.attention_norm);
  mark(has, block.mlp_norm);
  mark(has, block.attention_out);
  mark(has, block.mlp_out);
  for (const auto* linears : {&block.qkv, &block.mlp_in})
    for (const Linear& linear : *linears) mark(has, linear);
}
void mark_embedding(std::vector<bool>& has, const Decoder& decoder) {
  mark(has, decoder.token_embedding);
  mark(has, decoder.position_embedding);
}
void mark_head(std::vector<bool>& has, const Decoder& decoder) {
  mark(has, decoder.final_norm);
  mark(has, decoder.head);
}

bool any_trained(const Model& model, const std::vector<bool>& has) {
  for (std::size_t i = 0; i < has.size(); ++i)
    if (has[i] && model.parameters[i].trainable) return true;
  return false;
}

/// Cuts a model; goes through all stages and takes those of one rank.
class Cutter {
 public:
  Cutter(const Model& model, PipelinePart& part)
      : decoder_(*model.decoder), part_(part), before_(model.parameters.size(), false) {
    part_.model = model;
    part_.model.decoder->blocks.clear();
    part_.model.decoder->attention_scale_by_layer.clear();
    part_.has_parameter.assign(model.parameters.size(), false);
  }

  void cut(const std::vector<int>& blocks, const std::vector<int>& rank_of_stage) {
    for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
      const bool here = rank_of_stage[stage] == part_.rank;
      const bool first = stage == 0;
      const bool last = stage + 1 == blocks.size();
      if (here) {
        part_.segments.push_back(
            {.stage = static_cast<int>(stage),
             .first_block = static_cast<int>(part_.model.decoder->blocks.size()),
             .blocks = blocks[stage],
             .begins = first,
             .ends = last,
             .gives_gradient = any_trained(part_.model, before_)});
      }
      if (first) take(here, [&](auto& has) { mark_embedding(has, decoder_); });
      for (int i = 0; i < blocks[stage]; ++i) take_block(here);
      if (last) take(here, [&](auto& has) { mark_head(has, decoder_); });
    }
  }

 private:
  template <class Mark>
  void take(bool here, const Mark& mark_all) {
    mark_all(before_);
    if (here) mark_all(part_.has_parameter);
  }
  void take_block(bool here) {
    const DecoderBlock& block = decoder_.blocks[next_];
    take(here, [&](auto& has) { mark(has, block); });
    if (here) {
      part_.model.decoder->blocks.push_back(block);
      if (!decoder_.attention_scale_by_layer.empty())
        part_.model.decoder->attention_scale_by_layer.push_back(
            decoder_.attention_scale_by_layer[next_]);
    }
    ++next_;
  }

  const Decoder& decoder_;
  PipelinePart& part_;
  std::vector<bool> before_;  ///< parameters of this and earlier stages
  std::size_t next_ = 0;      ///< block
};

void check_checkpoint(const Strategy& strategy, const PipelineChoice& choice) {
  if (choice.checkpoint == PipelineCheckpoint::never) return;
  const auto fail = [&](std::string what, std::string way_out) {
    throw Error({.where = "--pipeline-checkpoint",
                 .what = fmt::format("{}: {}", name_of(choice.checkpoint), what),
                 .way_out = std::move(way_out)});
  };
  if (choice.schedule != PipelineScheduleKind::gpipe)
    fail(fmt::format("whole stages are run again only under GPipe, and the schedule is {}",
                     name_of(choice.schedule)),
         "give --pipeline-schedule GPipe, or --checkpointing for blocks");
  if (strategy.checkpointing.any())
    fail(fmt::format("whole stages are run again, and checkpointing {} runs blocks again",
                     text_of(strategy.checkpointing)),
         "give one of --pipeline-checkpoint and --checkpointing");
}

}  // namespace

std::vector<int> blocks_of_stages(const Model& model, const PipelineChoice& choice, int stages,
                                  std::string_view where) {
  const auto blocks = static_cast<int>(model.decoder->blocks.size());
  const bool by_work = choice.layers.empty() && choice.balance == StageBalance::work;
  return by_work && stages <= blocks ? balanced_blocks(*model.decoder, stages)
                                     : blocks_of_stages(blocks, choice, stages, where);
}

std::vector<int> blocks_of_stages(int blocks, const PipelineChoice& choice, int stages,
                                  std::string_view where) {
  if (!choice.layers.empty()) return given_blocks(choice, blocks, stages, where);
  if (stages > blocks) {
    throw Error(
        {.where = std::string(where),
         .what = fmt::format("{} stages are more than the model's {} layers", stages, blocks),
         .way_out = fmt::format("use at most {} stages", blocks)});
  }
  if (needs_prediction(choice.balance)) {
    throw Error({.where = std::string(where),
                 .what = fmt::format("dealing layers out by {} needs a prediction, and none is "
                                     "made here",
                                     name_of(choice.balance)),
                 .way_out = "give layers, work or numbers of layers such as 3,4,4,3; simulate says "
                            "which numbers"});
  }
  if (choice.balance == StageBalance::work)
    throw Error({.where = std::string(where),
                 .what = "the work of a layer is not known for these layers",
                 .way_out = "give layers, or numbers of layers such as 3,4,4,3"});
  return equal_blocks(blocks, stages);
}

PipelineSetup pipeline_setup(const Strategy& strategy, const PipelineChoice& choice,
                             int micro_batches) {
  if (has_single_stage(choice.schedule) && choice.stages_per_rank != 1) {
    throw Error({.where = "--pipeline-schedule",
                 .what = fmt::format("{} has one stage a rank, not {}", name_of(choice.schedule),
                                     choice.stages_per_rank),
                 .way_out = "use Interleaved1F1B, LoopedBFS or InterleavedZeroBubble, or one "
                            "stage a rank"});
  }
  if (choice.stages_per_rank < 1 || choice.stages_per_rank > 1024) {
    throw Error({.where = "--stages-per-rank",
                 .what = fmt::format("expected 1 to 1024, got {}", choice.stages_per_rank)});
  }
  check_checkpoint(strategy, choice);
  if (strategy.reduce_every_micro_batch) {
    throw Error({.where = "strategy",
                 .what = "a pipeline reduces gradients once a step",
                 .way_out = "drop reduce_every_micro_batch"});
  }
  constexpr std::int64_t most_chunks = 16384;
  const std::int64_t chunks =
      std::int64_t{strategy.mesh.pipeline} * choice.stages_per_rank * micro_batches;
  if (chunks > most_chunks) {
    throw Error({.where = "--mesh",
                 .what = fmt::format("{} stages of {} micro-batches are {} forwards, more than the "
                                     "{} that a step of a pipeline can have",
                                     strategy.mesh.pipeline * choice.stages_per_rank, micro_batches,
                                     chunks, most_chunks),
                 .way_out = "use fewer stages or micro-batches (--accumulate)"});
  }
  const PipelineSetup setup{.kind = choice.schedule,
                            .ranks = strategy.mesh.pipeline,
                            .stages_per_rank = choice.stages_per_rank,
                            .micro_batches = micro_batches,
                            .options = {}};
  try {
    check_counts(setup);
  } catch (const Refusal& refusal) {
    throw Refusal(
        refusal.exception(),
        {.where = "--pipeline-schedule",
         .what = fmt::format("PyTorch refuses {} so: {}", name_of(choice.schedule),
                             refusal.parts().what),
         .way_out = is_v_shaped(choice.schedule) && choice.stages_per_rank != 2
                        ? "give --stages-per-rank 2"
                        : "change --accumulate (the micro-batches), the stages or the schedule"});
  }
  return setup;
}

PipelinePart pipeline_part(const Model& model, const Strategy& strategy,
                           const PipelineChoice& choice, int micro_batches, int rank) {
  PipelinePart part{.setup = pipeline_setup(strategy, choice, micro_batches), .rank = rank};
  const std::vector<int> rank_of_stage = rank_of_stages(part.setup);
  Cutter(model, part)
      .cut(blocks_of_stages(model, choice, part.setup.stages(), stages_option), rank_of_stage);
  const Decoder& decoder = *model.decoder;
  const bool tied = decoder.head.weight == decoder.token_embedding;
  part.rank_of_stage = rank_of_stage;
  const bool apart = rank_of_stage.front() != rank_of_stage.back();
  const bool at_end = rank == rank_of_stage.front() || rank == rank_of_stage.back();
  part.shares_embedding = tied && apart && at_end;
  part.keeps_embedding_twice = part.shares_embedding && rank == rank_of_stage.back();
  return part;
}

ActionOrder order_of(const PipelinePart& part) {
  return transfer_orders(part.setup)[static_cast<std::size_t>(part.rank)];
}

int pipeline_rank(const Mesh& mesh, int rank) { return rank / (mesh.replicate * mesh.shard); }

int data_parallel_rank(const Mesh& mesh, int rank) { return rank % (mesh.replicate * mesh.shard); }

StageSegment whole_model(const Model& model) {
  return {.blocks = static_cast<int>(model.decoder->blocks.size())};
}

}  // namespace shardscope
