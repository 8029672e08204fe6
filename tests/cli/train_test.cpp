// The whole line: predict, train with two processes, compare.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using Json = nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// A machine for predictions on the CPU, from a data sheet of nothing.
std::string cpu_profile() {
  return R"({
  "schema": "shardscope.hardware/1", "name": "round numbers", "source": "made up for a test", "device": "cpu",
  "memory": {"value": "8 GB", "origin": "assumed", "source": "a test", "date": "2026-11-21"},
  "peak": {"value": "100 GFLOP/s", "origin": "assumed", "source": "a test", "date": "2026-11-21"},
  "memory_bandwidth": {"value": "10 GB/s", "origin": "assumed", "source": "a test", "date": "2026-11-21"},
  "operation_overhead": {"value": "1 us", "origin": "assumed", "source": "a test", "date": "2026-11-21"},
  "link": {"bandwidth": "5 GB/s", "latency": "10 us", "origin": "assumed", "source": "a test", "date": "2026-11-21"},
  "contention": {"compute_slowdown": 1, "collective_slowdown": 1, "collectives_serial": true, "origin": "assumed",
                 "source": "a test", "date": "2026-11-21"}
})";
}

class Training : public ::testing::Test {
 protected:
  Training() {
    set_up_tiny_job(workplace_);
    workplace_.write("cpu.json", cpu_profile());
  }
  Outcome train(const std::string& arguments) const {
    return workplace_.run("train job.json --cluster cpu.json " + arguments);
  }
  Workplace workplace_;
};

TEST_F(Training, StartsFromTheWeightsInTheModelsFolder) {
  EXPECT_THAT(train("-o first").errors, HasSubstr("start weights: random, seed 1"));
  workplace_.write("first/model/tokenizer.json", "{}");
  const Outcome next = train("-o next --model first/model");
  EXPECT_EQ(next.code, 0) << next.errors;
  EXPECT_THAT(next.errors, HasSubstr("start weights: those in first/model"));
  EXPECT_THAT(next.errors, HasSubstr("tokenizer.json is not used"));
  const Outcome random = train("-o other --model model");
  EXPECT_THAT(random.errors, HasSubstr("start weights: random"));
}

TEST_F(Training, SaysThatWeightsOfPickleAreNotRead) {
  workplace_.write("model/pytorch_model.bin", "weights of years");
  const Outcome outcome = train("--steps 1 -o run");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors,
              HasSubstr("model/pytorch_model.bin are not read: save the model as safetensors"));
  workplace_.write("job.json", replaced(tiny_job(), "{", R"({"weights": "pretrained",)"));
  const Outcome refused = train("--steps 1 -o run");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("save the model as safetensors"));
}

TEST_F(Training, SaysThatNoTokenizerIsUsedOfTextAlone) {
  // "a", "b" and so on as uint16.
  std::string tokens;
  for (int i = 0; i < 1000; ++i) (tokens += static_cast<char>('a' + i % 7)) += '\0';
  workplace_.write("tokens.bin", tokens);
  workplace_.write("tokens/one.bin", tokens);
  for (const std::string name :
       {"vocab.json", "tokenizer_config.json", "tokenizer.model", "tokenizer.json"}) {
    workplace_.write("model/" + name, "{}");
    const Outcome of_text = train("--steps 1 -o text");
    EXPECT_EQ(of_text.code, 0) << of_text.errors;
    EXPECT_THAT(of_text.errors, HasSubstr("text is read as bytes: the model's " + name));
  }
  for (const char* data : {"tokens.bin", "tokens"}) {
    const Outcome of_tokens = train(std::string("--steps 1 -o tokens_run --data ") + data);
    EXPECT_EQ(of_tokens.code, 0) << of_tokens.errors;
    EXPECT_THAT(of_tokens.errors, Not(HasSubstr("text is read as bytes")));
  }
}

