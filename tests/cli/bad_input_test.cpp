// Bad input: one line that names file and key, the right exit code, nothing half written.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using ::testing::HasSubstr;

struct BadJob {
  const char* name;
  const char* what;  ///< of the good job
  const char* by;
  const char* named;  ///< stands in the complaint
};
void PrintTo(const BadJob& job, std::ostream* out) { *out << job.name; }

class RefusedJob : public ::testing::TestWithParam<BadJob> {};

TEST_P(RefusedJob, IsOneLineThatNamesTheKeyAndLeavesNothing) {
  const BadJob& bad = GetParam();
  const Workplace workplace;
  set_up_tiny_job(workplace);
  workplace.write("job.json", replaced(tiny_job(), bad.what, bad.by));
  const Outcome outcome = workplace.run("train job.json");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("shardscope train: "));
  EXPECT_THAT(outcome.errors, HasSubstr(bad.named));
  EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(workplace.files(), (std::vector<std::string>{"job.json", "model", "text.txt"}));
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, RefusedJob,
    ::testing::Values(
        BadJob{"MissingKey", "\"model\": \"model\",", "",
               "job.json:1: the key \"model\" is missing"},
        BadJob{"UnknownKey", "\"steps\"", "\"stepps\"", "job.json:4: stepps"},
        BadJob{"WrongType", "\"steps\": 3", "\"steps\": \"three\"", "job.json:4: steps"},
        BadJob{"NegativeSize", "\"batch\": 2", "\"batch\": -2", "job.json:5: batch"},
        BadJob{"WorldZero", "\"ranks\": 2", "\"ranks\": 0", "job.json:8: ranks"},
        BadJob{"UnknownStrategy", "full_shard", "fullshard", "job.json:7: strategy"},
        BadJob{"HybridOnTwoRanks", "full_shard", "hybrid_shard", "job.json:7: strategy"},
        BadJob{"SequenceLongerThanTheModel", "\"seq\": 8", "\"seq\": 64", "32"},
        BadJob{"TokenStartBeyondAnyData", "\"seq\": 8",
               "\"seq\": 8, \"token_start\": 9223372036854775807", "token_start: expected"},
        BadJob{"MissingData", "text.txt", "nothing.txt", "nothing.txt"},
        BadJob{"NotJson", "\"steps\": 3,", "\"steps\": 3", "job.json:5"}),
    [](const auto& given) { return std::string(given.param.name); });

struct BadModel {
  const char* name;
  const char* what;
  const char* by;
  const char* named;
};
void PrintTo(const BadModel& model, std::ostream* out) { *out << model.name; }

class RefusedModel : public ::testing::TestWithParam<BadModel> {};

TEST_P(RefusedModel, IsOneLineThatNamesTheKey) {
  const BadModel& bad = GetParam();
  const Workplace workplace;
  workplace.write("config.json", replaced(tiny_config(), bad.what, bad.by));
  const Outcome outcome = workplace.run("model config.json --json");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("config.json"));
  EXPECT_THAT(outcome.errors, HasSubstr(bad.named));
  EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
  EXPECT_EQ(outcome.output, "");
}

INSTANTIATE_TEST_SUITE_P(
    Models, RefusedModel,
    ::testing::Values(
        BadModel{"UnknownArchitecture", "GPT2LMHeadModel", "GPT5LMHeadModel", "GPT5LMHeadModel"},
        BadModel{"UnknownFamily", "\"gpt2\"", "\"mamba\"", "export_model.py"},
        BadModel{"HeadsThatDoNotDivide", "\"n_head\": 2", "\"n_head\": 3", "n_head"},
        BadModel{"WrongType", "\"n_layer\": 2", "\"n_layer\": \"two\"", "n_layer"},
        BadModel{"ZeroWidth", "\"n_embd\": 16", "\"n_embd\": 0", "n_embd"},
        BadModel{"QuantisedBase", "\"n_head\": 2",
                 "\"n_head\": 2, \"quantization_config\": {\"bits\": 4}", "quantization_config"},
        BadModel{"ExpertsOfADenseFamily", "\"n_head\": 2", "\"n_head\": 2, \"num_experts\": 8",
                 "num_experts"}),
    [](const auto& given) { return std::string(given.param.name); });

