// `shardscope plan` as somebody who is new to it runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>

#include "tests/cli/program.h"
#include "tests/cli/started_program.h"

namespace shardscope::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Json = nlohmann::json;

const std::filesystem::path source_root = SOURCE_ROOT;

constexpr std::string_view small_llama =
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
 "vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
 "num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": false})";

class Plan : public ::testing::Test {
 protected:
  Plan() { workplace_.write("config.json", tiny_config()); }

  /// On 4 of the built-in GPUs, 8 sequences of 16 tokens a step.
  static constexpr const char* question =
      "plan --model config.json --cluster h100_sxm --world 4 --tokens-per-batch 128 --seq 16 ";
  static constexpr const char* two_runtimes = "--runtime ddp,fsdp2 --precision bf16_mixed ";

  Json answer(const std::string& arguments, int code = 0) const {
    const Outcome outcome = workplace_.run(arguments + " --json");
    EXPECT_EQ(outcome.code, code) << outcome.errors;
    return Json::parse(outcome.output);
  }
  Outcome refused(const std::string& arguments) const {
    const Outcome outcome = workplace_.run(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_EQ(outcome.output, "");
    EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
    return outcome;
  }
  /// The built-in GPU with another memory.
  void write_cluster(const std::string& memory) const {
    std::ifstream file(source_root / "sim/profiles/h100_sxm.json");
    Json profile = Json::parse(file);
    profile["memory"]["value"] = memory;
    workplace_.write("cluster.json", profile.dump());
  }
  Workplace workplace_;
};

// Both GPUs have the figures of one, so the price alone tells them apart: 8 and 1 an hour.
TEST_F(Plan, ComparesClusters) {
  write_cluster("79 GiB");
  const std::string two = std::string(question) +
                          "--cluster cluster.json --price-per-gpu-hour 8 --price-per-gpu-hour 1 "
                          "--train-tokens 12800 " +
                          two_runtimes;
  const Json json = answer(two);
  ASSERT_EQ(json["clusters"].size(), 2u);
  const Json &first = json["clusters"][0]["chosen"], &second = json["clusters"][1]["chosen"];
  EXPECT_EQ(json["clusters"][0]["cluster"], "h100_sxm");
  EXPECT_EQ(first["step_time_ns"], second["step_time_ns"]);
  EXPECT_EQ(json["fastest"], "h100_sxm");
  EXPECT_EQ(json["cheapest"], "cluster.json");
  EXPECT_EQ(json["ties_with_fastest"], Json({"cluster.json"}));
  EXPECT_EQ(json["ties_with_cheapest"], Json::array());
  // 4 GPUs, 100 steps, 700 W.
  const double hours = first["step_time_ns"].get<double>() * 1e-9 * 100 * 4 / 3600;
  EXPECT_NEAR(first["gpu_hours"].get<double>(), hours, hours * 1e-9);
  EXPECT_NEAR(first["price"].get<double>(), 8 * hours, hours * 1e-6);
  EXPECT_NEAR(second["price"].get<double>(), hours, hours * 1e-6);
  EXPECT_NEAR(first["energy_at_most_kwh_per_1e9_tokens"].get<double>(),
              first["gpu_hours_per_1e9_tokens"].get<double>() * 0.7, 1e-6);
  EXPECT_EQ(json["clusters"][1]["plan"]["schema"], "shardscope.plan/1");
  const Outcome text = workplace_.run(two);
  EXPECT_THAT(
      text.output,
      AllOf(HasSubstr("fastest   h100_sxm; cluster.json is +0.0%, which is within the band"),
            HasSubstr("cheapest  cluster.json\n")));
}

// What is shown is another matter than what is best.
TEST_F(Plan, ChoosesTheSameHoweverManyPlacesAreShown) {
  const std::string all =
      "plan --cluster h100_sxm --world 4 --tokens-per-batch 16384 --seq 256 "
      "--runtime ddp,fsdp2,deepspeed --model " +
      (source_root / "examples/models/gpt2").string() + " --places ";
  const Json few = answer(all + "1"), usual = answer(all + "5"), many = answer(all + "12");
  const auto chosen = [](const Json& json) {
    const int place = json["chosen"]["place"];
    return std::pair(place, json["candidates"][static_cast<std::size_t>(place) - 1]["settings"]);
  };
  EXPECT_GT(chosen(usual).first, 1);
  EXPECT_EQ(chosen(few), chosen(usual));
  EXPECT_EQ(chosen(many), chosen(usual));
  EXPECT_GT(many["candidates"].size(), usual["candidates"].size());
  for (const Json& other : many["chosen"]["passed_over"]) EXPECT_LE(other["place"], 5);
  // What is said of others is said of places that are there.
  for (const Json& other : few["chosen"]["passed_over"])
    EXPECT_LT(other["place"].get<int>(), chosen(few).first + 1);
}

// Of 8 and 24 tokens, padded to 24: 16 of 24 are tokens. Packed, both take a row each.
TEST_F(Plan, ShowsWhatLengthsCost) {
  workplace_.write("lengths.txt", "8\n24\n");
  const Json json = answer(std::string("plan --model config.json --cluster h100_sxm --world 4 "
                                       "--tokens-per-batch 192 --lengths lengths.txt ") +
                           two_runtimes);
  const Json& lengths = json["lengths"];
  EXPECT_EQ(lengths["longest_tokens"], 24);
  EXPECT_NEAR(lengths["padding_to_seq_share"].get<double>(), 1.0 / 3, 1e-12);
  EXPECT_NEAR(lengths["padding_when_packed_share"].get<double>(), 1.0 / 3, 1e-12);
  const int chosen = json["chosen"]["place"].get<int>();
  EXPECT_NEAR(lengths["real_tokens_per_s_packed"].get<double>(),
              json["candidates"][chosen - 1]["tokens_per_s"].get<double>() * 2 / 3, 1e-3);
  const Outcome simulated = workplace_.run(
      "simulate --model config.json --cluster h100_sxm --runtime fsdp2 --world 4 --batch 2 "
      "--lengths lengths.txt");
  EXPECT_EQ(simulated.code, 0) << simulated.errors;
  EXPECT_THAT(simulated.output, HasSubstr("2 sequences, mean 16 tokens, longest 24"));
  EXPECT_THAT(simulated.output, HasSubstr("run of 1 micro-batch, each as long as its longest"));
  EXPECT_EQ(lengths["memory"]["longest_tokens"], 24);
  workplace_.write("lengths.txt", "8\nmany\n");
  EXPECT_THAT(refused("plan --model config.json --cluster h100_sxm --world 4 "
                      "--tokens-per-batch 192 --lengths lengths.txt")
                  .errors,
              HasSubstr("lengths.txt:2: expected a length of 1 to 100000000 tokens, got \"many\""));
}

// torchao's products take sizes of 16: 32 tokens are, and those of the data are not.
TEST_F(Plan, HoldsWhereLengthsCannotBePlayed) {
  workplace_.write("llama.json", small_llama);
  workplace_.write("lengths.txt", "23\n23\n");
  const std::string job =
      " --model llama.json --cluster h100_sxm --runtime ddp --world 1 --seq 32 --precision bf16 "
      "--float8 tensorwise --lengths lengths.txt --json";
  for (const std::string& verb : {"plan --tokens-per-batch 32" + job, "simulate" + job}) {
    const Outcome outcome = workplace_.run(verb);
    EXPECT_EQ(outcome.code, 0) << verb << outcome.errors;
    EXPECT_EQ(Json::parse(outcome.output)["lengths"]["memory"], Json()) << verb;
    EXPECT_THAT(outcome.errors, HasSubstr("no memory of micro-batches that differ in length: "));
  }
}

TEST_F(Plan, RefusesLengthsWithinThePrompt) {
  workplace_.write("llama.json", small_llama);
  workplace_.write("lengths.txt", "9\n9\n");
  EXPECT_THAT(refused("simulate --model llama.json --cluster h100_sxm --runtime ddp --world 1 "
                      "--loss dpo --prompt 10 --seq 16 --batch 4 --lengths lengths.txt")
                  .errors,
              HasSubstr("--prompt: a prompt of 10 tokens does not fit into a micro-batch of "
                        "--lengths, whose longest sequence has 9; give 0 to 8"));
}

// TRL: 2 x 4 sequences of 16 tokens of each rank. On 4 ranks 512 tokens a step, on a node of 8
// 1,024.
TEST_F(Plan, TakesTokensOfAStepFromTheFileOfATool) {
  workplace_.write("trl.yaml",
                   "model_name_or_path: m\ndataset_name: d\nlearning_rate: 2.0e-5\n"
                   "per_device_train_batch_size: 2\ngradient_accumulation_steps: 4\n"
                   "max_length: 16\nbf16: true\npacking: true\n");
  const std::string of_file = std::string("plan --model config.json --config trl.yaml ") +
                              "--cluster h100_sxm " + two_runtimes;
  EXPECT_EQ(answer(of_file + "--world 4")["tokens_per_batch"], 512);
  EXPECT_EQ(answer(of_file)["tokens_per_batch"], 1024);
}

TEST_F(Plan, RefusesClustersThatCannotBeCompared) {
  EXPECT_THAT(refused(std::string(question) + "--cluster h100_sxm").errors,
              HasSubstr("--cluster: h100_sxm stands twice"));
  EXPECT_THAT(
      refused(std::string(question) + "--price-per-gpu-hour 2 --price-per-gpu-hour 1").errors,
      HasSubstr("--price-per-gpu-hour: 2 prices for 1 cluster"));
  EXPECT_THAT(refused(std::string(question) + "--price-per-gpu-hour much").errors,
              HasSubstr("expected a number, got \"much\""));
}

TEST_F(Plan, RanksStrategiesFastestFirst) {
  const Json plan = answer(std::string(question) + two_runtimes);
  EXPECT_EQ(plan["schema"], "shardscope.plan/1");
  const Json& candidates = plan["candidates"];
  ASSERT_GE(candidates.size(), 2u);
  EXPECT_EQ(candidates[0]["place"], 1);
  EXPECT_TRUE(candidates[0]["why"].is_null());
  EXPECT_LE(candidates[0]["step_time_ns"], candidates[1]["step_time_ns"]);
  EXPECT_TRUE(candidates[1]["why"].is_string());
  EXPECT_EQ(plan["given"], Json());
  EXPECT_EQ(plan["chosen"]["place"], 1);
  EXPECT_THAT(plan["pareto"], Contains(1));
}

TEST_F(Plan, EveryCandidateTakesTheTokensThatWereAskedFor) {
  const Json plan = answer(std::string(question) + two_runtimes);
  for (const Json& candidate : plan["candidates"]) {
    const Json& settings = candidate["settings"];
    EXPECT_EQ(settings["batch"].get<int>() * settings["accumulate"].get<int>(), 2) << candidate;
    EXPECT_EQ(candidate["world"], 4);
  }
}

TEST_F(Plan, WhatARuntimeDoesNotHaveIsSaid) {
  const Json plan = answer(std::string(question) + two_runtimes);
  const Json zero2 = {{"strategy", "ddp shard_grad_op"}, {"why", "DDP keeps everything whole"}};
  EXPECT_THAT(plan["dropped"], Contains(zero2));
}

/// What `simulate` says of the file that the plan leaves, with the script's micro-batches.
TEST_F(Plan, TheChosenFileSimulatesToTheSameFigures) {
  for (const char* runtime : {"ddp", "fsdp1 --strategy full_shard"}) {
    const Outcome planned = workplace_.run(std::string(question) + "--runtime " + runtime +
                                           " --precision bf16_mixed -o chosen --json");
    ASSERT_EQ(planned.code, 0) << planned.errors;
    const Json best = Json::parse(planned.output)["candidates"][0];
    const Json& settings = best["settings"];
    ASSERT_EQ(settings["checkpointing"], "none") << runtime;
    ASSERT_EQ(settings["reduce_every_micro_batch"], false) << runtime;
    const Json simulated = answer(
        "simulate --accelerate chosen/accelerate.yaml --model config.json --cluster h100_sxm "
        "--seq 16 --batch " +
        settings["batch"].dump() + " --accumulate " + settings["accumulate"].dump());
    EXPECT_EQ(simulated["step_time_ns"], best["step_time_ns"]) << runtime;
    EXPECT_EQ(simulated["memory"]["peak_allocated_bytes"], best["memory"]["peak_allocated_bytes"])
        << runtime;
  }
}

TEST_F(Plan, LeavesAnswerFileAndPictureInAFolder) {
  const Outcome outcome =
      workplace_.run(std::string(question) + "--runtime ddp --precision bf16_mixed -o plans/a");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(workplace_.read("plans/a/accelerate.yaml"),
              AllOf(HasSubstr("distributed_type: MULTI_GPU"), HasSubstr("num_processes: 4"),
                    HasSubstr("mixed_precision: bf16")));
  EXPECT_THAT(workplace_.read("plans/a/figures/plan.svg"),
              AllOf(StartsWith("<svg"), HasSubstr("step time")));
  EXPECT_EQ(Json::parse(workplace_.read("plans/a/plan.json"))["schema"], "shardscope.plan/1");
}

TEST_F(Plan, DeepSpeedsChoiceIsADeepSpeedFile) {
  const Outcome outcome =
      workplace_.run(std::string(question) +
                     "--runtime deepspeed --precision bf16_mixed --strategy zero1 -o plans/zero");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  const Json file = Json::parse(workplace_.read("plans/zero/deepspeed.json"));
  EXPECT_EQ(file["zero_optimization"]["stage"], 1);
}

TEST_F(Plan, NativesChoiceIsAJobThatTrainReads) {
  const Outcome outcome = workplace_.run(
      "plan --model config.json --cluster h100_sxm --runtime native --world 2 --tokens-per-batch "
      "64 --seq 16 --precision fp32 -o native");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  const Json job = Json::parse(workplace_.read("native/job.json"));
  EXPECT_EQ(job["ranks"], 2);
  EXPECT_EQ(job["batch"].get<int>() * job["accumulate"].get<int>(), 2);
}

TEST_F(Plan, TextSaysWhatAPersonAsks) {
  const Outcome outcome = workplace_.run(std::string(question) + two_runtimes);
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("step time"), HasSubstr("tokens/s"),
                                    HasSubstr("margin"), HasSubstr("optimizer states"),
                                    HasSubstr("why the others lost"), HasSubstr("chosen "),
                                    HasSubstr("GPU-hours for 10^9 tokens"), HasSubstr("MFU ")));
  EXPECT_THAT(outcome.errors, HasSubstr("assumed: "));
}

