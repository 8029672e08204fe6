// Lines as NCCL 2.28 and later print them (src/enqueue.cc), with the prefix of its debug output.
#include "backend/comm/nccl/tuning_log.h"

#include <gtest/gtest.h>

#include "tests/backend/train/temporary_folder.h"

namespace shardscope {
namespace {

const std::string prefix = "host:4711:4712 [0] NCCL INFO ";

TEST(NcclTuning, ReadsKindBytesAlgorithmProtocolAndChannels) {
  const auto line = parse_nccl_tuning(
      prefix + "ReduceScatter: 524288 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={4..19}");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->kind, OperationKind::reduce_scatter);
  EXPECT_EQ(line->bytes, 512_KiB);
  EXPECT_EQ(line->choice,
            (CollectiveChoice{.algorithm = "NVLS", .protocol = "SIMPLE", .channels = 16}));
}

TEST(NcclTuning, PassesOverOtherLines) {
  for (const char* text :
       {"", "AllGather: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}",
        "x NCCL INFO Bootstrap: Using lo:127.0.0.1<0>",
        "x NCCL INFO AllGather: many Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}",
        "x NCCL INFO AllGather: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={1..0}",
        "x NCCL INFO AllGather: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1",
        "x NCCL INFO AllGather: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..99999999999}",
        // NOLINTNEXTLINE(bugprone-suspicious-missing-comma): one line of the log
        "x NCCL INFO AllGather: 99999999999999999999 Bytes -> Algo RING proto LL "
        "channel{Lo..Hi}={0..1}",
        "x NCCL INFO Knit: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}",
        "x NCCL INFO AllGather [Copy Engine]: 4096 Bytes -> cudaMemcpy"})
    EXPECT_FALSE(parse_nccl_tuning(text)) << text;
}

class NcclTuningFile : public ::testing::Test {
 protected:
  void append(const std::string& text) const { std::ofstream(file(), std::ios::app) << text; }
  std::filesystem::path file() const { return folder_.path() / "nccl.txt"; }
  static std::string line(const std::string& what, const std::string& algorithm) {
    return prefix + what + " Bytes -> Algo " + algorithm + " proto LL channel{Lo..Hi}={0..1}\n";
  }

 private:
  TemporaryFolder folder_;
};

// A gather of 4096 B on 4 ranks is one of 1024 B of each; a sum of 4096 B is that.
TEST_F(NcclTuningFile, GivesTheLastChoiceOfASizeSinceItWasAskedBefore) {
  NcclTuningLog log(file());
  EXPECT_EQ(log.last_of(OperationKind::all_gather, 4, 4096_B), CollectiveChoice{});
  append(line("AllGather: 1024", "RING") + line("AllGather: 1024", "PAT") +
         line("AllGather: 4096", "TREE") + line("AllReduce: 1024", "TREE"));
  EXPECT_EQ(log.last_of(OperationKind::all_gather, 4, 4096_B).algorithm, "PAT");
  EXPECT_EQ(log.last_of(OperationKind::all_gather, 4, 4096_B).algorithm, "");
  append(line("AllReduce: 4096", "NVLS") + "half a li");
  EXPECT_EQ(log.last_of(OperationKind::all_reduce, 4, 4096_B).algorithm, "NVLS");
}

}  // namespace
}  // namespace shardscope