class RefusedOption : public ::testing::TestWithParam<const char*> {};

TEST_P(RefusedOption, IsOneLineAndExitTwo) {
  const Workplace workplace;
  set_up_tiny_job(workplace);
  const Outcome outcome =
      workplace.run(std::string("simulate --cluster h100_sxm --model model ") + GetParam());
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
  EXPECT_EQ(outcome.output, "");
}

INSTANTIATE_TEST_SUITE_P(
    Options, RefusedOption,
    ::testing::Values(
        "--world 0", "--world -1", "--world 99999999999", "--world two", "--batch -4", "--seq 0",
        "--seq 33", "--rank 4 --world 4", "--strategy fsdp", "--world 3 --strategy hybrid_shard",
        "--world 4 --mesh replicate=2,shard=3", "--runtime fsdp2 --world 8 --mesh shard=16",
        "--runtime fsdp2 --world 8 --mesh shard=4",
        "--runtime fsdp1 --world 8 --mesh replicate=3,shard=3",
        "--runtime fsdp1 --world 8 --mesh replicate=2,shard=4",
        "--runtime fsdp2 --world 8 --mesh pipeline=2,shard=4",
        "--runtime fsdp2 --world 8 --mesh replicate=2,shard=3",
        "--runtime ddp --world 8 --mesh shard=8", "--runtime deepspeed --world 8 --mesh shard=8",
        "--mesh shard=-2", "--wrap size:-1", "--clip -1", "--clip nan", "--accumulate 0",
        "--world 2 --seq 8 --tokens-per-batch 17", "--checkpointing every:2",
        "--runtime torchtitan --world 8", "--runtime torchtitan --mesh pipeline=2",
        "--runtime torchtitan --world 8 --peft r=16",
        "--runtime torchtitan --world 8 --quantization nf4",
        "--runtime torchtitan --world 8 --stages-per-rank 2",
        "--runtime torchtitan --world 8 --pytorch 1", "--runtime torchtitan --world 8 --phases",
        "--runtime torchtitan --world 8 --compile model",
        "--runtime fsdp2 --world 2 --seq 32 --compile blocks+loss",
        "--runtime fsdp2 --world 2 --seq 32 --compile everything", "--compile model",
        "--runtime fsdp3", "--model nowhere", "--cluster nowhere", "extra",
        "--runtime ddp --world 2 --accumulate 5000000",
        "--runtime ddp --world 2 --seq 32 --batch 1000000000"));

// The tiny model has two layers.
TEST(BadInput, PipelinesThatCannotBeSayWhyInOneLine) {
  const Workplace workplace;
  set_up_tiny_job(workplace);
  const std::pair<std::string, std::string> refused[] = {
      {"--mesh pipeline=4 --accumulate 4", "4 stages are more than the model's 2 layers"},
      {"--mesh pipeline=2 --accumulate 1", "Number of microbatches (1) must be"},
      {"--mesh pipeline=2 --tokens-per-batch 100", "give a multiple of"},
      {"--mesh pipeline=2,shard=2 --strategy full_shard --tokens-per-batch 8",
       "2 ranks of a stage; give a multiple of"},
      {"--mesh pipeline=2 --accumulate 5 --pipeline-schedule Interleaved1F1B",
       "PyTorch refuses Interleaved1F1B so: "},
      {"--mesh pipeline=2 --accumulate 4 --pipeline-schedule ZBVZeroBubble",
       "give --stages-per-rank 2"},
      {"--mesh pipeline=2 --accumulate 3 --pipeline-schedule DualPipeV --stages-per-rank 2 "
       "--pipeline-stages 0,1,1,0",
       "at least as many microbatches as stages"},
      {"--mesh pipeline=2 --accumulate 4 --stages-per-rank 2", "1F1B has one stage a rank, not 2"},
      {"--mesh pipeline=2 --accumulate 4 --stages-per-rank 99999", "expected 1 to 1024, got 99999"},
      {"--mesh pipeline=2 --accumulate 4 --pipeline-stages 1,2",
       "1,2 gives 2 stages 3 layers, but there are 2 stages and 2 layers"},
      {"--mesh pipeline=2,shard=2 --strategy no_shard --accumulate 4",
       "give replicate=2 instead of shard"},
      {"--mesh pipeline=2,replicate=2 --strategy full_shard --accumulate 4",
       "full_shard shards over all ranks of a stage"},
      {"--mesh pipeline=2,replicate=2 --strategy hybrid_shard --accumulate 4",
       "--mesh pipeline=2,replicate=2,shard=2 on 8 ranks"},
      {"--mesh pipeline=2 --strategy pipeline", "a pipeline is an axis of the mesh"},
      {"--pipeline-schedule GPipe", "the mesh has no pipeline"}};
  for (const auto& [arguments, expected] : refused) {
    const Outcome outcome =
        workplace.run("simulate --cluster h100_sxm --model model --batch 1 --seq 8 " + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr(expected));
    EXPECT_EQ(outcome.output, "");
  }
}