// The places behind the best one stand in the table too: slower, and in less memory.
TEST_F(Plan, APlaceInLessMemoryIsARow) {
  const std::string asked =
      "plan --cluster h100_sxm --runtime ddp --world 1 --tokens-per-batch 8192 --seq 1024 "
      "--precision bf16_mixed --places 1 --model " +
      (source_root / "examples/models/gpt2").string() + " ";
  const Json plan = answer(asked);
  ASSERT_GT(plan["candidates"].size(), 1u);
  const Json& smaller = plan["candidates"].back();
  EXPECT_LT(smaller["needs_bytes"], plan["candidates"][0]["needs_bytes"]);
  EXPECT_GE(smaller["step_time_ns"], plan["candidates"][0]["step_time_ns"]);
  const std::string text = workplace_.run(asked).output;
  const std::size_t head = text.find("in less memory:");
  ASSERT_NE(head, std::string::npos) << text;
  const std::string row = "\n  " + std::to_string(smaller["place"].get<int>()) + "  ";
  EXPECT_LT(text.find(row, head), text.find("memory at the peak")) << text;
}

TEST_F(Plan, AGivenFileIsToldWhereItStands) {
  workplace_.write("accelerate.yaml",
                   "distributed_type: FSDP\nnum_processes: 4\nmixed_precision: bf16\n"
                   "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n"
                   "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n");
  const Json plan = answer(
      "plan --model config.json --cluster h100_sxm --accelerate accelerate.yaml "
      "--tokens-per-batch 128 --seq 16 --runtime fsdp2");
  EXPECT_EQ(plan["given"]["file"], "accelerate.yaml");
  EXPECT_EQ(plan["given"]["runtime"], "fsdp2");
  EXPECT_THAT(plan["given"]["text"].get<std::string>(), StartsWith("fsdp2 full_shard, batch 2"));
  EXPECT_EQ(plan["world"], 4);
}