TEST_F(Training, LeavesTheRunFolderOfTheContract) {
  const Outcome outcome = train("-o run");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  for (const char* name :
       {"run/job.json", "run/metrics.jsonl", "run/summary.json", "run/predicted/summary.json",
        "run/predicted/trace.json.gz", "run/trace.0.json.gz", "run/trace.1.json.gz",
        "run/hardware.json", "run/log.0.txt", "run/log.1.txt", "run/model/config.json",
        "run/model/model.safetensors", "run/figures/memory.svg", "run/figures/streams.svg"}) {
    EXPECT_TRUE(workplace_.has(name)) << name;
  }
  EXPECT_EQ(lines_of(workplace_.read("run/metrics.jsonl")), 3u);
}

// Two layers: two stages on 2 ranks; on 4 each stage has two ranks that share something or nothing.
// The job of every place runs as it is, and every stage takes the bytes that were predicted.
TEST_F(Training, EveryPipelineThatHasAPlaceInAPlanTrains) {
  for (const std::string world : {"2", "4"}) {
    const std::string folder = "pipelines" + world;
    workplace_.write(folder + "/data/text.txt", workplace_.read("text.txt"));
    const std::string tokens = std::to_string(std::stoi(world) * 4 * 8);
    const Outcome planned = workplace_.run(
        "plan --model model --cluster cpu.json --strategy pipeline --seq 8 --world " + world +
        " --tokens-per-batch " + tokens + " --json -o " + folder);
    ASSERT_EQ(planned.code, 0) << planned.errors;
    const Json places = Json::parse(planned.output)["candidates"];
    ASSERT_FALSE(places.empty());
    for (const Json& place : places) {
      EXPECT_THAT(place["settings"]["mesh"].get<std::string>(), StartsWith("pipeline=2,"));
      const double bubble = place["pipeline"]["bubble_share"];
      EXPECT_GT(bubble, 0);
      EXPECT_LT(bubble, 1);
      const std::string root = folder + "/" + place["folder"].get<std::string>();
      EXPECT_TRUE(workplace_.has(root + "/predicted/trace.stage1.json.gz"));
      EXPECT_TRUE(workplace_.has(root + "/figures/stages.svg"));
      const Outcome trained = workplace_.run(
          "train " + root + "/job.json --cluster cpu.json --steps 2 -o trained --json");
      ASSERT_EQ(trained.code, 0) << place["text"] << trained.errors;
      EXPECT_EQ(Json::parse(trained.output)["predicted"]["step_time_ns"], place["step_time_ns"]);
      const Outcome compared = workplace_.run("compare trained --json");
      ASSERT_EQ(compared.code, 0) << compared.errors;
      const Json stages = Json::parse(compared.output)["pairs"][0]["stages"];
      ASSERT_EQ(stages.size(), 2u);
      for (const Json& stage : stages)
        EXPECT_EQ(stage["predicted"]["peak_allocated_bytes"],
                  stage["profiled"]["peak_allocated_bytes"])
            << place["text"];
    }
    EXPECT_EQ(workplace_.run("train " + folder + "/job.json --steps 2 -o trained").code, 0);
  }
}

// Stages that run their forward again take the bytes that were predicted, on both ranks.
TEST_F(Training, GpipesCheckpointedStagesTakeWhatWasPredicted) {
  const std::string pipeline =
      "--strategy no_shard --mesh pipeline=2 --accumulate 4 --pipeline-schedule GPipe ";
  for (const std::string checkpoint : {"never", "except_last", "always"}) {
    const Outcome trained = train(pipeline + "--pipeline-checkpoint " + checkpoint + " -o run");
    ASSERT_EQ(trained.code, 0) << trained.errors;
    EXPECT_EQ(Json::parse(workplace_.read("run/job.json"))["pipeline"]["checkpoint"], checkpoint);
    const Outcome compared = workplace_.run("compare run --json");
    ASSERT_EQ(compared.code, 0) << compared.errors;
    const Json stages = Json::parse(compared.output)["pairs"][0]["stages"];
    ASSERT_EQ(stages.size(), 2u);
    for (const Json& stage : stages)
      EXPECT_EQ(stage["predicted"]["peak_allocated_bytes"],
                stage["profiled"]["peak_allocated_bytes"])
          << checkpoint;
  }
}