// What PyTorch takes is predicted, with the bubble: 1 of 2 parts.
TEST(BadInput, FewerMicroBatchesThanStagesAreWarnedOf) {
  const Workplace workplace;
  set_up_tiny_job(workplace);
  const Outcome outcome = workplace.run(
      "simulate --cluster h100_sxm --model model --batch 1 --seq 8 --strategy no_shard "
      "--optimizer adamw --mesh pipeline=2 --accumulate 1 --pipeline-schedule GPipe");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("1 micro-batch is fewer than 2 stages: ranks wait 50%"));
}

TEST(BadInput, Float8SaysWhyItIsRefused) {
  // GPT-2's layers are Conv1D; its one Linear is the head, which stays as it is.
  const Workplace workplace;
  set_up_tiny_job(workplace);
  const std::string command =
      "simulate --model model --runtime ddp --world 2 --seq 32 --float8 tensorwise";
  EXPECT_THAT(workplace.run(command + " --cluster h100_sxm").errors,
              HasSubstr("no linear layer that float8 converts"));
  EXPECT_THAT(workplace.run(command + " --cluster a100_40gb").errors,
              HasSubstr("compute capability 8.0, and float8 needs 8.9"));
}

TEST(BadInput, DataTooShortForOneBatchNamesTheData) {
  const Workplace workplace;
  set_up_tiny_job(workplace);
  workplace.write("text.txt", "short");
  const Outcome outcome = workplace.run("train job.json");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("data"));
  EXPECT_FALSE(workplace.has("runs"));
}

TEST(BadInput, WhatDoesNotFitTheHostIsExitOneBeforeARankStarts) {
  // 60 million rows of 32 tokens: their token ids alone are 7.7 GB, one activation of width 8 is 61
  // GB.
  const Workplace workplace;
  set_up_tiny_job(workplace);
  const Outcome outcome = workplace.run("train job.json --batch 60000000 --seq 32");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("does not fit"));
  EXPECT_FALSE(workplace.has("runs"));
}

TEST(BadInput, AFolderThatIsNoRunIsRefused) {
  const Workplace workplace;
  set_up_tiny_job(workplace);
  const Outcome outcome = workplace.run("compare model");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("model: is no run folder"));
}

TEST(BadInput, AFileInTheRunFoldersPlaceIsExitThree) {
  const Workplace workplace;
  set_up_tiny_job(workplace);
  const Outcome outcome = workplace.run("train job.json -o text.txt/run");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.errors, HasSubstr("text.txt"));
  EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
}

TEST(BadInput, AReadOnlyDiskIsExitThree) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const Workplace workplace;
  set_up_tiny_job(workplace);
  std::filesystem::create_directory(workplace.path() / "locked");
  std::filesystem::permissions(workplace.path() / "locked", std::filesystem::perms::owner_read);
  EXPECT_EQ(workplace.run("simulate --cluster h100_sxm --job job.json -o locked/run").code, 3);
  std::filesystem::permissions(workplace.path() / "locked", std::filesystem::perms::owner_all);
}

