// What Megatron-LM d98e8a6 asserts, raises and warns of about a command line: megatron/training/
// arguments.py (validate_args) and core/transformer/transformer_config.py.
#include "core/config/megatron/lint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/config/lint.h"

namespace shardscope::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Everything that Megatron-LM asks for.
constexpr std::string_view whole =
    "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
    "x --num-layers 4 --hidden-size 256 --num-attention-heads 8 --seq-length 512 "
    "--max-position-embeddings 512 --micro-batch-size 1 ";

/// "error 3 --num-experts refused".
std::vector<std::string> lines(const std::vector<Finding>& findings) {
  std::vector<std::string> result;
  for (const Finding& one : findings)
    result.push_back(std::string(name_of(one.severity)) + " " + std::to_string(one.line) + " " +
                     one.key + " " + one.rule);
  return result;
}

std::vector<std::string> lint_of(std::string_view flags,
                                 std::optional<std::int64_t> world = std::nullopt) {
  return lines(
      megatron::lint_command_line(std::string(whole) + std::string(flags), "run.sh", world));
}

TEST(MegatronLint, FindsNothingInAWholeCommandLine) {
  EXPECT_THAT(lint_of(""), IsEmpty());
  EXPECT_THAT(lint_of("--tensor-model-parallel-size 2 --sequence-parallel "
                      "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather "
                      "--global-batch-size 64",
                      16),
              IsEmpty());
}

TEST(MegatronLint, FindsWhatMegatronRefuses) {
  const auto refuses = [](std::string_view flags, const std::string& key) {
    EXPECT_THAT(lint_of(flags, 8), Contains("error 2 " + key + " refused")) << flags;
  };
  refuses("--overlap-param-gather --overlap-grad-reduce", "--overlap-param-gather");
  refuses("--overlap-param-gather --use-distributed-optimizer", "--overlap-param-gather");
  refuses("--fp16 --bf16", "--fp16");
  refuses("--recompute-granularity full", "--recompute-granularity");
  refuses("--recompute-activations --recompute-num-layers 1", "--recompute-num-layers");
  refuses("--distribute-saved-activations", "--distribute-saved-activations");
  refuses("--pipeline-model-parallel-size 8", "--pipeline-model-parallel-size");
  EXPECT_THAT(lint_of("--tensor-model-parallel-size 8", 4), ElementsAre("error 0 --world refused"));
  refuses("--tensor-model-parallel-size 2 --tp-comm-overlap", "--tp-comm-overlap");
  refuses("--context-parallel-size 8 --seq-length 520 --max-position-embeddings 520",
          "--context-parallel-size");
  refuses("--expert-model-parallel-size 2", "--expert-model-parallel-size");
  refuses("--moe-ffn-hidden-size 2", "--moe-ffn-hidden-size");
  refuses("--global-batch-size 12", "--global-batch-size");
  refuses("--seq-length 1024", "--max-position-embeddings");
  refuses("--no-position-embedding", "--no-position-embedding");
  refuses("--model-parallel-size 2", "--model-parallel-size");
}

TEST(MegatronLint, FindsAllOfThem) {
  EXPECT_THAT(lint_of("--tensor-model-parallel-size 3 --overlap-param-gather", 6),
              ElementsAre("error 2 --tensor-model-parallel-size refused",
                          "error 2 --tensor-model-parallel-size refused",
                          "error 2 --tensor-model-parallel-size refused",
                          "error 2 --overlap-param-gather refused",
                          "error 2 --overlap-param-gather refused"));
}

TEST(MegatronLint, LooksOnBesideANoteOrARefusal) {
  const std::string refused = "error 2 --overlap-param-gather refused";
  for (const char* flag : {"--use-megatron-fsdp", "--fp16 --bf16", "--frobnicate 3"})
    EXPECT_THAT(lint_of(std::string("--overlap-param-gather --overlap-grad-reduce ") + flag),
                Contains(refused))
        << flag;
  // What cannot be read leaves a default, of which nothing is said.
  EXPECT_THAT(lint_of("--overlap-param-gather --overlap-grad-reduce --num-query-groups $GROUPS "
                      "--group-query-attention"),
              ElementsAre("error 2 --num-query-groups refused"));
}