TEST_F(Plan, NothingThatFitsIsANoThatSaysHowFarOff) {
  write_cluster("800 MB");
  const Outcome outcome = workplace_.run(
      "plan --model config.json --cluster cluster.json --world 2 --tokens-per-batch 64 --seq 16 "
      "--runtime fsdp2 --precision fp32 --margin 0");
  EXPECT_EQ(outcome.code, 1) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("nothing fits"), HasSubstr("nearest: fsdp2 "),
                                    HasSubstr(" too much")));
}

// CUDA's context and NCCL's buffers alone leave less than 1 GiB of 1.5 GiB free, and more than
// nothing.
TEST_F(Plan, APlaceLeavesAMargin) {
  write_cluster("1.5 GiB");
  const std::string asked = replaced(question, "h100_sxm", "cluster.json") + two_runtimes;
  const Outcome none = workplace_.run(asked);
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.output, AllOf(HasSubstr("nothing fits"), HasSubstr("--margin 0")));

  const Json without = answer(asked + "--margin 0");
  EXPECT_EQ(without["candidates"][0]["fits_word"], "yes");
  EXPECT_LT(without["candidates"][0]["margin_bytes"], 1LL << 30);
  EXPECT_THAT(workplace_.run(asked + "--margin 0").output,
              AllOf(HasSubstr("spare in place 1"), HasSubstr("likely to run out of memory")));

  const Json wanted = answer(asked + "--margin 5%");
  for (const Json& candidate : wanted["candidates"]) {
    EXPECT_EQ(candidate["wanted_margin_bytes"], (3LL << 29) / 20);
    EXPECT_GE(candidate["margin_bytes"], candidate["wanted_margin_bytes"]);
  }
}

TEST_F(Plan, ABatchThatNoStrategyDividesNamesTheNearestThatDo) {
  const Outcome outcome = refused(
      "plan --model config.json --cluster h100_sxm --world 4 --tokens-per-batch 100 --seq 16");
  EXPECT_THAT(outcome.errors,
              AllOf(HasSubstr("--tokens-per-batch: 100 tokens"), HasSubstr("64 or 128 would")));
}

