#include "core/native/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/complaint.h"
#include "tests/core/temporary_folder.h"

namespace shardscope {
namespace {

using testing::HasSubstr;

class JobTest : public testing::Test {
 protected:
  Job read(std::string_view text) { return read_job(folder_.write("job.json", text)); }
  /// A job of "model", "data" and `more`.
  Job job(std::string_view more) { return read(whole(more)); }
  std::string complaint(std::string_view more) {
    return complaint_of([&] { job(more); });
  }
  static std::string whole(std::string_view more) {
    return "{\"model\": \"m\", \"data\": \"d\"" + std::string(more.empty() ? "" : ",\n") +
           std::string(more) + "}";
  }

  TemporaryFolder folder_;
};

TEST_F(JobTest, PathsAreRelativeToTheFile) {
  const Job job = read(R"({"model": "../m", "data": ["a.txt", "/b"], "output": "runs/x"})");
  EXPECT_EQ(job.model, folder_.path().parent_path() / "m");
  EXPECT_EQ(job.data, (std::vector<std::filesystem::path>{folder_.path() / "a.txt", "/b"}));
  EXPECT_EQ(job.output, folder_.path() / "runs" / "x");
}

TEST_F(JobTest, EveryKeyIsRead) {
  const Job job = read(
      R"({"model": "m", "data": "d", "weights": "pretrained", "tokens": "llm_c", "token_start": 7,
    "steps": 50, "batch": 2, "seq": 64, "accumulate": 3, "seed": 9,
    "optimizer": {"kind": "sgd", "betas": [0.8, 0.99], "eps": 1e-6, "weight_decay": 0.2, "momentum": 0.5, "nesterov": true},
    "lr": {"kind": "nanogpt_cosine", "peak": 0.01, "min": 0.001, "warmup": 4, "total": 40},
    "clip": 0.5, "trainable": ["ln_", "bias$"], "strategy": "hybrid_shard", "mesh": {"replicate": 2, "shard": 3},
    "wrap": "size:1000", "prefetch": false, "checkpointing": "full", "precision": "bf16_mixed", "reduce_every_micro_batch": true, "ranks": 6,
    "communicator": "mpi", "device": "cpu", "threads": 4, "check": true, "save_model": false, "timeout": "1.5 s"})");
  EXPECT_EQ(job.weights, StartWeights::pretrained);
  EXPECT_EQ(job.token_format, TokenFormat::llm_c);
  EXPECT_EQ(job.token_start, 7);
  EXPECT_EQ(job.steps, 50);
  EXPECT_EQ(job.batch, 2);
  EXPECT_EQ(job.seq, 64);
  EXPECT_EQ(job.accumulate, 3);
  EXPECT_EQ(job.seed, 9u);
  EXPECT_EQ(job.optimizer, (Optimizer{.kind = OptimizerKind::sgd,
                                      .beta1 = 0.8,
                                      .beta2 = 0.99,
                                      .epsilon = 1e-6,
                                      .momentum = 0.5,
                                      .nesterov = true,
                                      .weight_decay = 0.2}));
  EXPECT_EQ(job.learning_rate, (LearningRate{.kind = LearningRate::Kind::nanogpt_cosine,
                                             .peak = 0.01,
                                             .min = 0.001,
                                             .warmup = 4,
                                             .total = 40}));
  EXPECT_EQ(job.clip, 0.5);
  EXPECT_EQ(job.trainable, (std::vector<std::string>{"ln_", "bias$"}));
  EXPECT_EQ(job.strategy.sharding, ShardingStrategy::hybrid_shard);
  EXPECT_EQ(job.strategy.mesh, (Mesh{.replicate = 2, .shard = 3}));
  EXPECT_EQ(job.strategy.wrap, (Wrap{.policy = WrapPolicy::size, .min_elements = 1000}));
  EXPECT_EQ(job.strategy.prefetch, (Prefetching{.forward = 0, .backward = 0}));
  EXPECT_EQ(job.strategy.checkpointing, full_checkpointing);
  EXPECT_EQ(job.strategy.precision, Precision::bf16_mixed);
  EXPECT_TRUE(job.strategy.reduce_every_micro_batch);
  EXPECT_EQ(job.ranks, 6);
  EXPECT_EQ(job.communicator, CommunicatorChoice::mpi);
  EXPECT_EQ(job.threads, 4);
  EXPECT_TRUE(job.check);
  EXPECT_FALSE(job.save_model);
  EXPECT_EQ(job.timeout_s, 1.5);
}

TEST_F(JobTest, ItsOwnTextGivesTheSameJob) {
  for (const char* more :
       {"",
        R"("clip": null, "lr": {"peak": 1e-05}, "timeout": "90 s", "strategy": "hybrid_shard")"}) {
    const std::string text = to_json(job(more));
    EXPECT_EQ(to_json(read(text)), text);
  }
}

TEST_F(JobTest, PrefetchCheckpointingAndWrapHaveTheirOwnShortWords) {
  const auto strategy = [&](const char* text) { return job(text).strategy; };
  EXPECT_EQ(strategy("\"prefetch\": true").prefetch, Prefetching{});
  EXPECT_EQ(strategy("\"prefetch\": \"backward_post\"").prefetch,
            (Prefetching{.forward = 0, .backward_post = true}));
  EXPECT_EQ(strategy("\"prefetch\": \"forward=2,backward_pre=3,limit=4\"").prefetch,
            (Prefetching{.forward = 2, .backward = 3, .limit = 4}));
  EXPECT_EQ(strategy("\"checkpointing\": \"every:3\"").checkpointing, (Checkpointing{.every = 3}));
  EXPECT_EQ(strategy("\"checkpointing\": \"selective+first:2\"").checkpointing,
            (Checkpointing{.first = 2, .selective = true}));
  EXPECT_EQ(strategy("\"wrap\": \"blocks:3+0,1+2\"").wrap,
            (Wrap{.policy = WrapPolicy::by_hand, .blocks = {{0, 3}, {1, 2}}}));
  for (const char* text :
       {"\"prefetch\": \"backward_post=2,limit=1\"", "\"checkpointing\": \"selective+first:2\"",
        "\"wrap\": \"blocks:0+3,1+2\"",
        "\"optimizer\": {\"groups\": [{\"pattern\": \"ln_\", \"rate\": 0.5, \"weight_decay\": "
        "0}]}"}) {
    const std::string written = to_json(job(text));
    EXPECT_EQ(to_json(read(written)), written);
  }
}

TEST_F(JobTest, SaysWhatNoPrefetchCheckpointingOrWrapCanBe) {
  EXPECT_THAT(complaint("\"prefetch\": \"forwards\""), HasSubstr("job.json:2: prefetch"));
  EXPECT_THAT(complaint("\"prefetch\": \"forward=0\""), HasSubstr("from 1 to 1000"));
  EXPECT_THAT(complaint("\"prefetch\": \"backward_pre,backward_post\""), HasSubstr("stands twice"));
  EXPECT_THAT(complaint("\"checkpointing\": \"every:0\""), HasSubstr("every:K"));
  EXPECT_THAT(complaint("\"wrap\": \"blocks:0+1,1+2\""), HasSubstr("block 1 stands twice"));
  EXPECT_THAT(complaint("\"wrap\": \"blocks:\""), HasSubstr("a block is a number"));
  EXPECT_THAT(complaint("\"optimizer\": {\"groups\": [{\"pattern\": \"(\"}]}"),
              HasSubstr("no regular expression"));
  EXPECT_THAT(complaint("\"optimizer\": {\"groups\": [{\"pattern\": \"a\", \"lr\": 1}]}"),
              HasSubstr("no such key"));
}

TEST_F(JobTest, RefusesWhatItWouldPassOver) {
  EXPECT_THAT(complaint("\"memory_budget\": \"0 B\""), HasSubstr("expected a size above 0"));
  EXPECT_EQ(job("\"memory_budget\": null").memory_budget, 0_B);
  EXPECT_EQ(job("\"memory_budget\": \"3 MiB\"").memory_budget, 3_MiB);
  EXPECT_THAT(complaint("\"runtime\": \"fsdp2\", \"offload\": \"all\""),
              HasSubstr("job.json:2: offload: the runtime fsdp2 has settings of its own"));
  EXPECT_THAT(complaint("\"runtime\": \"ddp\", \"memory_budget\": \"3 MiB\""),
              HasSubstr("memory_budget"));
}

TEST_F(JobTest, ClipNullIsNoClipping) {
  EXPECT_EQ(job("\"clip\": null").clip, 0);
  EXPECT_EQ(job("").clip, 1);
  EXPECT_THAT(complaint("\"clip\": 0"), HasSubstr("write null for no clipping"));
}

TEST_F(JobTest, WindowsAreRead) {
  EXPECT_EQ(job("\"profile\": {\"start\": 100, \"steps\": 3, \"every\": 1000}").profile,
            (ProfileWindows{.start = 100, .steps = 3, .every = 1000}));
  EXPECT_EQ(job("").profile, (ProfileWindows{.start = 0, .steps = 5, .every = 0}));
  EXPECT_THAT(complaint("\"profile\": {\"every\": 9}"),
              HasSubstr("job.json:2: profile: every without start"));
  EXPECT_THAT(complaint("\"profile\": {\"start\": 1, \"steps\": 10, \"every\": 9}"),
              HasSubstr("every 9 is less than the 10 steps of a window"));
  EXPECT_THAT(complaint("\"profile\": {\"steps\": 0}"), HasSubstr("profile.steps: expected"));
  EXPECT_EQ(job("").profile_records, ProfileRecords::kernels);
  EXPECT_EQ(job("\"profile\": {\"records\": \"all\"}").profile_records, ProfileRecords::all);
  EXPECT_THAT(complaint("\"profile\": {\"records\": \"some\"}"),
              HasSubstr("one of \"kernels\", \"all\""));
}

TEST(ProfileWindowsText, GivesStartStepsAndEvery) {
  EXPECT_EQ(parse_profile_windows("7", "--profile"), (ProfileWindows{.start = 7, .steps = 5}));
  EXPECT_EQ(parse_profile_windows("7:2", "--profile"), (ProfileWindows{.start = 7, .steps = 2}));
  EXPECT_EQ(parse_profile_windows("7:2:2", "--profile"),
            (ProfileWindows{.start = 7, .steps = 2, .every = 2}));
  for (const char* wrong : {"", ":", "7:", "0", "-1", "7:2:2:2", "7:1001", "7:2:1", "x", "7 ",
                            "99999999999999999999"}) {
    EXPECT_THROW(parse_profile_windows(wrong, "--profile"), Error) << wrong;
  }
}

TEST_F(JobTest, ComplaintsNameFileLineAndKey) {
  EXPECT_THAT(complaint("\"step\": 5"),
              HasSubstr("job.json:2: step: unknown key; did you mean \"steps\"?"));
  EXPECT_THAT(complaint("\"lr\": {\"peek\": 5}"),
              HasSubstr("job.json:2: lr.peek: unknown key; did you mean \"peak\"?"));
  EXPECT_THAT(complaint("\"steps\": \"ten\""), HasSubstr("job.json:2: steps: expected an integer"));
  EXPECT_THAT(complaint("\"steps\": 0"),
              HasSubstr("job.json:2: steps: expected an integer from 1"));
  EXPECT_THAT(complaint("\"batch\": -1"), HasSubstr("job.json:2: batch: expected"));
  EXPECT_THAT(complaint("\"ranks\": 0"), HasSubstr("job.json:2: ranks: expected"));
  EXPECT_THAT(complaint("\"steps\": 5, \"steps\": 6"), HasSubstr("\"steps\" stands twice"));
  EXPECT_THAT(complaint("\"weights\": \"none\""),
              HasSubstr("weights: expected one of \"auto\", \"random\", \"pretrained\""));
  EXPECT_THAT(complaint("\"strategy\": \"zero4\""), HasSubstr("job.json:2: strategy: "));
  EXPECT_THAT(complaint("\"precision\": \"fp16_mixed\""), HasSubstr("job.json:2: precision: "));
  EXPECT_THAT(complaint("\"timeout\": 60"), HasSubstr("timeout: expected a string"));
  EXPECT_THAT(complaint("\"timeout\": \"60\""), HasSubstr("timeout: \"60\" has no unit"));
  EXPECT_THAT(complaint("\"optimizer\": {\"betas\": [0.9, 1]}"),
              HasSubstr("optimizer.betas[1]: expected a number below 1"));
  EXPECT_THAT(complaint("\"optimizer\": 5"), HasSubstr("optimizer: expected an object"));
  EXPECT_THAT(complaint("\"trainable\": [\"(\"]"),
              HasSubstr("trainable[0]: \"(\" is no regular expression"));
  EXPECT_THAT(complaint("\"data\": \"e\""), HasSubstr("\"data\" stands twice"));
  EXPECT_THAT(complaint("\"lr\": {\"min\": 1}"),
              HasSubstr("job.json:2: lr: min 1 is above peak 0.0003"));
}

// As `simulate --model` leaves one: what is trained on changes no prediction.
TEST_F(JobTest, AJobOfAPredictionHasNoData) {
  Job job = read("{\"model\": \"m\", \"data\": \"d\"}");
  job.data.clear();
  EXPECT_TRUE(read(to_json(job)).data.empty());
}

TEST_F(JobTest, MissingKeysAreNamed) {
  EXPECT_THAT(complaint_of([&] { read("{\"data\": \"d\"}"); }),
              HasSubstr("job.json:1: the key \"model\" is missing"));
  EXPECT_THAT(complaint_of([&] { read("{\"model\": \"m\"}"); }),
              HasSubstr("job.json:1: the key \"data\" is missing"));
  EXPECT_THAT(complaint_of([&] { read("{\"model\": \"m\", \"data\": []}"); }),
              HasSubstr("at least one file or folder"));
}

TEST_F(JobTest, AStrategyThatCannotBeIsNamed) {
  EXPECT_THAT(complaint("\"ranks\": 4,\n\"mesh\": {\"shard\": 3}"),
              HasSubstr("job.json:3: mesh: "));
  EXPECT_THAT(complaint("\"mesh\": {\"shard\": 0}"),
              HasSubstr("job.json:2: mesh.shard: expected an integer from 1"));
  EXPECT_THAT(complaint("\"ranks\": 2, \"strategy\": \"hybrid_shard\""),
              HasSubstr("job.json:2: strategy: hybrid_shard"));
}

TEST(JobHelp, NamesEveryKeyWithItsDefault) {
  const std::string help = job_help();
  for (const char* key :
       {"model ", "steps ", "optimizer.betas ", "lr.warmup ", "mesh.shard ", "timeout "})
    EXPECT_THAT(help, HasSubstr("\n" + std::string(key)));
  EXPECT_THAT(help, HasSubstr("\"60 s\""));
  EXPECT_THAT(help, HasSubstr("required"));
}

TEST(Wrap, TakesASizeAsPeopleWriteIt) {
  EXPECT_EQ(parse_wrap("size:1e7", "--wrap").min_elements, 10'000'000);
  EXPECT_EQ(parse_wrap("size:25E6", "--wrap").min_elements, 25'000'000);
  EXPECT_THROW(parse_wrap("size:1e19", "--wrap"), Error);
  EXPECT_THROW(parse_wrap("size:1e-3", "--wrap"), Error);
}

}  // namespace
}  // namespace shardscope
