// Step time and memory from the files of TensorBoard, Weights & Biases, nvidia-smi and Slurm.
#include "traces/measured/measured_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "traces/measured/metric_log.h"
#include "traces/measured/protobuf_reader.h"

namespace shardscope {
namespace {

using namespace literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::filesystem::path folder = std::filesystem::path(SOURCE_ROOT) / "tests/data/measured";
const char* const event_file = "events.out.tfevents.1700000000.host.1.0";
const char* const wandb_file = "run-p0ad7ai4.wandb";

MetricLog log_of(const std::string& name) { return read_metric_logs(folder / name).front(); }
MeasuredRun run_of(const std::string& name) {
  return measured_run(read_metric_logs(folder / name));
}

const MetricSeries* series(const MetricLog& log, const std::string& name) {
  for (const MetricSeries& one : log.series)
    if (one.name == name) return &one;
  return nullptr;
}

// 08 96 01 is field 1 = 150, of the documentation of the encoding.
TEST(ProtobufReader, ReadsAVarint) {
  ProtobufReader reader("\x08\x96\x01");
  const auto field = reader.next();
  ASSERT_TRUE(field);
  EXPECT_EQ(field->number, 1U);
  EXPECT_EQ(field->value, 150U);
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.is_broken());
}

// Field 2 claims 7 bytes, of which 3 are there.
TEST(ProtobufReader, StopsAtALengthBeyondTheEnd) {
  ProtobufReader reader(
      "\x12\x07"
      "tes");
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.is_broken());
}

TEST(EventFile, HasTheScalarsOfBothStyles) {
  const MetricLog log = log_of(event_file);
  EXPECT_EQ(log.format, MetricFormat::tensorboard);
  EXPECT_THAT(log.notes, IsEmpty());
  const MetricSeries* loss = series(log, "train/loss");
  ASSERT_NE(loss, nullptr);
  ASSERT_THAT(loss->points, SizeIs(12));
  EXPECT_EQ(loss->points[1], (MetricPoint{.step = 20, .time_s = 1700000030.0, .value = 3.875}));
  const MetricSeries* reserved = series(log, "memory/max_reserved(GiB)");
  ASSERT_NE(reserved, nullptr);
  ASSERT_THAT(reserved->points, SizeIs(11));
  EXPECT_EQ(reserved->points[0].value, 10.25);  // a tensor
  EXPECT_EQ(reserved->points[1].value, 10.5);   // a simple value
}

TEST(EventFile, ThatIsCutOffGivesWhatIsLeft) {
  const std::string whole = read_whole(folder / event_file);
  const MetricLog log = read_metric_log(whole.substr(0, whole.size() - 10), "cut");
  EXPECT_THAT(series(log, "train/loss")->points, SizeIs(12));
  EXPECT_THAT(series(log, "memory/max_reserved(GiB)")->points, SizeIs(10));
  EXPECT_THAT(log.notes, ElementsAre(HasSubstr("is cut off or damaged")));
}

TEST(EventFile, PassesOverARecordWithAWrongChecksum) {
  std::string bytes = read_whole(folder / event_file);
  const std::size_t at = bytes.find("train/loss");
  bytes[at] = 'T';
  const MetricLog log = read_metric_log(bytes, "damaged");
  EXPECT_THAT(series(log, "train/loss")->points, SizeIs(11));
  EXPECT_THAT(log.notes, ElementsAre("1 records with a wrong checksum were passed over"));
}

// 11 intervals of 10 steps: 30 s, then nine of 4 s and one of 9 s. The first is left out.
TEST(MeasuredRun, TakesTheMedianTimeBetweenEntries) {
  const MeasuredRun run = run_of(event_file);
  ASSERT_TRUE(run.step_time);
  EXPECT_EQ(run.step_time->median, 400_ms);
  EXPECT_EQ(run.step_time->low, 400_ms);
  EXPECT_EQ(run.step_time->intervals, 10);
  EXPECT_THAT(run.step_time->source, HasSubstr("between the entries of train/loss"));
  ASSERT_THAT(run.memory, SizeIs(1));
  EXPECT_EQ(run.memory[0].kind, MeasuredMemoryKind::reserved);
  EXPECT_EQ(run.memory[0].bytes, 11_GiB);
  EXPECT_EQ(run.memory[0].samples, 11);
}

TEST(WandbFile, TakesTheTrainersStepAndNotTheNumberOfTheCall) {
  const MetricLog log = log_of(wandb_file);
  EXPECT_EQ(log.format, MetricFormat::wandb);
  const MetricSeries* loss = series(log, "train/loss");
  ASSERT_NE(loss, nullptr);
  ASSERT_THAT(loss->points, SizeIs(8));
  EXPECT_EQ(loss->points[0],
            (MetricPoint{.step = 10, .time_s = 1.7956467674457042e+09, .value = 4}));
  EXPECT_EQ(loss->points[7].step, 80);
  EXPECT_EQ(loss->points[7].value, 3.125);
}