TEST_F(Training, APipelineCheckpointThatCannotBeIsOneLine) {
  const std::pair<std::string, std::string> bad[] = {
      {"--mesh pipeline=2 --pipeline-checkpoint sometimes",
       "is none of never, except_last, always"},
      {"--mesh pipeline=2 --accumulate 4 --pipeline-checkpoint always",
       "only under GPipe, and the schedule is 1F1B"},
      {"--mesh pipeline=2 --accumulate 4 --pipeline-schedule GPipe --checkpointing full "
       "--pipeline-checkpoint always",
       "checkpointing full runs blocks again"},
      {"--pipeline-checkpoint always", "--pipeline-checkpoint: the mesh has no pipeline"}};
  for (const auto& [arguments, expected] : bad) {
    const Outcome outcome = train("--strategy no_shard " + arguments + " -o run");
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr(expected));
  }
}

// All 64 blocks are the second stage's: 824 GB of parameters, gradients and states. The first stage
// has an embedding of 65 kB.
TEST_F(Training, AStageThatDoesNotFitTheHostIsOneLineBeforeARankStarts) {
  workplace_.write(
      "huge/config.json",
      R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 256,
 "n_positions": 8, "n_embd": 262144, "n_layer": 64, "n_head": 8})");
  const Outcome outcome = train(
      "--model huge --strategy no_shard --ranks 2 --mesh pipeline=2 --pipeline-stages 0,64 "
      "--batch 1 --accumulate 2 --seq 8 -o run");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("memory: the arenas of 2 ranks, "));
  EXPECT_THAT(outcome.errors, HasSubstr("do not fit in the "));
  EXPECT_FALSE(workplace_.has("run"));
}

TEST_F(Training, TheRunIsPredictedAgainElsewhereWithoutTheModel) {
  ASSERT_EQ(train("-o run").code, 0);
  const auto job = Json::parse(workplace_.read("run/job.json"));
  EXPECT_EQ(job["model"], "config.json");
  EXPECT_EQ(job["output"], ".");
  std::filesystem::rename(workplace_.path() / "run", workplace_.path() / "moved");
  std::filesystem::remove_all(workplace_.path() / "model");
  const Outcome again = workplace_.run("simulate --job moved/job.json --json");
  ASSERT_EQ(again.code, 0) << again.errors;
  const auto first = Json::parse(workplace_.read("moved/predicted/summary.json"));
  EXPECT_EQ(Json::parse(again.output)["memory"], first["memory"]);
}

// The weights that it began with stand where they stood; a prediction needs none.
TEST_F(Training, ARunFromWeightsIsPredictedWithoutThem) {
  ASSERT_EQ(train("-o first").code, 0);
  ASSERT_EQ(train("-o next --model first/model").code, 0);
  EXPECT_THAT(Json::parse(workplace_.read("next/job.json"))["model"].get<std::string>(),
              EndsWith("first/model"));
  std::filesystem::remove_all(workplace_.path() / "first");
  const Outcome again = workplace_.run("simulate --job next/job.json --json");
  EXPECT_EQ(again.code, 0) << again.errors;
}

TEST_F(Training, PredictsExactlyTheLiveBytesThatItMeasures) {
  const std::string frozen = replaced(tiny_job(), "{", R"({"trainable": ["bias$", "h.1.attn"],)");
  for (const std::string& job : {tiny_job(), frozen}) {
    workplace_.write("job.json", job);
    for (const char* strategy : {"no_shard", "zero1", "shard_grad_op", "full_shard"}) {
      const Outcome outcome = train(std::string("--json --quiet -o run --strategy ") + strategy);
      ASSERT_EQ(outcome.code, 0) << outcome.errors;
      const Json json = Json::parse(outcome.output);
      EXPECT_EQ(json["schema"], "shardscope.train/1");
      for (const char* key :
           {"peak_allocated_bytes", "arena_bytes", "at_peak", "maximum", "at_operation"}) {
        EXPECT_EQ(json["predicted"]["memory"][key], json["profiled"]["memory"][key])
            << strategy << " " << key;
      }
    }
  }
}

