// The search against full enumeration: bounds that never drop what belongs on a place.
#include "sim/planner/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/model/huggingface.h"
#include "sim/planner/bounds.h"

namespace shardscope::planner {
namespace {

constexpr std::string_view llama = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 256, "intermediate_size": 768, "max_position_embeddings": 512,
  "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "use_cache": false, "vocab_size": 4096})";
constexpr std::string_view gpt2 = R"({
  "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 128, "n_head": 4,
  "n_layer": 4, "n_positions": 256, "vocab_size": 2048, "use_cache": false})";

/// A machine of small figures, so that each of compute, links, host and memory is what holds up
/// some of the choices.
struct Machine {
  std::string name;
  double link_gb_s;
  Duration launch;
  Bytes memory;
  int world;
  double compute_slowdown;
};

HardwareProfile profile_of(const Machine& machine) {
  return {.name = machine.name,
          .device = "cuda",
          .memory = machine.memory,
          .compute_capability = 90,
          .peak = {2e12},
          .peak_bfloat16 = FlopRate{8e12},
          .memory_bandwidth = {100e9},
          .operation_overhead = machine.launch,
          .link = Link{.bandwidth = {machine.link_gb_s * 1e9}, .latency = 2_us},
          .network = Link{.bandwidth = {machine.link_gb_s * 2e8}, .latency = 5_us},
          .ranks_per_node = 2,
          .compute_slowdown = machine.compute_slowdown};
}

struct Case {
  std::string name;
  std::string_view config;
  TrainingPrecision precision;
  Machine machine;
};

class EverySearch : public ::testing::TestWithParam<Case> {
 protected:
  EverySearch()
      : config_(JsonValue::parse(GetParam().config, "config.json")),
        model_(model_of_config(config_)),
        profile_(profile_of(GetParam().machine)),
        costs_(profile_),
        question_{.runtimes = {Runtime::native, Runtime::fsdp1, Runtime::fsdp2, Runtime::ddp,
                               Runtime::deepspeed},
                  .precisions = {GetParam().precision},
                  .world = GetParam().machine.world,
                  .tokens_per_batch = GetParam().machine.world * 2 * 128,
                  .training = {.length = 128}},
        choices_(some_of(enumerate(model_, question_).choices)) {}

  /// Every fifth of them: enough to tell, and a search by full enumeration stays short.
  static std::vector<Choice> some_of(const std::vector<Choice>& all) {
    std::vector<Choice> some;
    for (std::size_t i = 0; i < all.size(); i += 5) some.push_back(all[i]);
    return some;
  }

  SearchResult searched(const SearchOptions& options) const {
    return search(choices_, inputs_, options);
  }

  JsonValue config_;
  Model model_;
  HardwareProfile profile_;
  CostModel costs_;
  Question question_;
  std::vector<Choice> choices_;
  Target target_;
  TrialInputs inputs_{.model = model_,
                      .config = config_,
                      .training = question_.training,
                      .profile = profile_,
                      .costs = costs_,
                      .native_target = target_};
};

std::vector<std::size_t> places_of(const SearchResult& result) {
  std::vector<std::size_t> places;
  for (const Ranked& ranked : result.ranked) places.push_back(ranked.choice);
  return places;
}

// Each choice is tried out; it takes no less than its bounds say.
TEST_P(EverySearch, NoChoiceFallsBelowItsBounds) {
  const std::vector<Bounds> bounds = bounds_of(choices_, inputs_, 0);
  double tightness = 0;
  int tried = 0;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    Trial trial;
    try {
      trial = try_out(choices_[i], inputs_);
    } catch (const Error&) {
      continue;
    }
    EXPECT_LE(bounds[i].time, trial.time.span) << text_of(choices_[i]);
    EXPECT_LE(bounds[i].memory, trial.needed()) << text_of(choices_[i]);
    tightness += bounds[i].time.seconds() / trial.time.span.seconds();
    ++tried;
  }
  EXPECT_GT(tightness / tried, 0.4);  // a bound of nothing would do no work
}

TEST_P(EverySearch, FindsTheSamePlacesAsFullEnumeration) {
  for (const Objective objective : {Objective::time, Objective::memory}) {
    const SearchResult screened = searched({.objective = objective, .places = 5});
    const SearchResult full = searched({.objective = objective, .places = 5, .screen = false});
    ASSERT_FALSE(full.ranked.empty());
    EXPECT_EQ(places_of(screened), places_of(full));
    EXPECT_LT(screened.simulated, full.simulated);
    EXPECT_EQ(screened.ranked.size() + screened.others.size(), choices_.size());
  }
}

TEST_P(EverySearch, DoesNotDependOnTheNumberOfThreads) {
  EXPECT_EQ(places_of(searched({.places = 5, .threads = 1})),
            places_of(searched({.places = 5, .threads = 3})));
}

