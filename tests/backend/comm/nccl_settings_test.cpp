#include "backend/comm/nccl/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope {
namespace {

using ::testing::IsSupersetOf;
using ::testing::Pair;

TEST(NcclSettings, KeepTheProgramsOrderAndHearWhatNcclDoes) {
  EXPECT_THAT(nccl_defaults({.rank = 1}),
              ::testing::ElementsAre(Pair("NCCL_LAUNCH_ORDER_IMPLICIT", "1"),
                                     Pair("NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN")));
}

TEST(NcclSettings, PinAlgorithmAndProtocolWhereSumsMustRepeat) {
  EXPECT_THAT(nccl_defaults({.deterministic = true}),
              IsSupersetOf({Pair("NCCL_ALGO", "Ring"), Pair("NCCL_PROTO", "Simple")}));
}

// NCCL 2.28 compares host and bus: ranks of one GPU must not look like those of one host.
TEST(NcclSettings, RanksThatShareAGpuLookLikeHostsOfTheirOwn) {
  const Variables first = nccl_defaults({.rank = 0, .shares_gpu = true});
  const Variables second = nccl_defaults({.rank = 1, .shares_gpu = true});
  EXPECT_NE(first.at("NCCL_HOSTID"), second.at("NCCL_HOSTID"));
  EXPECT_THAT(first, IsSupersetOf({Pair("NCCL_SOCKET_IFNAME", "lo"), Pair("NCCL_NET", "Socket"),
                                   Pair("NCCL_ALGO", "Ring")}));
}

// The loopback interface reaches no other host.
TEST(NcclSettings, OnSeveralHostsTheInterfaceIsNcclsChoice) {
  EXPECT_EQ(nccl_defaults({.shares_gpu = true, .on_one_host = false}).count("NCCL_SOCKET_IFNAME"),
            0u);
}

TEST(NcclSettings, OfTheUserComeFirst) {
  ::setenv("NCCL_SHARDSCOPE_TEST", "mine", 1);
  set_missing({{"NCCL_SHARDSCOPE_TEST", "ours"}, {"NCCL_SHARDSCOPE_TEST_2", "ours"}});
  const Variables now = process_variables();
  EXPECT_EQ(now.at("NCCL_SHARDSCOPE_TEST"), "mine");
  EXPECT_EQ(now.at("NCCL_SHARDSCOPE_TEST_2"), "ours");
  ::unsetenv("NCCL_SHARDSCOPE_TEST");
  ::unsetenv("NCCL_SHARDSCOPE_TEST_2");
}

TEST(NcclSettings, AreRecordedByName) {
  EXPECT_EQ(nccl_variables_text({{"NCCL_NET", "Socket"}, {"HOME", "x"}, {"NCCL_ALGO", "Ring"}}),
            "NCCL_ALGO=Ring NCCL_NET=Socket");
}

}  // namespace
}  // namespace shardscope
