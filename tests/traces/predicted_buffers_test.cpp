#include "traces/predicted_buffers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/format/atomic_file.h"

namespace shardscope {
namespace {

using ::testing::HasSubstr;

/// A flat parameter that is there from the start, and an activation that operation 3 makes and
/// operation 9 is the last to need.
Schedule small_schedule() {
  Schedule schedule;
  schedule.names = {"layers.0 shard", "layers.0 \"out\""};
  schedule.units = {{.name = "layers.0"}};
  schedule.buffers = {{.name = 0,
                       .category = MemoryCategory::parameters,
                       .bytes = {1024},
                       .allocated_by = {},
                       .freed_by = {},
                       .unit = UnitId{0},
                       .owner = {}},
                      {.name = 1,
                       .category = MemoryCategory::activations,
                       .bytes = {512},
                       .allocated_by = OperationId{3},
                       .freed_by = OperationId{9},
                       .unit = {},
                       .owner = {}}};
  return schedule;
}

class BuffersFile : public ::testing::Test {
 protected:
  std::filesystem::path path_ = std::filesystem::path(::testing::TempDir()) /
                                ("buffers_" + std::to_string(::getpid()) + ".json.gz");
  void TearDown() override { std::filesystem::remove(path_); }
};

std::string error_of(std::string_view text) {
  try {
    parse_buffers(text, "buffers.json.gz");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(BuffersFile, IsReadBackAsItWasWritten) {
  const Schedule schedule = small_schedule();
  write_buffers(schedule, path_);
  EXPECT_EQ(read_buffers(path_), predicted_buffers(schedule));
}

TEST_F(BuffersFile, HasNoRowOfABufferWithoutBytes) {
  Schedule schedule = small_schedule();
  schedule.buffers.push_back(schedule.buffers.back());
  schedule.buffers.back().bytes = {};
  EXPECT_EQ(predicted_buffers(schedule), predicted_buffers(small_schedule()));
}

TEST_F(BuffersFile, ThatIsCutShortIsAnErrorNamingIt) {
  write_buffers(small_schedule(), path_);
  const std::string whole = read_whole(path_);
  write_atomically(path_, whole.substr(0, whole.size() / 2));
  EXPECT_THROW(
      {
        try {
          read_buffers(path_);
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), HasSubstr(path_.string()));
          throw;
        }
      },
      Error);
}

// What FSDP frees while it shards a model says neither when it came nor when it went.
TEST(PredictedBuffers, OfTheSetUpAreThoseThatStay) {
  Schedule schedule = small_schedule();
  schedule.program.actions = {{.kind = HostActionKind::allocate, .subject = 0},
                              {.kind = HostActionKind::free, .subject = 0},
                              {.kind = HostActionKind::allocate, .subject = 1},
                              {.kind = HostActionKind::free, .subject = 1}};
  const std::vector<PredictedBuffer> buffers = predicted_buffers(schedule);
  ASSERT_EQ(buffers.size(), 1U);
  EXPECT_EQ(buffers[0].category, MemoryCategory::activations);
}

TEST(PredictedBuffers, AreTheRowsOfTheCommandLine) {
  EXPECT_EQ(
      buffers_json(small_schedule()),
      "[{\"id\":0,\"name\":\"layers.0 shard\",\"category\":\"parameters\",\"bytes\":1024,"
      "\"allocated_by\":null,\"freed_by\":null,\"unit\":\"layers.0\"},\n"
      "{\"id\":1,\"name\":\"layers.0 \\\"out\\\"\",\"category\":\"activations\",\"bytes\":512,"
      "\"allocated_by\":3,\"freed_by\":9,\"unit\":null}]");
}

TEST(PredictedBuffers, OfAnUnknownCategoryOrNegativeSizeAreRefused) {
  EXPECT_THAT(error_of(R"({"buffers":[{"name":"a","category":"sand","bytes":1}]})"),
              HasSubstr("buffers[0].category"));
  EXPECT_THAT(error_of(R"({"buffers":[{"name":"a","category":"inputs","bytes":-1}]})"),
              HasSubstr("buffers[0].bytes"));
  EXPECT_THAT(error_of("{}"), HasSubstr("buffers"));
}

// Whatever reads them adds them up.
TEST(PredictedBuffers, OfMoreThanATebibyteAreRefused) {
  const auto of = [](const char* bytes) {
    return fmt::format(R"({{"buffers":[{{"name":"a","category":"inputs","bytes":{}}}]}})", bytes);
  };
  EXPECT_EQ(parse_buffers(of("1099511627776"), "b.json")[0].bytes, Bytes{1099511627776});
  for (const char* bytes : {"1099511627777", "9223372036854775807", "1e300"})
    EXPECT_THAT(error_of(of(bytes)), HasSubstr("buffers[0].bytes"));
}

}  // namespace
}  // namespace shardscope