/// A file system of that many bytes on a folder; `mounted` only where this user may mount one.
class SmallDisk {
 public:
  SmallDisk(std::filesystem::path place, const std::string& bytes) : place_(std::move(place)) {
    std::filesystem::create_directory(place_);
    mounted_ = ::mount("tmpfs", place_.c_str(), "tmpfs", 0, ("size=" + bytes).c_str()) == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) ::umount2(place_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  std::filesystem::path place_;
  bool mounted_ = false;
};

TEST(BadInput, ADiskTooSmallForTheTrainedModelIsExitThreeBeforeTheTraining) {
  const Workplace workplace;
  set_up_tiny_job(workplace);
  const SmallDisk disk(workplace.path() / "small", "32768");
  if (!disk.mounted()) GTEST_SKIP() << "this user may mount no file system";
  const Outcome outcome = workplace.run("train job.json --quiet --device cpu -o small/run");
  EXPECT_EQ(outcome.code, 3);
  // 11,200 parameters of 4 bytes: 43.75 KiB.
  EXPECT_THAT(outcome.errors, HasSubstr("32.0 KiB are free, and the trained model takes 43.8 KiB"));
  EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
  EXPECT_FALSE(workplace.has("small/run/metrics.jsonl"));
}

TEST(BadInput, AFullDiskUnderTheTokensIsExitThree) {
  const Workplace workplace;
  set_up_tiny_job(workplace);
  const Outcome outcome = workplace.run("data encode text.txt -o /dev/full");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.errors, HasSubstr("/dev/full"));
}

TEST(BadInput, AnInputIsNeverWrittenOver) {
  const Workplace workplace;
  set_up_tiny_job(workplace);
  workplace.write("c.yaml",
                  "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 2\n"
                  "fsdp_config:\n  fsdp_version: 2\n");
  workplace.write("t.json", R"({"traceEvents": [{"ph": "X", "name": "a", "pid": 0, "tid": 0,
                                                 "ts": 1, "dur": 2}]})");
  for (const char* verb :
       {"report t.json -o t.json", "report t.json -o ./t.json", "data encode text.txt -o text.txt",
        "convert c.yaml --to deepspeed -o c.yaml", "init --yes --model model -o model/config.json",
        "init --yes --model model/config.json -o model/config.json",
        "init --yes --model model --config c.yaml -o c.yaml"}) {
    SCOPED_TRACE(verb);
    const std::string text = workplace.read("text.txt"), config = workplace.read("c.yaml"),
                      trace = workplace.read("t.json"), model = workplace.read("model/config.json");
    const Outcome outcome = workplace.run(verb);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr("-o"));
    EXPECT_EQ(workplace.read("text.txt"), text);
    EXPECT_EQ(workplace.read("c.yaml"), config);
    EXPECT_EQ(workplace.read("t.json"), trace);
    EXPECT_EQ(workplace.read("model/config.json"), model);
  }
}

struct Overwriting {
  std::string verb;
  std::string file;  ///< that it would write over
};

/// What the verb reads through a folder, a job or a model is an input, too.
TEST(BadInput, NorIsWhatAnInputHoldsOrNames) {
  const Workplace workplace;
  set_up_tiny_job(workplace);
  const std::string trace = R"({"traceEvents": [{"ph": "X", "name": "a", "pid": 0, "tid": 0,
                                                 "ts": 1, "dur": 2}]})";
  workplace.write("t.json", trace);
  workplace.write("traces/a.json", trace);
  workplace.write("r.json", workplace.run("report --print-rules").output);
  for (const char* name : {"summary.json", "comparison.json", "config.json", "job.json",
                           "hardware.json", "trace.0.json.gz"})
    workplace.write(std::string("run/") + name, "{}");
  workplace.write("c.yaml",
                  "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 2\n"
                  "fsdp_config:\n  fsdp_version: 2\n");
  std::ifstream profile(std::string(SOURCE_ROOT) + "/sim/profiles/h100_sxm.json");
  workplace.write("gpu.json", std::string(std::istreambuf_iterator<char>(profile), {}));
  const std::string init = "init --yes --model model --cluster gpu.json --config c.yaml -o ";
  for (const Overwriting& one :
       {Overwriting{"report run -o run/summary.json", "run/summary.json"},
        {"report run -o run/comparison.json", "run/comparison.json"},
        {"report run -o ./run/config.json", "run/config.json"},
        {"report traces -o traces/a.json", "traces/a.json"},
        {"report t.json --rules r.json -o r.json", "r.json"},
        {"fit run -o run/hardware.json", "run/hardware.json"},
        {"fit run -o run/job.json", "run/job.json"},
        {"fit run -o run/trace.0.json.gz", "run/trace.0.json.gz"},
        {"fit traces --cluster gpu.json -o traces/a.json", "traces/a.json"},
        {"calibrate --job job.json -o job.json", "job.json"},
        {"calibrate --model model -o model/config.json", "model/config.json"},
        {init + "c.yaml", "c.yaml"},
        {init + "gpu.json", "gpu.json"},
        {init + "model/config.json", "model/config.json"},
        {"simulate --job job.json --cluster h100_sxm -o .", "job.json"}}) {
    SCOPED_TRACE(one.verb);
    const std::string before = workplace.read(one.file);
    const Outcome outcome = workplace.run(one.verb);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr("would be lost"));
    EXPECT_EQ(workplace.read(one.file), before);
  }
}