TEST(WandbFile, WithADamagedPieceLosesThatRow) {
  std::string bytes = read_whole(folder / wandb_file);
  for (std::size_t at = bytes.find("3.875"); at != bytes.npos; at = bytes.find("3.875", at))
    bytes[at + 1] = ':';  // in the row, and in the summary that follows it
  const MetricLog log = read_metric_log(bytes, "damaged");
  EXPECT_THAT(series(log, "train/loss")->points, SizeIs(7));
  EXPECT_THAT(log.notes, ElementsAre("2 damaged pieces were passed over"));
}

// Differences of wandb's own _timestamp, over 10 steps each, without the first: 20293665, 20300078,
// 20354223, 20403051, 20447993 and 20860243 ns. Times of 1.8e9 s in a double are good to 240 ns.
TEST(MeasuredRun, OfWandbIsTheTimeBetweenRows) {
  const MeasuredRun run = run_of(wandb_file);
  ASSERT_TRUE(run.step_time);
  EXPECT_EQ(run.step_time->intervals, 6);
  EXPECT_NEAR(static_cast<double>(run.step_time->median.ns), 20354223, 50);
}

TEST(SmiLog, HasTheHighestUseOfTheGpuThatHasMost) {
  const MeasuredRun run = run_of("nvidia_smi.csv");
  EXPECT_FALSE(run.step_time);
  ASSERT_THAT(run.memory, SizeIs(1));
  EXPECT_EQ(run.memory[0].kind, MeasuredMemoryKind::device);
  EXPECT_EQ(run.memory[0].bytes, 31744_MiB);
  EXPECT_EQ(run.memory[0].samples, 2);
  EXPECT_THAT(run.memory[0].source, HasSubstr("gpu.1.memory.used [MiB]"));
  EXPECT_THAT(run.notes, ElementsAre(HasSubstr("1 lines that are no row")));
}

TEST(SmiLog, OfDmonCountsInMebibytes) {
  const MeasuredRun run = run_of("dmon.txt");
  ASSERT_THAT(run.memory, SizeIs(1));
  EXPECT_EQ(run.memory[0].bytes, 11660_MiB);
  EXPECT_THAT(run.memory[0].source, HasSubstr("gpu.0.fb"));
}

// 1 day, 2 h, 3 min, 4 s; of the steps the one with most.
TEST(Sacct, HasElapsedTimeAndTheMemoryOfGpuAndHost) {
  const MeasuredRun run = run_of("sacct_parsable2.txt");
  EXPECT_EQ(run.elapsed, 93784_s);
  ASSERT_THAT(run.memory, SizeIs(2));
  EXPECT_EQ(run.memory[0].kind, MeasuredMemoryKind::device);
  EXPECT_EQ(run.memory[0].bytes, 40536_MiB);
  EXPECT_EQ(run.memory[1].kind, MeasuredMemoryKind::host);
  EXPECT_EQ(run.memory[1].bytes, 12_GiB);
}

TEST(Sacct, IsReadAsATable) {
  const MeasuredRun run = run_of("sacct_table.txt");
  EXPECT_EQ(run.elapsed, 600_s);
  ASSERT_THAT(run.memory, SizeIs(1));
  EXPECT_EQ(run.memory[0].bytes, 123456_KiB);
}

TEST(MeasuredRun, PrefersASeriesThatSaysTheStepTime) {
  MetricLog log{.file = "a", .format = MetricFormat::tensorboard, .series = {}, .notes = {}};
  MetricSeries loss{.name = "loss", .points = {}}, time{.name = "perf/step_time_ms", .points = {}};
  for (int i = 0; i < 5; ++i) {
    loss.points.push_back({.step = i, .time_s = i * 10.0, .value = 1});
    time.points.push_back({.step = i, .time_s = i * 10.0, .value = i == 0 ? 900.0 : 200.0 + i});
  }
  log.series = {loss, time};
  const MeasuredRun run = measured_run({log});
  ASSERT_TRUE(run.step_time);
  EXPECT_EQ(run.step_time->median, 202_ms);  // of 201, 202, 203, 204: the lower middle
  EXPECT_EQ(run.step_time->source, "a: perf/step_time_ms");
}

TEST(MeasuredRun, LeavesOutMemoryWithoutAUnit) {
  MetricLog log{.file = "a", .format = MetricFormat::tensorboard, .series = {}, .notes = {}};
  log.series = {{.name = "memory/max_reserved", .points = {{.step = 1, .time_s = 1, .value = 11}}}};
  const MeasuredRun run = measured_run({log});
  EXPECT_THAT(run.memory, IsEmpty());
  EXPECT_THAT(run.notes,
              ElementsAre("a: memory/max_reserved says no unit, so that it was left out"));
}

TEST(MetricLog, RefusesWhatIsNobodys) {
  try {
    read_metric_log("loss 3.2\n", "log.txt");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.parts().where, "log.txt");
    EXPECT_EQ(error.code(), ExitCode::bad_input);
  }
}

TEST(MetricLog, OfAFolderIsEveryLogInIt) {
  const std::vector<MetricLog> logs = read_metric_logs(folder);
  ASSERT_THAT(logs, SizeIs(2));  // neither the CSV nor Slurm's: their names say nothing
  EXPECT_EQ(logs[0].format, MetricFormat::tensorboard);
  EXPECT_EQ(logs[1].format, MetricFormat::wandb);
}

}  // namespace
}  // namespace shardscope
