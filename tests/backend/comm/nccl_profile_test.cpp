// NCCL's profiler interface in a training: the stand-in tells our plugin what NCCL would tell it.
#include "backend/profile/nccl_profile.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "backend/executor/profiled_trace.h"
#include "backend/profile/nccl_events.h"
#include "backend/train/trainer.h"
#include "core/format/atomic_file.h"
#include "tests/backend/comm/stand_in_ranks.h"
#include "tests/backend/cuda/stand_in_teacher.h"
#include "tests/backend/train/training_fixture.h"
#include "traces/operation_spans.h"

namespace shardscope::test {
namespace {

constexpr std::string_view narrow_gpt2 = R"({
  "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 256, "n_positions": 8, "n_embd": 16,
  "n_layer": 1, "n_head": 2, "n_inner": null, "activation_function": "gelu_new", "initializer_range": 0.1,
  "layer_norm_epsilon": 1e-05, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "tie_word_embeddings": true})";

/// What a forked rank finds wrong reaches the test as its message.
void require(bool holds, std::string_view what) {
  if (!holds) throw std::runtime_error(std::string(what));
}

enum class Timed { no, yes };
void run_step(Trainer& trainer, std::int64_t step, Timed timed) {
  trainer.executor().run_step({.learning_rate = 1e-3, .step = step}, timed == Timed::yes);
}

class NcclProfile : public TrainingFixture {
 protected:
  using Body = std::function<void(Trainer&)>;
  void train(const Body& body) const {
    Job two = job(narrow_gpt2, 2, ShardingStrategy::full_shard, "run");
    two.check = false;
    two.seq = 8;
    two.steps = 8;
    two.profile_steps = 1;
    create_folder(two.output);
    const auto outcomes = run_stand_in_ranks({.ranks = 2}, [&](const StandInRank& rank) {
      teach_job(two, rank.place.rank, rank.place.world, rank.device);
      Trainer trainer(two, rank.world, rank.device);
      body(trainer);
      trainer.executor().between_steps([&] { rank.world.barrier(); });
    });
    for (const auto& outcome : outcomes) EXPECT_EQ(outcome, testing::RankOutcome{});
  }

  void SetUp() override { ::setenv("NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN", 1); }
  void TearDown() override { ::unsetenv("NCCL_PROFILER_PLUGIN"); }
};

const OperationFacts& facts_named(const Trace& trace, std::string_view name) {
  for (const OperationFacts& facts : trace.facts)
    if (facts.name == name) return facts;
  throw std::runtime_error(fmt::format("the trace has no {}", name));
}

/// The block in pieces of 256: norms 4, c_attn 768 and 1, attn.c_proj 1 and 1, c_fc and mlp.c_proj
/// 1024 and 1 each: 20 pieces, 20480 bytes, of which a rank puts in half.
TEST_F(NcclProfile, AWindowSaysOfEachCollectiveHowItWasMoved) {
  train([](Trainer& trainer) {
    const auto probe = make_nccl_probe(trainer.schedule());
    require(probe != nullptr, "NCCL does not know us");
    trainer.executor().set_probes({probe.get()});
    const auto instrument = make_nccl_instrument();
    run_step(trainer, 1, Timed::yes);
    instrument->start();
    run_step(trainer, 2, Timed::yes);
    instrument->stop();
    Trace trace = profiled_trace(trainer.executor(), "stand-in", 0);
    instrument->add_to(trace, {.first_step = 2, .last_step = 2});

    const OperationFacts& gather = facts_named(trace, "all_gather:transformer.h.0");
    require(gather.choice == CollectiveChoice{"RING", "SIMPLE", 1}, "another choice");
    const OperationSpans spans(trace);
    const auto measured = [&](int step, std::string_view measure) {
      return measure_of(trace, spans.find(step, gather.operation).value(), measure);
    };
    require(measured(2, "network_steps") == 4, "not two transfers each way");
    require(measured(2, "network_sent_bytes") == 10240, "not the bytes that were sent");
    require(measured(2, "network_received_bytes") == 10240, "not the bytes that were received");
    require(!measured(1, "network_steps"), "step 1 is outside of the window");
    require(trace.recording.dropped_records == 0, "something was lost");
  });
}

/// Step 1 is captured, the others replay it.
TEST_F(NcclProfile, CollectivesOfAReplayedStepAreTheirOperations) {
  train([](Trainer& trainer) {
    const auto probe = make_nccl_probe(trainer.schedule());
    trainer.executor().set_probes({probe.get()});
    for (int step = 1; step <= 3; ++step) run_step(trainer, step, Timed::no);
    nccl_events().open_window();
    run_step(trainer, 4, Timed::no);
    nccl_events().close_window();
    std::size_t in_schedule = 0;
    for (const Operation& operation : trainer.schedule().operations)
      if (operation.phase != Phase::init && is_collective(operation.kind)) ++in_schedule;
    const std::vector<NcclCollective> heard = nccl_events().collectives();
    require(heard.size() == in_schedule, "not every collective was heard of");
    for (const NcclCollective& collective : heard) {
      require(collective.step == 4, "another step");
      require(collective.operation.valid() &&
                  is_collective(trainer.schedule().at(collective.operation).kind),
              "no collective of the schedule");
    }
  });
}

TEST_F(NcclProfile, ALibraryThatTakesNoPluginIsSaidOnce) {
  ::setenv("NCCL_PROFILER_PLUGIN", "none", 1);
  train([](Trainer& trainer) {
    require(make_nccl_probe(trainer.schedule()) == nullptr, "there is a probe");
    Trace trace;
    make_nccl_instrument()->add_to(trace, {});
    require(trace.recording.notes.size() == 1, "nothing is said");
  });
}

}  // namespace
}  // namespace shardscope::test