TEST(BadInput, AReportMayLieBesideWhatItIsOf) {
  const Workplace workplace;
  workplace.write("traces/a.json", R"({"traceEvents": [{"ph": "X", "name": "a", "pid": 0, "tid": 0,
                                                        "ts": 1, "dur": 2}]})");
  for (int times = 0; times < 2; ++times)  // a page is drawn anew
    EXPECT_EQ(workplace.run("report traces -o traces/page.html").code, 0);
  EXPECT_EQ(workplace.run("report traces -o traces/new.json").code, 0);
}

TEST(BadInput, AFolderThatAnotherRunWritesIntoIsRefused) {
  const Workplace workplace;
  set_up_tiny_job(workplace);
  workplace.write("same/.lock", "");
  const int file = ::open((workplace.path() / "same/.lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(file, LOCK_EX | LOCK_NB), 0);
  for (const char* verb :
       {"simulate --model model --cluster h100_sxm --world 2 --seq 16 --batch 1 -o same",
        "simulate --model model --cluster h100_sxm --world 2 --seq 16 --batch 1 --runtime ddp "
        "-o same",
        "plan --model model --cluster h100_sxm --world 2 --seq 16 --tokens-per-batch 64 -o same"}) {
    SCOPED_TRACE(verb);
    const Outcome outcome = workplace.run(verb);
    EXPECT_EQ(outcome.code, 3);
    EXPECT_THAT(outcome.errors, HasSubstr("same: another run is writing into this folder"));
    EXPECT_FALSE(workplace.has("same/hardware.json"));
    EXPECT_FALSE(workplace.has("same/plan.json"));
  }
  ::close(file);
  EXPECT_EQ(workplace
                .run("simulate --model model --cluster h100_sxm --world 2 --seq 16 --batch 1 "
                     "-o same")
                .code,
            0);
}

TEST(BadInput, ATraceWithoutEventsIsRefused) {
  const Workplace workplace;
  workplace.write("t.json", R"({"traceEvents": []})");
  workplace.write("names.json", R"({"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1,
                                    "tid": 0, "args": {"name": "python"}}]})");
  for (const std::string file : {"t.json", "names.json"}) {
    for (const std::string verb : {"report ", "import "}) {
      SCOPED_TRACE(verb + file);
      const Outcome outcome = workplace.run(verb + file);
      EXPECT_EQ(outcome.code, 2);
      EXPECT_THAT(outcome.errors, HasSubstr(file + ": holds no event"));
      EXPECT_FALSE(workplace.has("imported"));
    }
  }
}

/// `text` of ASCII in UTF-16 or UTF-32, with a mark of byte order or without.
std::string widened(std::string_view text, std::size_t zeros, std::string_view mark = {}) {
  std::string wide(mark);
  for (const char c : text) wide += c + std::string(zeros, '\0');
  return wide;
}