TEST_F(Plan, BadQuestionsAreOneLine) {
  for (const char* margin : {"100%", "-1", "nan", "200 GiB", "''"})
    refused(std::string(question) + "--margin " +
            (margin[0] == '\'' ? margin : "'" + std::string(margin) + "'"));
  const std::string model = "plan --model config.json --cluster h100_sxm ";
  const std::string tokens = "--world 4 --tokens-per-batch 128 --seq 16 ";
  const std::pair<std::string, std::string> bad[] = {
      {model + "--seq 16", "--tokens-per-batch: the tokens of one optimizer step"},
      {model + tokens + "--runtime fsdp3", "--runtime: \"fsdp3\" is none of native, fsdp1"},
      {model + tokens + "--runtime ddp,ddp", "--runtime: ddp stands twice"},
      {model + tokens + "--objective speed", "--objective: \"speed\" is none of time"},
      {model + tokens + "--precision int8", "--precision: \"int8\" is none of fp32"},
      {model + tokens + "--places 0", "--places: expected 1 to 50, got 0"},
      {model + tokens + "--price-per-gpu-hour -1", "--price-per-gpu-hour: expected a price"},
      {model + "--world 0 --tokens-per-batch 128 --seq 16", "--world: expected 1 to"},
      {model + tokens + "--runtime ddp --strategy full_shard", "nothing is left to compare"},
      {model + tokens + "--runtime deepspeed --precision bf16", "it is bf16_mixed"},
      {model + tokens + "--strategy pipelines", "--strategy"},
      {model + tokens + "--runtime ddp --strategy pipeline",
       "--strategy pipeline: pipelines: only those of"},
      {model + tokens + "--strategy pipeline", "which torchtitan's Llama has not"},
      {model + "--tokens-per-batch 128 --seq 16 --runtime native --world 1 --strategy pipeline",
       "--strategy pipeline: native pipeline: a pipeline needs 2 ranks or more"},
      {"plan --model nowhere --cluster h100_sxm " + tokens, "nowhere"},
      {"plan --model config.json --cluster h1000 " + tokens, "--cluster"},
      {"plan --model config.json --batch 2 " + tokens, "--batch: is the micro-batch of your own"},
      {"plan --model Qwen/Qwen2.5-0.5B --cluster h100_sxm " + tokens,
       "run `hf download Qwen/Qwen2.5-0.5B"},
      {"plan --cluster h100_sxm " + tokens, "--model: no model was given"}};
  for (const auto& [arguments, expected] : bad)
    EXPECT_THAT(refused(arguments).errors, HasSubstr(expected)) << arguments;
}

TEST_F(Plan, AClusterWithoutAFigureNamesIt) {
  std::ifstream file(source_root / "sim/profiles/h100_sxm.json");
  Json profile = Json::parse(file);
  profile.erase("memory_bandwidth");
  workplace_.write("cluster.json", profile.dump());
  const Outcome outcome = refused(
      "plan --model config.json --cluster cluster.json --world 4 --tokens-per-batch 128 --seq 16");
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("cluster.json"), HasSubstr("memory_bandwidth")));
}

TEST_F(Plan, CostWeighsFewerRanks) {
  const Json plan = answer(std::string(question) +
                           "--runtime ddp --precision bf16_mixed --objective cost "
                           "--price-per-gpu-hour 2");
  const Json& best = plan["candidates"][0];
  // A tiny model gains nothing from more ranks.
  EXPECT_LT(best["world"], 4);
  EXPECT_DOUBLE_EQ(best["price_per_1e9_tokens"].get<double>(),
                   2 * best["gpu_hours_per_1e9_tokens"].get<double>());
}

TEST_F(Plan, ARangeOfRanksShowsWhatMoreOfThemGain) {
  const std::string asked = replaced(question, "--world 4", "--world 2..8") +
                            "--runtime fsdp2 --precision bf16_mixed --train-tokens 1e6 ";
  const Json plan = answer(asked);
  ASSERT_EQ(plan["curve"].size(), 3u);
  EXPECT_EQ(plan["curve"][0]["world"], 2);
  EXPECT_EQ(plan["curve"][0]["efficiency_share"], 1);
  EXPECT_EQ(plan["curve"][2]["world"], 8);
  EXPECT_THAT(workplace_.run(asked).output,
              AllOf(HasSubstr("more ranks"), HasSubstr("at least half of what they add")));
}

// 10^6 tokens in steps of 128 are 7,813 steps.
TEST_F(Plan, OfAWholeTrainingDaysAndMoneyAreSaid) {
  const Json plan = answer(std::string(question) +
                           "--runtime ddp --precision bf16_mixed --train-tokens 1e6 "
                           "--price-per-gpu-hour 3");
  const Json& run = plan["candidates"][0]["run"];
  EXPECT_EQ(run["steps"], 7813);
  const double seconds = plan["candidates"][0]["step_time_ns"].get<double>() * 1e-9 * 7813;
  EXPECT_NEAR(run["gpu_hours"].get<double>(), seconds * 4 / 3600, 1e-9);
  EXPECT_NEAR(run["price"].get<double>(), seconds * 4 / 3600 * 3, 1e-9);
}

TEST_F(Plan, AGoalThatNothingMeetsIsANo) {
  const Outcome outcome = workplace_.run(std::string(question) + two_runtimes + "--at-least 1e12");
  EXPECT_EQ(outcome.code, 1) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("nothing is fast enough"), HasSubstr("--at-least")));
}

TEST_F(Plan, SaysWhichRuleChoseAndWhatWouldBreakIt) {
  const Json chosen = answer(std::string(question) + two_runtimes)["chosen"];
  EXPECT_THAT(chosen["rule"], AnyOf(Eq("margin"), Eq("memory"), Eq("current"), Eq("file"),
                                    Eq("plain"), Eq("fragile"), Eq("network"), Eq("place")));
  EXPECT_THAT(chosen["tied"], Contains(1));
  EXPECT_GE(chosen["limits"]["longest_sequence"], 16);
  EXPECT_GT(chosen["limits"]["held_more_share"], 0);
  EXPECT_FALSE(chosen["limits"]["step_time"].empty());
}

TEST_F(Plan, EachPlaceIsARunFolderThatSimulatesToTheSameFigures) {
  for (const char* runtime :
       {"ddp,fsdp2", "native", "deepspeed", "deepspeed --strategy hybrid_shard"}) {
    const Outcome planned =
        workplace_.run(std::string(question) + "--runtime " + runtime + " --json -o plans/c");
    ASSERT_EQ(planned.code, 0) << planned.errors;
    const Json plan = Json::parse(planned.output);
    ASSERT_FALSE(plan["candidates"].empty());
    for (const Json& place : plan["candidates"]) {
      const std::string folder = "plans/c/" + place["folder"].get<std::string>();
      EXPECT_FALSE(workplace_.read(folder + "/predicted/trace.json.gz").empty());
      const Json simulated =
          answer("simulate --job " + folder + "/job.json --rank " + place["rank"].dump());
      EXPECT_EQ(simulated["step_time_ns"], place["step_time_ns"]) << place["text"];
      EXPECT_EQ(simulated["memory"], place["memory"]) << place["text"];
      EXPECT_EQ(simulated["pipeline"], place["pipeline"]) << place["text"];
    }
  }
}

