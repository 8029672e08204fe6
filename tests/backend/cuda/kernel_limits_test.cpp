// Every launch of large training steps, and every kernel as the compiler left it, against what
// sm_80 and sm_90 have. Source of the limits: CUDA C++ Programming Guide 13.0, "Technical
// Specifications per Compute Capability".
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "backend/cuda/cuda_target.h"
#include "core/model/read_model.h"
#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"
#include "core/schedule/schedule.h"
#include "tests/backend/cuda/kernel_report.h"
#include "tests/backend/cuda/launch_record.h"

namespace shardscope::test {
namespace {

struct ArchitectureLimits {
  std::string_view name;
  std::int64_t shared_bytes_of_block;  ///< dynamic, opted in
  std::int64_t argument_offset;        ///< where arguments begin in constant bank 0
};
constexpr ArchitectureLimits architectures[] = {{"sm_80", 163 << 10, 352},
                                                {"sm_90", 227 << 10, 528}};
constexpr std::int64_t most_blocks = (std::int64_t{1} << 31) - 1;
constexpr int most_threads = 1024;
constexpr std::int64_t most_argument_bytes = 4096;
constexpr std::int64_t registers_of_multiprocessor = 65536;
constexpr std::int64_t most_registers_of_thread = 255;
constexpr std::int64_t static_shared_bytes_of_block = 48 << 10;
/// A few values of a thread in its local memory cost nothing that shows; more is a kernel whose
/// tile is too large.
constexpr std::int64_t tolerated_local_bytes = 64;

struct Training {
  const char* config;
  std::int64_t batch;
  std::int64_t length;
  Precision precision;
};

Schedule schedule_of(const Training& training, OptimizerKind optimizer) {
  const Model model = read_model(std::string(SHARDSCOPE_SOURCE) + "/" + training.config);
  const Strategy strategy = resolved(
      {.sharding = ShardingStrategy::full_shard, .precision = training.precision}, 8, "test");
  const Workload workload{.batch = training.batch,
                          .length = training.length,
                          .micro_batches = 2,
                          .optimizer = {.kind = optimizer, .momentum = 0.9},
                          .clip = 1};
  return native_schedule(model, strategy, workload, 0, cuda_target(false));
}

/// The largest that people train this way, and a small odd one.
std::vector<Launch> all_launches() {
  static const std::vector<Launch> launches = [] {
    std::vector<Launch> found;
    for (const Training& training :
         {Training{"tests/gpu/models/gpt2_124m", 64, 1024, Precision::bf16_mixed},
          Training{"tests/gpu/models/gpt2_1558m", 32, 1024, Precision::bf16},
          Training{"examples/models/llama_3_8b", 4, 8192, Precision::bf16_mixed},
          Training{"examples/models/qwen2_5_0_5b", 1, 37, Precision::fp32}}) {
      for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::sgd}) {
        const Schedule schedule = schedule_of(training, optimizer);
        for (const Operation& operation : schedule.operations) {
          if (operation.kind != OperationKind::compute &&
              operation.kind != OperationKind::optimizer)
            continue;
          const std::vector<Launch> more = launches_of(schedule, operation);
          found.insert(found.end(), more.begin(), more.end());
        }
      }
    }
    return found;
  }();
  return launches;
}

std::vector<KernelReport> reports() { return read_kernel_reports(SHARDSCOPE_KERNEL_REPORTS); }

TEST(LaunchGeometry, IsWithinWhatEveryArchitectureTakes) {
  ASSERT_FALSE(all_launches().empty());
  for (const Launch& launch : all_launches()) {
    const cuda::LaunchShape& shape = launch.shape;
    EXPECT_GE(shape.blocks, 1) << launch.body;
    EXPECT_LE(shape.blocks, most_blocks) << launch.body;
    EXPECT_EQ(shape.threads % cuda::warp_size, 0) << launch.body;
    EXPECT_LE(shape.threads, std::min(launch.most_threads, most_threads)) << launch.body;
    EXPECT_LE(launch.argument_bytes, most_argument_bytes) << launch.body;
    for (const ArchitectureLimits& limits : architectures)
      EXPECT_LE(shape.shared_bytes, limits.shared_bytes_of_block) << launch.body << limits.name;
  }
}

TEST(KernelReport, ReadsWhatPtxasWrites) {
  const std::vector<KernelReport> read = parse_kernel_report(
      "ptxas info    : 272 bytes gmem, 16 bytes cmem[4]\n"
      "ptxas info    : Compiling entry function '_Z4copyPfS_' for 'sm_90'\n"
      "ptxas info    : Function properties for _Z4copyPfS_\n"
      "    40 bytes stack frame, 16 bytes spill stores, 32 bytes spill loads\n"
      "ptxas info    : Used 48 registers, used 1 barriers, 1024 bytes smem, 544 bytes cmem[0]\n");
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].function, "copy(float*, float*)");
  EXPECT_EQ(read[0].architecture, "sm_90");
  EXPECT_EQ(read[0].registers, 48);
  EXPECT_EQ(read[0].stack_bytes, 40);
  EXPECT_EQ(read[0].spill_bytes, 16);
  EXPECT_EQ(read[0].shared_bytes, 1024);
  EXPECT_EQ(read[0].argument_bytes, 544);
}

/// Registers, shared memory and spills as compiled.
class CompiledKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (reports_.empty())
      GTEST_SKIP() << "no report of ptxas here: this build was made without the CUDA toolkit";
  }
  const std::vector<KernelReport> reports_ = reports();
};

TEST_F(CompiledKernels, StayWithinEachArchitecture) {
  for (const KernelReport& report : reports_) {
    const auto limits =
        std::ranges::find(architectures, report.architecture, &ArchitectureLimits::name);
    if (limits == std::end(architectures)) continue;  // built for another one as well
    EXPECT_LE(report.registers, most_registers_of_thread) << report.function;
    EXPECT_LE(report.shared_bytes, static_shared_bytes_of_block) << report.function;
    EXPECT_LE(report.argument_bytes - limits->argument_offset, most_argument_bytes)
        << report.function;
  }
}

TEST_F(CompiledKernels, KeepTheirValuesInRegisters) {
  for (const KernelReport& report : reports_) {
    EXPECT_LE(report.spill_bytes, tolerated_local_bytes)
        << report.function << " for " << report.architecture;
    EXPECT_LE(report.stack_bytes, tolerated_local_bytes)
        << report.function << " for " << report.architecture;
  }
}

TEST_F(CompiledKernels, ThatStepsLaunchAreThereAndHaveRegistersForTheirThreads) {
  std::map<std::pair<std::string, std::string>, std::int64_t> registers;
  for (const KernelReport& report : reports_)
    registers[{report.function, report.architecture}] = report.registers;
  for (const Launch& launch : all_launches()) {
    const std::string function = fmt::format("void shardscope::cuda::start<{0}{1}>({0})",
                                             launch.body, launch.body.back() == '>' ? " " : "");
    for (const ArchitectureLimits& limits : architectures) {
      const auto found = registers.find({function, std::string(limits.name)});
      ASSERT_NE(found, registers.end()) << function << " for " << limits.name;
      // Given out to whole warps, 8 a thread at a time.
      EXPECT_LE((found->second + 7) / 8 * 8 * launch.shape.threads, registers_of_multiprocessor)
          << function << " for " << limits.name;
    }
  }
}

}  // namespace
}  // namespace shardscope::test