// PyTorch's schedules are recorded operator by operator: the stop comes before the first is whole.
TEST_P(EverySearch, AStopEndsATrialThatIsBeingRecorded) {
  const auto recorded = std::find_if(choices_.begin(), choices_.end(), [](const Choice& choice) {
    return choice.runtime == Runtime::fsdp2;
  });
  ASSERT_NE(recorded, choices_.end());
  std::stop_source source;
  EXPECT_NO_THROW(try_out(*recorded, inputs_, source.get_token()));
  source.request_stop();
  try {
    try_out(*recorded, inputs_, source.get_token());
    FAIL() << "tried out";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::interrupted);
  }
}

TEST_P(EverySearch, BoundsNothingAfterAStop) {
  std::stop_source source;
  source.request_stop();
  for (const Bounds& bounds : bounds_of(choices_, inputs_, 1, source.get_token()))
    EXPECT_EQ(bounds.time, 0_us);
}

// Stopped after its first trials: the best of these, played with the allocator, and no other.
TEST_P(EverySearch, AStopLeavesTheBestSoFar) {
  std::stop_source source;
  const SearchResult stopped =
      searched({.places = 5,
                .threads = 1,
                .on_progress = [&](const Progress&) { source.request_stop(); },
                .stop = source.get_token()});
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_LE(stopped.ranked.size(), 1U);
  EXPECT_EQ(stopped.ranked.size() + stopped.others.size(), choices_.size());
  for (const Outcome& outcome : stopped.others)
    if (outcome.reason == Reason::slower && !stopped.ranked.empty()) {
      EXPECT_GE(outcome.time, stopped.ranked.front().trial.time.span);
    }
}

// Tensors of the faster one fit to the byte, and what the allocator holds for them does not.
TEST_P(EverySearch, AStopPassesOverWhatTheAllocatorCannotHold) {
  profile_.memory = 80_GiB;
  const SearchResult all = searched({.places = 20});
  const auto held = [](const Ranked& one) { return one.full.reserved + one.full.outside; };
  for (std::size_t i = 0; i < all.ranked.size(); ++i)
    for (std::size_t j = i + 1; j < all.ranked.size(); ++j) {
      const Ranked &faster = all.ranked[i], &slower = all.ranked[j];
      const std::vector<Choice> two{choices_[faster.choice], choices_[slower.choice]};
      profile_.memory = faster.trial.needed();
      if (held(slower) > profile_.memory || simulate_fully(two[0], inputs_).fits) continue;
      std::stop_source source;
      const SearchResult stopped =
          search(two, inputs_,
                 {.places = 2,
                  .threads = 1,
                  .on_progress = [&](const Progress&) { source.request_stop(); },
                  .stop = source.get_token()});
      EXPECT_TRUE(stopped.interrupted);
      ASSERT_EQ(stopped.ranked.size(), 1U);
      EXPECT_EQ(stopped.ranked[0].choice, 1U);
      return;
    }
  GTEST_SKIP() << "no such pair among the first places";
}

// A few choices of each kind are tried before all are bounded.
TEST_P(EverySearch, AFirstLookChangesNoPlace) {
  ASSERT_GE(choices_.size(), 200U);  // of fewer there is no first look
  const auto kind = [](const Choice& choice) {
    return std::string(name_of(choice.runtime)) + std::string(name_of(choice.sharding));
  };
  EXPECT_EQ(places_of(searched({.places = 5, .kind = kind})),
            places_of(searched({.places = 5, .kind = kind, .screen = false})));
}

// Stopped after the first look: of each kind the way that fits most easily was looked at, and the
// four of them with the lowest bounds were tried.
TEST_P(EverySearch, TheFirstLookTriesTheMostPromising) {
  const auto kind = [](const Choice& choice) {
    return std::string(name_of(choice.runtime)) + std::string(name_of(choice.sharding));
  };
  std::map<std::string, std::size_t> modest;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (choices_[i].checkpointing != eager::CheckpointChoice{.every = 1}) continue;
    std::size_t& smallest = modest.try_emplace(kind(choices_[i]), i).first->second;
    if (choices_[i].batch < choices_[smallest].batch) smallest = i;
  }
  const std::vector<Bounds> bounds = bounds_of(choices_, inputs_, 0);
  std::vector<std::pair<Duration, std::size_t>> fitting;
  for (const auto& [name, choice] : modest)
    if (bounds[choice].memory + inputs_.margin <= profile_.memory)
      fitting.emplace_back(bounds[choice].time, choice);
  ASSERT_GT(fitting.size(), 4U);
  std::ranges::sort(fitting);
  std::set<std::size_t> expected;
  for (std::size_t i = 0; i < 4; ++i) expected.insert(fitting[i].second);

  std::stop_source source;
  const SearchResult stopped =
      searched({.kind = kind,
                .on_progress = [&](const Progress&) { source.request_stop(); },
                .stop = source.get_token()});
  std::set<std::size_t> tried;
  for (const Ranked& ranked : stopped.ranked) tried.insert(ranked.choice);
  for (const Outcome& outcome : stopped.others)
    if (outcome.reason != Reason::not_reached) tried.insert(outcome.choice);
  EXPECT_EQ(stopped.simulated, 4U);
  // Of a stopped search what may be better than its best is not reached.
  EXPECT_FALSE(tried.empty());
  EXPECT_TRUE(std::ranges::includes(expected, tried));
}