// A place's folder and, where it is the chosen one, the file for torchtitan lead to its figures.
TEST_F(Plan, PipelinesOfTorchtitanSimulateToTheSameFigures) {
  workplace_.write("llama.json",
                   R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
 "vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
 "num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": false})");
  const std::string asked =
      "plan --model llama.json --cluster h100_sxm --world 4 --tokens-per-batch 256 --seq 16 "
      "--runtime fsdp2 --precision bf16_mixed --places 3 ";
  const Outcome planned = workplace_.run(asked + "--strategy pipeline --json -o plans/t");
  ASSERT_EQ(planned.code, 0) << planned.errors;
  const Json plan = Json::parse(planned.output);
  ASSERT_GE(plan["candidates"].size(), 2U);
  for (const Json& place : plan["candidates"]) {
    EXPECT_THAT(place["text"].get<std::string>(), HasSubstr("pipeline of 2, "));
    EXPECT_GT(place["pipeline"]["bubble_share"].get<double>(), 0);
    const std::string folder = "plans/t/" + place["folder"].get<std::string>();
    const Json simulated =
        answer("simulate --job " + folder + "/job.json --rank " + place["rank"].dump());
    EXPECT_EQ(simulated["step_time_ns"], place["step_time_ns"]) << place["text"];
    EXPECT_EQ(simulated["memory"], place["memory"]) << place["text"];
    EXPECT_EQ(simulated["pipeline"], place["pipeline"]) << place["text"];
  }
  for (const char* change : {"--pipeline-schedule 1F1B", "--pipeline-stages time",
                             "--pipeline-checkpoint always", "--stages-per-rank 1"}) {
    const Outcome changed =
        workplace_.run("simulate --job plans/t/places/1/job.json " + std::string(change));
    EXPECT_EQ(changed.code, 2) << change;
    EXPECT_THAT(changed.errors, HasSubstr("job.json is a place of a plan")) << change;
  }
  const Json& chosen = plan["chosen"];
  EXPECT_EQ(chosen["file"], "torchtitan.toml");
  const Json& best = plan["candidates"][chosen["place"].get<std::size_t>() - 1];
  const Json by_file = answer(
      "simulate --config plans/t/torchtitan.toml --model llama.json "
      "--cluster h100_sxm --rank " +
      best["rank"].dump());
  EXPECT_EQ(by_file["step_time_ns"], best["step_time_ns"]);
  EXPECT_EQ(by_file["memory"], best["memory"]);
  EXPECT_THAT(answer(asked)["dropped"].dump(), HasSubstr("only where --strategy asks"));
}

// Compiled or in float8, a place's folder leads to its figures, and the answer says what it is.
TEST_F(Plan, CompiledPlacesSimulateToTheSameFigures) {
  workplace_.write("llama.json", small_llama);
  const std::string asked =
      "plan --model llama.json --cluster h100_sxm --world 8 --tokens-per-batch 2048 --seq 128 "
      "--precision bf16_mixed --places 3 -o plans/c ";
  for (const std::string kernels :
       {"--runtime fsdp2,fsdp1,ddp,deepspeed --compile blocks", "--runtime fsdp2 --compile model",
        "--runtime torchtitan --compile blocks+loss",
        "--runtime ddp,fsdp2 --float8 tensorwise --compile blocks"}) {
    const Json plan = answer(asked + kernels);
    EXPECT_EQ(plan["compile"], kernels.substr(kernels.rfind(' ') + 1));
    EXPECT_EQ(plan["float8"].is_null(), kernels.find("float8") == std::string::npos);
    for (const Json& place : plan["candidates"]) {
      const Json simulated = answer("simulate --job plans/c/" + place["folder"].get<std::string>() +
                                    "/job.json --rank " + place["rank"].dump());
      EXPECT_EQ(simulated["step_time_ns"], place["step_time_ns"]) << kernels << place["text"];
      EXPECT_EQ(simulated["memory"], place["memory"]) << kernels << place["text"];
    }
  }
}

// What a file compiles is not eager code.
TEST_F(Plan, RefusesToWeighWhatAFileCompiles) {
  workplace_.write("llama.json", small_llama);
  workplace_.write("compiled.yaml",
                   "distributed_type: MULTI_GPU\nnum_processes: 8\nmixed_precision: bf16\n"
                   "dynamo_config:\n  dynamo_backend: INDUCTOR\n");
  EXPECT_THAT(refused("plan --model llama.json --cluster h100_sxm --accelerate compiled.yaml "
                      "--tokens-per-batch 2048 --seq 128 --compile weigh")
                  .errors,
              HasSubstr("weigh ranks eager code, but the file asks for compiled code"));
}

// An A100 has no products of 8 bits.
TEST_F(Plan, RefusesFloat8OnOlderGpus) {
  workplace_.write("llama.json", small_llama);
  for (const std::string runtime : {"torchtitan", "fsdp2"})
    EXPECT_THAT(refused("plan --model llama.json --cluster a100_80gb --world 8 --float8 rowwise "
                        "--tokens-per-batch 2048 --seq 128 --runtime " +
                        runtime)
                    .errors,
                HasSubstr("compute capability 8.0, and float8 needs 8.9"));
}

// Adapters: one base for all ways, of whose blocks transformers checkpoints its own without FSDP.
// FSDP1 has to keep the original parameters, and holds one dtype in a unit.
TEST_F(Plan, PlacesOfAdaptersSimulateToTheSameFigures) {
  workplace_.write("llama.json", small_llama);
  const std::string asked =
      "plan --model llama.json --cluster h100_sxm --world 2 --tokens-per-batch 512 --seq 128 "
      "--places 5 --objective memory -o plans/l ";
  for (const std::string more :
       {"--runtime ddp,deepspeed --peft r=4,targets=all-linear --quantization nf4",
        "--runtime fsdp1,fsdp2 --peft r=4,targets=all-linear --precision fp32",
        "--runtime ddp --peft r=4,targets=all-linear --precision fp32,bf16_mixed"}) {
    std::string texts;
    const Json plan = answer(asked + more);
    for (const Json& place : plan["candidates"]) {
      texts += place["text"].get<std::string>() + "\n";
      const Json simulated =
          answer("simulate --job plans/l/" + place["folder"].get<std::string>() + "/job.json");
      EXPECT_EQ(simulated["step_time_ns"], place["step_time_ns"]) << place["text"];
      EXPECT_EQ(simulated["memory"], place["memory"]) << place["text"];
    }
    EXPECT_THAT(texts, AllOf(HasSubstr("checkpointing"), HasSubstr(more.substr(10, 3)))) << more;
  }
}

// Loading holds more for a moment than a step of one sequence with checkpoints, which fits.
TEST_F(Plan, CountsWhatLoadingHoldsApartFromSteps) {
  const Json plan =
      answer("plan --model " + (source_root / "examples/models/llama_3_8b").string() +
             " --cluster rtx4090 --world 1 --tokens-per-batch 2048 --seq 2048 --runtime ddp "
             "--peft r=16,targets=all-linear --precision bf16");
  ASSERT_EQ(plan["candidates"].size(), 1u);
  const Json& settings = plan["candidates"][0]["settings"];
  EXPECT_EQ(settings["batch"], 1);
  EXPECT_EQ(settings["checkpointing"], "full");
}