TEST_F(Training, TheCheckingModeFindsNothing) {
  const Outcome outcome = train("-o run --check");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.errors, HasSubstr("inside steps 0 allocations of ours"));
}

TEST_F(Training, StrategiesGiveTheSameLosses) {
  ASSERT_EQ(train("-o one --strategy no_shard").code, 0);
  ASSERT_EQ(train("-o two --strategy full_shard").code, 0);
  const auto losses = [&](const std::string& name) {
    std::string text;
    std::istringstream lines(workplace_.read(name));
    for (std::string line; std::getline(lines, line);)
      text += line.substr(0, line.find("\"learning_rate\"")) + "\n";
    return text;
  };
  EXPECT_EQ(losses("one/metrics.jsonl"), losses("two/metrics.jsonl"));
}

TEST_F(Training, ComparesRunsAndExitsOneBeyondTheTolerance) {
  ASSERT_EQ(train("-o one --strategy zero1").code, 0);
  ASSERT_EQ(train("-o two --strategy full_shard").code, 0);
  const Outcome table = workplace_.run("compare one two -o pictures");
  EXPECT_EQ(table.code, 0) << table.errors;
  EXPECT_THAT(table.output, HasSubstr("zero1 x2"));
  EXPECT_THAT(table.output, HasSubstr("full_shard x2"));
  EXPECT_TRUE(workplace_.has("pictures/strategies.svg"));
  EXPECT_EQ(workplace_.run("compare one two --tolerance 0").code, 1);
}

/// A page for people without the program: it needs no other file and no network.
TEST_F(Training, ComparesRunsOnOnePage) {
  ASSERT_EQ(train("-o one --strategy zero1").code, 0);
  ASSERT_EQ(train("-o two --strategy full_shard").code, 0);
  ASSERT_EQ(workplace_.run("compare one two -o report.html").code, 0);
  const std::string page = workplace_.read("report.html");
  const auto count = [&](std::string_view word) {
    int found = 0;
    for (std::size_t at = page.find(word); at != std::string::npos; at = page.find(word, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count("<svg"), 5);  // all strategies; streams and memory of each run
  EXPECT_EQ(count("http"), count("xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(page, HasSubstr("<h2>zero1 x2, one</h2>"));
  EXPECT_THAT(page, HasSubstr("<h2>full_shard x2, two</h2>"));
  EXPECT_FALSE(workplace_.has("report.html/strategies.svg"));
}

TEST_F(Training, CompareJsonPairsPredictedAndProfiled) {
  ASSERT_EQ(train("-o run").code, 0);
  const Json json = Json::parse(workplace_.run("compare run --json").output);
  ASSERT_EQ(json["runs"].size(), 2u);
  ASSERT_EQ(json["pairs"].size(), 1u);
  const Json& pair = json["pairs"][0];
  EXPECT_EQ(pair["peak_error_bytes"], 0);
  const double predicted = json["runs"][0]["step_time_ns"],
               profiled = json["runs"][1]["step_time_ns"];
  EXPECT_NEAR(pair["step_time_error_share"], (predicted - profiled) / profiled, 1e-12);
  ASSERT_FALSE(pair["operations"].empty());
  for (const Json& op : pair["operations"]) EXPECT_EQ(op["predicted_bytes"], op["profiled_bytes"]);
}

TEST_F(Training, WithoutAMeasuredMachineItTrainsAndSaysWhyNothingIsPredicted) {
  const Outcome outcome = workplace_.run("train job.json -o run");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("no prediction"));
  EXPECT_FALSE(workplace_.has("run/predicted"));
}

TEST_F(Training, HelpJobListsEveryKey) {
  const Outcome outcome = workplace_.run("train --help-job");
  EXPECT_EQ(outcome.code, 0);
  for (const char* key : {"model", "data", "lr.peak", "optimizer.kind", "ranks", "timeout"}) {
    EXPECT_THAT(outcome.output, HasSubstr(std::string("\n") + key + " "));
  }
}

}  // namespace
}  // namespace shardscope::testing