// A byte less than what a node of 2 ranks keeps on the host: that choice is told so, and what keeps
// less is weighed.
TEST_P(EverySearch, LeavesOutWhatTheHostCannotHold) {
  const auto offloading = std::find_if(choices_.begin(), choices_.end(), [](const Choice& choice) {
    return choice.runtime == Runtime::fsdp2 && choice.offload == Offload::all &&
           choice.sharding == ShardingStrategy::full_shard;
  });
  ASSERT_NE(offloading, choices_.end());
  const Bytes kept = host_memory_of_node(*offloading, inputs_);
  ASSERT_GT(kept, Bytes{});
  const std::vector<Choice> one{*offloading};
  profile_.memory = 80_GiB;
  inputs_.host_memory = kept;
  EXPECT_EQ(search(one, inputs_, {}).ranked.size(), 1U);
  inputs_.host_memory = kept - Bytes{1};
  const SearchResult result = search(one, inputs_, {});
  ASSERT_EQ(result.others.size(), 1U);
  EXPECT_EQ(result.others[0].reason, Reason::out_of_host_memory);
  EXPECT_EQ(result.others[0].memory, kept);
  EXPECT_EQ(why(result.others[0], inputs_, std::nullopt),
            "out of the host's memory: a node keeps at least " + rounded_text(kept) +
                " there and has " + rounded_text(kept - Bytes{1}));
}

// AdamW on the host reads and writes, for each element of a rank's share: in float32 parameters,
// gradients and two moments (16 bytes), with bf16_mixed also the parameters of 2 bytes (18).
TEST_P(EverySearch, LeavesOutWhatTheHostCannotHoldOfTheNativeRuntime) {
  const int world = question_.world;
  Choice choice{.runtime = Runtime::native,
                .sharding = ShardingStrategy::full_shard,
                .mesh = {.shard = world},
                .prefetch = Prefetch::both,
                .precision = GetParam().precision};
  const std::int64_t share = (model_.parameter_elements() + world - 1) / world;
  const std::int64_t each = choice.precision == TrainingPrecision::fp32 ? 16 : 18;
  for (const Offload offload : {Offload::optimizer, Offload::all}) {
    choice.offload = offload;
    const Bytes kept = host_memory_of_node(choice, inputs_);
    EXPECT_EQ(kept, Bytes{2 * each * share});  // 2 ranks of a node
    // The schedule has padding beside it.
    Bytes buffers;
    for (const Buffer& buffer : schedule_of(choice, inputs_).buffers)
      if (buffer.on_host) buffers += buffer.bytes;
    EXPECT_GE(buffers * 2, kept);
    EXPECT_LE(buffers * 2, kept + kept / 50);
    profile_.memory = 80_GiB;
    inputs_.host_memory = kept - Bytes{1};
    const SearchResult result = search({choice}, inputs_, {});
    ASSERT_EQ(result.others.size(), 1U);
    EXPECT_EQ(result.others[0].reason, Reason::out_of_host_memory);
    EXPECT_EQ(result.others[0].memory, kept);
  }
  choice.offload = Offload::none;
  EXPECT_EQ(host_memory_of_node(choice, inputs_), Bytes{});
}

INSTANTIATE_TEST_SUITE_P(Planner, EverySearch,
                         ::testing::Values(Case{"llama_fast_links",
                                                llama,
                                                TrainingPrecision::bf16_mixed,
                                                {"fast", 50, 2_us, 80_GiB, 4, 1}},
                                           Case{"llama_slow_links",
                                                llama,
                                                TrainingPrecision::fp32,
                                                {"slow", 0.5, 2_us, 1_GiB, 4, 1.2}},
                                           Case{"llama_little_memory",
                                                llama,
                                                TrainingPrecision::bf16_mixed,
                                                {"tight", 5, 2_us, 330_MiB, 4, 1.1}},
                                           Case{"gpt2_slow_host",
                                                gpt2,
                                                TrainingPrecision::bf16_mixed,
                                                {"host", 20, 20_us, 4_GiB, 8, 1.1}}),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace shardscope::planner