// A base in bfloat16 with adapters in float32: FSDP1 flattens one dtype only.
TEST_F(Plan, SaysWhereEveryWayIsRefused) {
  workplace_.write("llama.json", small_llama);
  const Outcome outcome = workplace_.run(
      "plan --model llama.json --cluster h100_sxm --world 2 --tokens-per-batch 512 --seq 128 "
      "--runtime fsdp1 --peft r=4,targets=all-linear --quantization nf4 --precision bf16_mixed");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("nothing can be predicted"), HasSubstr("cannot flatten uint8"),
                    Not(HasSubstr("\nnothing fits"))));
}

// The Trainer gives FSDP1 units of PEFT's, whatever accelerate's file says. So does a plan, and the
// file that it leaves has the place's figures.
TEST_F(Plan, AdaptersUnderFsdp1HaveTheUnitsOfTheTrainer) {
  workplace_.write("llama.json", small_llama);
  const std::string model =
      "--model llama.json --cluster h100_sxm --seq 128 --peft r=4,targets=all-linear ";
  const Json plan = answer("plan " + model +
                           "--world 2 --tokens-per-batch 512 --runtime fsdp1 --strategy full_shard "
                           "--precision bf16_mixed -o plan");
  const Json& chosen = plan["candidates"][plan["chosen"]["place"].get<std::size_t>() - 1];
  const Json run = answer("simulate " + model +
                          "--accelerate plan/accelerate.yaml --base-dtype bfloat16 --batch " +
                          chosen["settings"]["batch"].dump() + " --accumulate " +
                          chosen["settings"]["accumulate"].dump());
  EXPECT_EQ(chosen["step_time_ns"], run["step_time_ns"]);
  EXPECT_EQ(chosen["memory"]["peak_allocated_bytes"], run["memory"]["peak_allocated_bytes"]);
}

// torchao's layers are not known under FSDP1.
TEST_F(Plan, RefusesFloat8WhereItIsNotPredicted) {
  workplace_.write("llama.json", small_llama);
  EXPECT_THAT(refused("plan --model llama.json --cluster h100_sxm --world 8 --tokens-per-batch "
                      "2048 --seq 128 --runtime ddp,fsdp1 --float8 rowwise")
                  .errors,
              HasSubstr("--float8: float8 is not predicted under fsdp1"));
}

// `weigh` leaves the places eager, and says what compiled blocks would gain.
TEST_F(Plan, SaysWhatCompilingWouldGain) {
  workplace_.write("llama.json", small_llama);
  const std::string asked =
      "plan --model llama.json --cluster h100_sxm --world 8 --tokens-per-batch 2048 --seq 128 "
      "--precision bf16_mixed --runtime fsdp2 --places 1 ";
  const Json eager = answer(asked), weighed = answer(asked + "--compile weigh");
  EXPECT_EQ(weighed["candidates"], eager["candidates"]);
  EXPECT_TRUE(weighed["compile"].is_null());
  EXPECT_THAT(weighed["remarks"].dump(),
              HasSubstr("With compiled blocks (--compile blocks) a step of place 1 takes"));
}

// Every place's folder, and of each set of axes the file where it is the chosen one, lead to its
// figures; ranks of an axis tensor share sequences, so that 4 of them do for 8 ranks.
TEST_F(Plan, TorchtitansAxesSimulateToTheSameFigures) {
  workplace_.write("llama.json", small_llama);
  const std::string asked =
      "plan --model llama.json --cluster h100_sxm --world 8 --tokens-per-batch 512 --seq 128 "
      "--runtime torchtitan --precision bf16_mixed --places 20 ";
  const Json plan = answer(asked + "-o plans/t");
  ASSERT_GE(plan["candidates"].size(), 4U);
  std::string texts;
  for (const Json& place : plan["candidates"]) {
    texts += place["text"].get<std::string>() + "\n";
    EXPECT_EQ(place["settings"]["runtime"], "torchtitan");
    const Json simulated = answer("simulate --job plans/t/" + place["folder"].get<std::string>() +
                                  "/job.json --rank " + place["rank"].dump());
    EXPECT_EQ(simulated["step_time_ns"], place["step_time_ns"]) << place["text"];
    EXPECT_EQ(simulated["memory"], place["memory"]) << place["text"];
  }
  EXPECT_THAT(texts, AllOf(HasSubstr("tensor 2"), HasSubstr("context"), HasSubstr("pipeline")));
  const Json& chosen = plan["chosen"];
  EXPECT_EQ(chosen["file"], "torchtitan.toml");
  const Json& best = plan["candidates"][chosen["place"].get<std::size_t>() - 1];
  const Json by_file = answer(
      "simulate --config plans/t/torchtitan.toml --model llama.json --cluster h100_sxm --world 8 "
      "--rank " +
      best["rank"].dump());
  EXPECT_EQ(by_file["step_time_ns"], best["step_time_ns"]);
  EXPECT_EQ(by_file["memory"], best["memory"]);
  EXPECT_THAT(workplace_.read("plans/t/plan.csv"), HasSubstr(",torchtitan,"));
}

constexpr std::string_view small_mixture = R"({
  "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "attention_bias": false,
  "decoder_sparse_step": 1, "head_dim": 64, "hidden_act": "silu", "hidden_size": 128,
  "intermediate_size": 256, "max_position_embeddings": 512, "mlp_only_layers": [],
  "moe_intermediate_size": 192, "norm_topk_prob": true, "num_attention_heads": 4,
  "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 3, "num_key_value_heads": 2,
  "rms_norm_eps": 1e-06, "tie_word_embeddings": false, "vocab_size": 512})";

// Every place of a mixture on 4 ranks leads back to its figures, and so does the file.
TEST_F(Plan, MixturesOfTorchtitanSimulateToTheSameFigures) {
  workplace_.write("mixture/config.json", std::string(small_mixture));
  const Json plan = answer(
      "plan --model mixture --cluster h100_sxm --world 4 --tokens-per-batch 2048 --seq 256 "
      "--runtime torchtitan --places 20 -o plans/m");
  ASSERT_THAT(plan["candidates"], SizeIs(4));  // with and without replicas and expert
  std::string texts;
  for (const Json& place : plan["candidates"]) {
    texts += place["text"].get<std::string>() + "\n";
    const std::string folder = "plans/m/places/" + place["place"].dump();
    const Json simulated = answer("simulate --job " + folder + "/job.json");
    EXPECT_EQ(simulated["step_time_ns"], place["step_time_ns"]) << place["text"];
    EXPECT_EQ(simulated["memory"], place["memory"]) << place["text"];
  }
  EXPECT_THAT(texts, AllOf(HasSubstr("shard 4 x expert"), HasSubstr("shard 2 x expert 2")));
  const Json& best = plan["candidates"][plan["chosen"]["place"].get<std::size_t>() - 1];
  const Json by_file = answer(
      "simulate --config plans/m/torchtitan.toml --model mixture --cluster h100_sxm --world 4");
  EXPECT_EQ(by_file["step_time_ns"], best["step_time_ns"]);
  EXPECT_EQ(by_file["memory"], best["memory"]);
}