TEST(MegatronLint, WarnsOfWhatMegatronPassesOver) {
  EXPECT_THAT(lint_of("--sequence-parallel"),
              ElementsAre("warning 2 --sequence-parallel ignored-key"));
  EXPECT_THAT(lint_of("--num-query-groups 2"),
              ElementsAre("warning 2 --num-query-groups ignored-key"));
  EXPECT_THAT(lint_of("--use-rotary-position-embeddings"),
              ElementsAre("warning 2 --use-rotary-position-embeddings deprecated-key"));
  EXPECT_THAT(lint_of("--use-mcore-models"),
              ElementsAre("warning 2 --use-mcore-models deprecated-key"));
  EXPECT_THAT(lint_of("--seq-length 256"), ElementsAre("warning 2 --seq-length several-values"));
}

TEST(MegatronLint, NotesWhatIsNotKnownOrNotPredicted) {
  EXPECT_THAT(lint_of("--frobnicate 3"), ElementsAre("note 2 --frobnicate unknown-key"));
  EXPECT_THAT(lint_of("--use-megatron-fsdp"),
              ElementsAre("note 2 --use-megatron-fsdp not-modelled"));
  EXPECT_THAT(lint_of("--num-experts 8"), ElementsAre("note 2 --num-experts not-modelled"));
}

// Megatron-LM has no such limits: they are of what is predicted here.
TEST(MegatronLint, NotesWhatIsTooLargeToPredict) {
  const auto notes = [](std::string_view flags, const std::string& key, std::int64_t world) {
    EXPECT_THAT(lint_of(flags, world), Contains("note 2 " + key + " not-modelled")) << flags;
    EXPECT_THAT(lint_of(flags, world), ::testing::Each(::testing::Not(HasSubstr("refused"))))
        << flags;
  };
  notes("--num-layers 1025", "--num-layers", 1);
  notes("--global-batch-size 262145", "--global-batch-size", 1);
  notes("--attention-backend unfused --seq-length 1048576 --max-position-embeddings 1048576",
        "--seq-length", 1);
  notes("--swiglu --num-experts 16384 --moe-ffn-hidden-size 1025", "--num-experts", 1);
  EXPECT_THAT(lint_of("--swiglu --num-experts 8 --moe-router-topk 9", 1),
              Contains("error 2 --moe-router-topk refused"));
}

// The number of ranks is not known, so that it is in no finding.
TEST(MegatronLint, LeavesRanksOutThatNobodySaid) {
  EXPECT_THAT(lint_of("--tensor-model-parallel-size 8 --global-batch-size 12"), IsEmpty());
  EXPECT_THAT(lint_of("--global-batch-size 12 --nproc-per-node 8"),
              ElementsAre("error 2 --global-batch-size refused"));
}

TEST(MegatronLint, AsksForTheConnectionsOfTensorParallelism) {
  const auto rules = [](const std::string& script) {
    return lines(megatron::lint_command_line(script, "run.sh", std::nullopt));
  };
  const std::string flags(whole.substr(whole.find('\n')));
  EXPECT_THAT(rules(flags), IsEmpty());
  EXPECT_THAT(rules(flags + "--tensor-model-parallel-size 2"),
              ElementsAre("warning 0  max-connections"));
  EXPECT_THAT(rules("CUDA_DEVICE_MAX_CONNECTIONS=8" + flags + "--context-parallel-size 2"),
              ElementsAre("warning 0  max-connections"));
}

TEST(MegatronLint, AsksForWhatIsMissingUnlessTheCallerMaySayIt) {
  const auto rules = [](std::string_view script) {
    return lines(megatron::lint_command_line(script, "run.sh", std::nullopt));
  };
  constexpr std::string_view shape =
      "x --num-layers 4 --hidden-size 256 --num-attention-heads 8 --seq-length 512 ";
  EXPECT_THAT(rules(shape), ElementsAre("error 0 --max-position-embeddings missing-key",
                                        "error 0 --micro-batch-size missing-key"));
  EXPECT_THAT(rules(std::string(shape) + "\"$@\""), IsEmpty());
}

TEST(MegatronLint, IsPartOfLint) {
  const ConfigFile file{
      .path = "run.sh", .kind = ConfigKind::megatron, .text = std::string(whole) + "--fp16 --bf16"};
  EXPECT_THAT(lines(lint(file, {})), ElementsAre("error 2 --fp16 refused"));
  const ConfigFile large{.path = "run.sh",
                         .kind = ConfigKind::megatron,
                         .text = std::string(std::size_t{5} << 20, 'a')};
  ASSERT_EQ(lint(large, {}).size(), 1u);
  EXPECT_THAT(lint(large, {}).front().message, HasSubstr("has 5242880 bytes"));
}

}  // namespace
}  // namespace shardscope::testing
