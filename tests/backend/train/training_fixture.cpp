#include "tests/backend/train/training_fixture.h"

#include <cstdint>
#include <fstream>

#include "backend/train/train.h"
#include "core/format/json_reader.h"
#include "tests/backend/comm/forked_ranks.h"

namespace shardscope {
namespace {

/// Letters that repeat enough to be learnt: a fixed linear congruence over a small alphabet.
std::string some_text(std::size_t bytes) {
  std::string text;
  std::uint32_t state = 1;
  while (text.size() < bytes) {
    state = state * 1664525 + 1013904223;
    text.push_back("the quick brown fox jumps over a lazy dog\n"[(state >> 24) % 42]);
  }
  return text;
}

}  // namespace

Job TrainingFixture::job(std::string_view config, int ranks, ShardingStrategy sharding,
                         const std::string& output) const {
  Job job;
  job.model = folder_.write(output + ".config.json", config);
  job.data = {folder_.write("data.txt", some_text(8000))};
  job.steps = 50;
  job.batch = 4 / ranks;
  job.seq = 16;
  job.learning_rate = {
      .kind = LearningRate::Kind::hf_cosine, .peak = 3e-3, .warmup = 5, .total = 50};
  job.clip = 0.5;
  job.strategy.sharding = sharding;
  if (is_hybrid(sharding)) job.strategy.mesh = {.pipeline = 1, .replicate = 2, .shard = ranks / 2};
  job.ranks = ranks;
  job.threads = 1;
  job.check = true;
  job.timeout_s = 120;  // for a machine that does much else
  job.output = folder_.path() / output;
  return job;
}

std::vector<double> TrainingFixture::run_forked(const Job& job) {
  using shardscope::testing::RankOutcome;
  const auto outcomes = shardscope::testing::run_ranks(
      job.ranks,
      [&](const Environment& environment) { return train(job, environment, {.quiet = true}); });
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome, RankOutcome{}) << outcome.message;
  return metrics(job);
}

std::vector<double> TrainingFixture::metrics(const Job& job) {
  std::vector<double> values;
  std::ifstream file(job.output / "metrics.jsonl");
  // A job that runs may not have written the end of its last line.
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const JsonValue step = JsonValue::parse(line, "metrics.jsonl");
    values.push_back(step.at("loss").number());
    values.push_back(step.at("gradient_norm").number());
  }
  return values;
}

}  // namespace shardscope