/// The column at which each line under `heading` has its second part.
std::set<std::size_t> second_columns(const std::string& text, const std::string& heading) {
  std::set<std::size_t> columns;
  std::istringstream lines(text.substr(text.find(heading)));
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line) && !line.empty();)
    columns.insert(line.find_first_not_of(' ', line.find("  ", 2)));
  return columns;
}

// Names of torchtitan's axes are longer than 30 characters.
TEST_F(Plan, ReasonsOfLosersAreBelowEachOther) {
  workplace_.write("llama.json", small_llama);
  const Outcome outcome = workplace_.run(
      "plan --model llama.json --cluster h100_sxm --world 8 --tokens-per-batch 512 --seq 128 "
      "--runtime torchtitan --precision bf16_mixed --places 6");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(second_columns(outcome.output, "why the others lost\n"), SizeIs(1)) << outcome.output;
}

TEST_F(Plan, RefusesWhatTorchtitanCannotBeTold) {
  workplace_.write("llama.json", small_llama);
  const std::string asked =
      "plan --model llama.json --world 8 --tokens-per-batch 512 --seq 128 --cluster h100_sxm "
      "--runtime torchtitan ";
  for (const std::string option :
       {"--dropout on", "--attention flash", "--attention cudnn", "--loss model", "--liger on",
        "--layers transformers", "--optimizer-implementation foreach", "--transformers 4",
        "--peft r=8", "--quantization nf4", "--lengths mean=64,max=128",
        "--optimizer-in-backward on", "--activation-offloading on", "--reference copy",
        "--prompt 8"})
    EXPECT_THAT(refused(asked + option).errors,
                AllOf(StartsWith("shardscope plan: " + option.substr(0, option.find(' ')) + ":"),
                      HasSubstr("torchtitan")))
        << option;
  EXPECT_THAT(refused(asked + "--layouts some").errors, HasSubstr("is none of usual, all"));
  for (const std::string option : {"--compile blocks", "--float8 tensorwise"})
    EXPECT_THAT(
        refused(asked + "--layouts all " + option).errors,
        HasSubstr("all layouts are not weighed with " + option.substr(0, option.find(' '))));
}

// What `calibrate` measured on a CPU says nothing of GPUs.
TEST_F(Plan, TorchtitanIsNotWeighedOnACpu) {
  workplace_.write("llama.json", small_llama);
  std::ifstream file(source_root / "sim/profiles/h100_sxm.json");
  Json profile = Json::parse(file);
  profile["device"] = "cpu";
  workplace_.write("cluster.json", profile.dump());
  EXPECT_THAT(refused("plan --model llama.json --world 8 --tokens-per-batch 1024 --seq 128 "
                      "--cluster cluster.json --runtime native,torchtitan")
                  .errors,
              HasSubstr("--runtime: torchtitan trains on GPUs"));
}

/// Of a pipeline on `world` ranks, each of which has four sequences a step.
std::string pipelines_on(int world) {
  return "plan --model config.json --cluster h100_sxm --runtime native --precision fp32 --seq 16 "
         "--strategy pipeline --world " +
         std::to_string(world) + " --tokens-per-batch " + std::to_string(world * 4 * 16) + " ";
}

TEST_F(Plan, PipelinesAreRowsWithTheirSettings) {
  const Json plan = answer(pipelines_on(4) + "-o rows");
  for (const Json& way : plan["ways"])
    EXPECT_THAT(way["text"].get<std::string>(), HasSubstr("pipeline of 2"));
  const Json& second = plan["candidates"][1];
  EXPECT_THAT(second["why"].get<std::string>(), HasSubstr("% "));
  const Json& settings = second["settings"]["pipeline"];
  const std::string table = workplace_.read("rows/plan.csv");
  EXPECT_THAT(table, HasSubstr(",pipeline,pipeline_schedule,stages_per_rank,stages,"
                               "pipeline_checkpoint,bubble_share,context,tensor,expert\n"));
  EXPECT_THAT(table, HasSubstr(",2," + settings["schedule"].get<std::string>() + "," +
                               settings["stages_per_rank"].dump() + ","));
  EXPECT_THAT(workplace_.read("rows/plan.html"),
              AllOf(HasSubstr("pipeline of 2"), HasSubstr(", bubble ")));
}

TEST_F(Plan, AListWithoutPipelinesLeavesThemOut) {
  const std::string beside = replaced(pipelines_on(4), "--strategy pipeline", "");
  const auto pipelines = [&](const std::string& arguments) {
    int count = 0;
    const Json plan = answer(arguments);
    for (const Json& way : plan["ways"])
      count += way["text"].get<std::string>().find("pipeline") != std::string::npos ? 1 : 0;
    return count;
  };
  EXPECT_GT(pipelines(beside), 0);
  EXPECT_EQ(pipelines(beside + "--strategy full_shard,zero1"), 0);
  EXPECT_GT(pipelines(beside + "--strategy full_shard,pipeline"), 0);
}

TEST_F(Plan, APlaceIsTakenWhole) {
  ASSERT_EQ(workplace_.run(std::string(question) + two_runtimes + "-o plans/d").code, 0);
  const Outcome outcome = workplace_.run("simulate --job plans/d/places/1/job.json --batch 2");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("--batch: plans/d/places/1/job.json is a place of a plan"));
}

TEST_F(Plan, NoPlaceOfAnEarlierPlanStays) {
  ASSERT_EQ(workplace_.run(std::string(question) + two_runtimes + "--places 3 -o plans/e").code, 0);
  ASSERT_TRUE(std::filesystem::exists(workplace_.path() / "plans/e/places/2"));
  ASSERT_EQ(workplace_
                .run(std::string(question) + "--runtime ddp --strategy no_shard --places 1 "
                                             "--precision bf16_mixed -o plans/e")
                .code,
            0);
  const std::size_t left = Json::parse(workplace_.read("plans/e/plan.json"))["candidates"].size();
  EXPECT_TRUE(std::filesystem::exists(workplace_.path() / "plans/e/places" / std::to_string(left)));
  EXPECT_FALSE(
      std::filesystem::exists(workplace_.path() / "plans/e/places" / std::to_string(left + 1)));
}