TEST(BadInput, EveryReaderNamesTheEncodingOfAWideFile) {
  const Workplace workplace;
  set_up_tiny_job(workplace);
  struct Encoding {
    std::string name;
    std::size_t zeros;
    std::string_view mark;
  };
  for (const Encoding& encoding :
       {Encoding{"UTF-16", 1, {"\xff\xfe", 2}}, Encoding{"UTF-16", 1, {}},
        Encoding{"UTF-32", 3, {"\xff\xfe\0\0", 4}}}) {
    const auto wide = [&](std::string_view text) {
      return widened(text, encoding.zeros, encoding.mark);
    };
    workplace.write("wide.json", wide("{\"fp16\": {\"enabled\": true}}\n"));
    workplace.write("wide.yaml", wide("distributed_type: FSDP\n"));
    workplace.write("wide.csv", wide("gpus,hidden\n8,4096\n"));
    const std::string simulate = "simulate --model model --world 2 --cluster h100_sxm ";
    for (const std::string& arguments :
         {std::string("lint wide.json"), std::string("lint wide.yaml"),
          simulate + "--deepspeed wide.json", simulate + "--accelerate wide.yaml",
          simulate + "--accelerate wide.json", simulate + "--training-arguments wide.json",
          simulate + "--job wide.json", std::string("report wide.json"),
          std::string("validate wide.csv")}) {
      SCOPED_TRACE(arguments + " " + encoding.name);
      const Outcome outcome = workplace.run(arguments);
      EXPECT_EQ(outcome.code, 2) << outcome.output;
      EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
      EXPECT_THAT(outcome.errors, HasSubstr("the file is " + encoding.name));
    }
  }
}

TEST(BadInput, ALoopOfLinksIsNamed) {
  const Workplace workplace;
  std::filesystem::create_symlink("b", workplace.path() / "a");
  std::filesystem::create_symlink("a", workplace.path() / "b");
  for (const char* verb : {"report a", "import a"}) {
    const Outcome outcome = workplace.run(verb);
    EXPECT_EQ(outcome.code, 3);
    EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr("Too many levels of symbolic links"));
    EXPECT_THAT(outcome.errors, ::testing::Not(HasSubstr("unexpected")));
    EXPECT_THAT(outcome.errors, ::testing::Not(HasSubstr("cannot be written")));
  }
  EXPECT_THAT(workplace.run("import a").errors, HasSubstr("import: a: cannot be read"));
}

/// Of the programs that are started meanwhile.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limited{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limited);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

// Two bytes for each of the text's some 5,000.
TEST(BadInput, ALimitOnFilesLeavesNothingHalfWritten) {
  const Workplace workplace;
  set_up_tiny_job(workplace);
  const FileSizeLimit limit(4096);
  const Outcome outcome = workplace.run("data encode text.txt -o tokens.bin");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("tokens.bin"));
  EXPECT_EQ(workplace.files(), (std::vector<std::string>{"job.json", "model", "text.txt"}));
}

struct BadFigure {
  const char* key;
  const char* value;
};

TEST(BadInput, AFigureThatNoMachineHasIsRefusedWithASentence) {
  const Workplace workplace;
  set_up_tiny_job(workplace);
  for (const BadFigure& bad :
       std::initializer_list<BadFigure>{{"memory_bandwidth", "1 B/s"},
                                        {"memory_bandwidth", "1e-300 B/s"},
                                        {"memory_bandwidth", "100000000 GB/s"},
                                        {"operation_overhead", "1e9 s"}}) {
    SCOPED_TRACE(bad.value);
    std::ifstream file(std::filesystem::path(SOURCE_ROOT) / "sim/profiles/h100_sxm.json");
    nlohmann::json profile = nlohmann::json::parse(file);
    profile[bad.key]["value"] = bad.value;
    workplace.write("cluster.json", profile.dump());
    const Outcome outcome = workplace.run("simulate --model model --cluster cluster.json");
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr("to simulate"));
    EXPECT_THAT(outcome.errors, HasSubstr(bad.key));
  }
}

TEST(BadInput, SimulateWithoutAMachineSaysHowToGetOne) {
  const Workplace workplace;
  set_up_tiny_job(workplace);
  const Outcome outcome = workplace.run("simulate --job job.json");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("shardscope calibrate"));
}

}  // namespace
}  // namespace shardscope::testing
