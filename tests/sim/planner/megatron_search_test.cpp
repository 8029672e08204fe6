// The search over layouts of Megatron-LM beside all of them predicted in full.
#include "sim/planner/megatron/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stop_token>

#include "sim/hardware/builtin_profiles.h"
#include "sim/megatron/divided_step.h"
#include "sim/megatron/prediction.h"
#include "sim/megatron/training.h"
#include "sim/planner/megatron/layouts.h"
#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

using megatron::Recompute;
using megatron::Settings;

Settings small_gpt() {
  Settings s;
  s.shape = {.family = "gpt2",
             .hidden = 1024,
             .layers = 4,
             .heads = 8,
             .kv_heads = 8,
             .ffn = 4096,
             .vocabulary = 32000,
             .seq = 1024,
             .head_size = 128};
  s.hidden_dropout = s.attention_dropout = 0;
  s.world = 4;
  s.global_batch = 16;
  return s;
}

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
  for (Settings s : megatron_layouts(q.training, q.profile.ranks_per_node))
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      s.recompute = recompute;
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
  for (const Settings& s : megatron_layouts(q.training, q.profile.ranks_per_node))
    needed.push_back(in_full(s, q.profile).needed);
  std::ranges::nth_element(needed, needed.begin() + static_cast<std::ptrdiff_t>(needed.size() / 2));
  q.profile.memory = needed[needed.size() / 2];
  expect_best_places(q);
}

TEST(MegatronSearch, SaysThatItWasStopped) {
  std::stop_source source;
  source.request_stop();
  const MegatronAnswer answer = plan_megatron(question(), source.get_token());
  EXPECT_TRUE(answer.interrupted);
  EXPECT_TRUE(answer.places.empty());
  EXPECT_FALSE(answer.is_tight);
}

// Behind the warm-up each micro-batch of the steady state takes the same time, so that few of many
// say the step.
TEST(MegatronSearch, EstimatesManyMicroBatchesFromFew) {
  const HardwareProfile profile = question().profile;
  for (const int stages : {1, 2}) {
    Settings s = small_gpt();
    s.pipeline = 2;
    s.stages_per_rank = stages;
    s.global_batch = 512;
    const Duration all = predicted_step(megatron_training(s, profile)).time;
    EXPECT_NEAR(estimated_step(s, profile).seconds(), all.seconds(), 0.001 * all.seconds());
  }
}

}  // namespace
}  // namespace shardscope::planner
