// The search over layouts of Megatron-LM beside all of them predicted in full.
#include "sim/planner/megatron/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <stop_token>

#include "sim/hardware/builtin_profiles.h"
#include "sim/megatron/prediction.h"
#include "sim/planner/megatron/layouts.h"
#include "sim/planner/megatron/step_bounds.h"
#include "tests/sim/planner/small_gpt.h"
#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

using megatron::Recompute;
using megatron::Settings;

MegatronQuestion question() {
  return {.training = small_gpt(),
          .profile = find_hardware_profile("h100_sxm", "--cluster"),
          .margin = Bytes{0},
          .places = 4};
}

struct Predicted {
  Bytes needed;
  Duration step;
};

Predicted in_full(const Settings& settings, const HardwareProfile& profile) {
  Predicted result;
  for (const Prediction& one : predict_megatron(settings, {}, profile)) {
    result.needed = std::max(result.needed, needed_memory(one.summary));
    result.step = one.summary.step_time;
  }
  return result;
}

/// Of each mesh the fastest layout that fits, without recomputation where it can be.
std::map<std::string, Duration> best_of_all(const MegatronQuestion& q) {
  std::map<std::string, Duration> best;
  for (const MegatronLayout& layout : megatron_layouts(q.training, q.profile.ranks_per_node))
    for (const int again : {0, 1, 2, 4}) {
      Settings s = layout.of(q.training);
      s.recompute = again > 0 ? Recompute::full : Recompute::none;
      s.recompute_layers = std::max(1, again);
      const Predicted one = in_full(s, q.profile);
      if (one.needed > q.profile.memory) continue;
      const auto [found, fresh] = best.try_emplace(megatron_mesh_text(s), one.step);
      if (!fresh) found->second = std::min(found->second, one.step);
      break;
    }
  return best;
}

void expect_best_places(const MegatronQuestion& q) {
  std::vector<Duration> expected;
  const auto best = best_of_all(q);
  for (const auto& [mesh, step] : best) expected.push_back(step);
  std::ranges::sort(expected);
  expected.resize(std::min(expected.size(), q.places));
  const MegatronAnswer answer = plan_megatron(q);
  std::vector<Duration> found;
  for (const MegatronPlace& place : answer.places) {
    found.push_back(place.summary.step_time);
    EXPECT_EQ(best.at(megatron_mesh_text(place.settings)), place.summary.step_time);
  }
  EXPECT_EQ(found, expected);
  EXPECT_LT(answer.predicted, answer.layouts);
}

TEST(MegatronSearch, FindsThePlacesOfAllLayouts) { expect_best_places(question()); }

// So little memory that half of the layouts need recomputation, or do not fit.
TEST(MegatronSearch, FindsThePlacesWhereMemoryIsShort) {
  MegatronQuestion q = question();
  std::vector<Bytes> needed;
  for (const MegatronLayout& layout : megatron_layouts(q.training, q.profile.ranks_per_node))
    needed.push_back(in_full(layout.of(q.training), q.profile).needed);
  std::ranges::nth_element(needed, needed.begin() + static_cast<std::ptrdiff_t>(needed.size() / 2));
  q.profile.memory = needed[needed.size() / 2];
  expect_best_places(q);
}

TEST(MegatronSearch, SaysThatItWasStopped) {
  std::stop_source source;
  source.request_stop();
  const MegatronAnswer answer = plan_megatron(question(), {.stop = source.get_token()});
  EXPECT_TRUE(answer.interrupted);
  EXPECT_TRUE(answer.places.empty());
  EXPECT_FALSE(answer.is_tight);
}

/// A model whose layers are as wide as those of Llama-3-8B.
Settings wide_llama(int world) {
  Settings s;
  s.shape = {.family = "llama",
             .hidden = 4096,
             .layers = 8,
             .heads = 32,
             .kv_heads = 8,
             .ffn = 14336,
             .vocabulary = 128256,
             .seq = 4096,
             .head_size = 128};
  s.gated = true;
  s.biases = s.layer_norm = s.tied = false;
  s.positions = megatron::Positions::rotary;
  s.hidden_dropout = s.attention_dropout = 0;
  s.world = world;
  s.global_batch = 64;
  return s;
}

/// So many layouts drawn at random, with random recomputation.
std::vector<Settings> drawn(const Settings& training, std::size_t count) {
  const std::vector<MegatronLayout> all = megatron_layouts(training, 8);
  std::mt19937 random(11);
  std::vector<Settings> result;
  for (std::size_t i = 0; i < count; ++i) {
    Settings s = all[random() % all.size()].of(training);
    if (random() % 2 == 0) s.recompute = Recompute::full;
    result.push_back(s);
  }
  return result;
}

void expect_bounds_hold(const Settings& training, std::size_t count) {
  const HardwareProfile profile = question().profile;
  MegatronStepBounds bounds(training, profile);
  for (const Settings& s : drawn(training, count)) {
    const std::string text = megatron_mesh_text(s) + ", " + megatron_settings_text(s);
    const Predicted whole = in_full(s, profile);
    const Duration bound = bounds.least_step(s);
    EXPECT_LE(bound, whole.step) << text;
    EXPECT_GT(bound.seconds(), 0.5 * whole.step.seconds()) << text;
    EXPECT_LE(least_memory(s), whole.needed) << text;
  }
}

TEST(MegatronBounds, AreNoHigherThanPredictions) { expect_bounds_hold(small_gpt(), 60); }
TEST(MegatronBounds, OfWideLayersAreNoHigherThanPredictions) {
  expect_bounds_hold(wide_llama(16), 60);
}

// What is shared among layouts: the bound does not depend on which of them was asked for first.
TEST(MegatronBounds, DoNotDependOnTheOthersThatAreBounded) {
  const HardwareProfile profile = question().profile;
  const Settings training = wide_llama(16);
  MegatronStepBounds shared(training, profile);
  for (const Settings& s : drawn(training, 20)) {
    MegatronStepBounds alone(training, profile);
    EXPECT_EQ(shared.least_step(s), alone.least_step(s));
  }
}

}  // namespace
}  // namespace shardscope::planner