TEST_F(Plan, LeavesEveryWayAsATableAndAPage) {
  const Outcome outcome = workplace_.run(std::string(question) +
                                         "--runtime ddp --precision bf16_mixed --json -o plans/b");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  const Json plan = Json::parse(outcome.output);
  EXPECT_EQ(plan["ways"].size(), plan["choices"]);
  EXPECT_EQ(lines_of(workplace_.read("plans/b/plan.csv")), plan["ways"].size() + 1);
  EXPECT_THAT(workplace_.read("plans/b/plan.html"),
              AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("<svg"), HasSubstr("<title>ddp"),
                    HasSubstr("chosen    ddp"), Not(HasSubstr("src="))));
}

TEST_F(Plan, OneRankHasNobodyToShareOptimizerStatesWith) {
  const Json plan = answer(replaced(question, "--world 4", "--world 1") +
                           "--runtime native,ddp,fsdp1,fsdp2 --precision bf16_mixed");
  ASSERT_FALSE(plan["ways"].empty());
  for (const Json& way : plan["ways"])
    EXPECT_THAT(way["text"].get<std::string>(), Not(HasSubstr("zero1")));
  for (const Json& place : plan["candidates"]) EXPECT_NE(place["strategy"], "zero1");
  EXPECT_THAT(plan["dropped"], Contains(Json{{"strategy", "native zero1"},
                                             {"why", "one rank has nobody to share with"}}));
  // Where simulate is asked for it all the same, nothing is shared.
  const auto memory = [&](const std::string& strategy) {
    return answer(
        "simulate --model config.json --cluster h100_sxm --world 1 --batch 2 --seq 16 "
        "--runtime native --precision bf16_mixed --strategy " +
        strategy)["memory"]["at_peak"];
  };
  EXPECT_EQ(memory("zero1")["optimizer_states_bytes"],
            memory("no_shard")["optimizer_states_bytes"]);
}

// 5040 has 60 divisors: as many ways to divide the ranks into groups. A plan that grows with the
// ranks does not end before ctest's limit.
TEST_F(Plan, OfRanksWithManyDivisorsTakesLittleMemory) {
  const Json plan = answer(
      "plan --model config.json --cluster h100_sxm --world 5040 --tokens-per-batch 80640 --seq 16 "
      "--runtime fsdp2 --strategy hybrid_shard --precision bf16_mixed");
  EXPECT_EQ(plan["world"], 5040);
  EXPECT_FALSE(plan["candidates"].empty());
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  EXPECT_LT(usage.ru_maxrss, 1 << 20);  // KiB
}

TEST_F(Plan, MemoryRanksTheSmallestFirst) {
  const Json plan = answer(std::string(question) + two_runtimes + "--objective memory");
  const Json& candidates = plan["candidates"];
  ASSERT_GE(candidates.size(), 2u);
  EXPECT_LE(candidates[0]["needed_memory_bytes"], candidates[1]["needed_memory_bytes"]);
}

// The run of the file has the figures of `simulate`, and the tokens of a step follow from it: 2 x 2
// sequences of 16 tokens on each of 4 ranks. Its base is loaded as config.json says.
TEST_F(Plan, PlacesTheRunOfAToolsFile) {
  Json config = Json::parse(small_llama);
  config["torch_dtype"] = "float32";
  workplace_.write("config.json", config.dump());
  workplace_.write("lora.yaml",
                   "model_name_or_path: somebody/small\nstage: sft\nfinetuning_type: lora\n"
                   "lora_rank: 8\nlora_target: all\ncutoff_len: 16\nbf16: true\n"
                   "per_device_train_batch_size: 2\ngradient_accumulation_steps: 2\n");
  const std::string file = "--config lora.yaml --model config.json --cluster h100_sxm --world 4 ";
  const Json plan = answer("plan " + file + "--runtime ddp");
  const Json run = answer("simulate " + file);
  const Json& given = plan["given"];
  EXPECT_EQ(plan["tokens_per_batch"], 256);
  EXPECT_EQ(given["file"], "lora.yaml");
  EXPECT_EQ(given["text"], "ddp no_shard, batch 2 x 2, checkpointing full, bf16_mixed");
  EXPECT_EQ(given["step_time_ns"], run["step_time_ns"]);
  EXPECT_EQ(given["memory"]["peak_allocated_bytes"], run["memory"]["peak_allocated_bytes"]);
  EXPECT_EQ(given["needed_memory_bytes"], run["needs_bytes"]);
  // A file that cannot be played leaves the rest of the answer.
  const Json without = answer("plan " + file + "--runtime ddp --tokens-per-batch 64");
  EXPECT_TRUE(without["given"].is_null());
  EXPECT_THAT(without["assumed"].dump(), HasSubstr("lora.yaml itself has no place"));
}

TEST_F(Plan, TheSameQuestionHasTheSameAnswer) {
  const auto without_time = [&] {
    Json plan = answer(std::string(question) + two_runtimes);
    plan.erase("elapsed_s");
    return plan;
  };
  EXPECT_EQ(without_time(), without_time());
}

TEST_F(Plan, CtrlCPrintsTheBestSoFar) {
  StartedProgram plan(
      {SHARDSCOPE_PROGRAM, "plan", "--model", (source_root / "examples/models/llama_3_8b").string(),
       "--cluster", "h100_sxm", "--world", "64", "--tokens-per-batch", "4194304", "--seq", "8192",
       "--json"},
      workplace_.path());
  EXPECT_TRUE(comes_true(
      [&] { return cares(plan.id(), SIGINT, SignalCare::catches) || has_ended(plan.id()); }));
  kill(plan.id(), SIGINT);
  const auto outcome = plan.wait(long_enough);
  ASSERT_TRUE(outcome);
  // A fast machine has the whole answer by then.
  EXPECT_THAT(outcome->code, AnyOf(Eq(130), Eq(0))) << outcome->errors;
  EXPECT_EQ(Json::parse(outcome->output)["interrupted"], outcome->code == 130);
}

TEST_F(Plan, AnExportWithoutAStepIsRefusedBeforeTheSearch) {
  const std::string exported = (source_root / "tests/data/model_exports/gpt2.json").string();
  const Outcome outcome = refused("plan --model " + exported +
                                  " --cluster h100_sxm --world 4 --tokens-per-batch 128 --seq 16");
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("gpt2.json"), HasSubstr("no training step"),
                                    HasSubstr("export the model again")));
}

}  // namespace
}  // namespace shardscope::testing
