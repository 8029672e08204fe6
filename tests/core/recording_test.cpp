#include "core/recording/recorded_schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/recording/event_log.h"
#include "core/recording/recorded_operator.h"
#include "core/recording/recorded_order.h"
#include "core/schedule/host_layout.h"
#include "core/schedule/private_pool.h"
#include "tests/core/complaint.h"
#include "tests/core/temporary_folder.h"

namespace shardscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(TensorsOf, ReadsTypesSizesAndStrides) {
  const auto tensors = tensors_of("bf16[4,8]/1,4;3;{f32[2] f32[2]};cpu:i64[1];_;True;f32[]");
  ASSERT_EQ(tensors.size(), 5u);
  EXPECT_EQ(tensors[0].dtype, Dtype::bfloat16);
  EXPECT_THAT(tensors[0].sizes, ElementsAre(4, 8));
  EXPECT_THAT(tensors[0].strides, ElementsAre(1, 4));
  EXPECT_EQ(tensors[0].bytes(), 64_B);
  EXPECT_FALSE(tensors[3].on_device);
  EXPECT_THAT(tensors[4].sizes, IsEmpty());
  EXPECT_EQ(tensors[4].bytes(), 4_B);
  // Expanded: 8 rows that are one.
  EXPECT_EQ(tensors_of("f32[8,16]/0,1").front().bytes(), 64_B);
  EXPECT_THAT(tensors_of("[;]{;bf16[;]"), IsEmpty());
}

TEST(OperatorName, IsThatOfTheOverload) {
  EXPECT_EQ(operator_name("aten::mm"), "aten.mm.default");
  EXPECT_EQ(operator_name("aten::add_.Tensor"), "aten.add_.Tensor");
  EXPECT_EQ(operator_name("CompiledFunction"), "CompiledFunction");
}

TEST(ShapesText, LeavesOutNumbersAndWhatHasNoDimension) {
  EXPECT_EQ(shapes_text("bf16[4,8];3;{f32[2] f32[5,1]/1,1};f32[];cpu:i64[7]"), "4x8 2 5x1 7");
}

TEST(WorkOf, AProductIsWhatCublasWasAskedFor) {
  const DeviceWork work =
      work_of(RecordedProduct{.shape = {.batch = 1, .m = 2, .n = 4, .k = 8}, .type = 14});
  EXPECT_EQ(work.kind, WorkKind::matmul);
  EXPECT_EQ(work.dtype, Dtype::bfloat16);
  EXPECT_EQ(work.flops.count, 2 * 2 * 4 * 8);
  EXPECT_EQ(work.bytes, 2_B * (32 + 16 + 8));
}

// CUTLASS's kernels: 8192 tokens of 4096 numbers among 8 experts of 4096 x 28672, and the gradient
// of these weights. Of 8 bits: 100 x 64 by 64 x 32, whose scales follow.
TEST(WorkOf, AProductThatIsNotCublassHasTheShapesOfItsTensors) {
  const auto work = [](const char* name, const char* inputs, const char* output) {
    return work_of({.name = name, .inputs = tensors_of(inputs), .outputs = tensors_of(output)}, 2);
  };
  const DeviceWork forward = work("aten._grouped_mm.default",
                                  "bf16[8192,4096];bf16[8,4096,28672];i32[8]", "bf16[8192,28672]");
  EXPECT_EQ(forward.matmul, (MatmulShape{.batch = 8, .m = 1024, .n = 28672, .k = 4096}));
  EXPECT_EQ(forward.flops.count, std::int64_t{2} * 8192 * 4096 * 28672);
  EXPECT_EQ(forward.launches, 2);
  const DeviceWork gradient = work("aten._grouped_mm.default",
                                   "bf16[4096,8192];bf16[8192,28672];i32[8]", "bf16[8,4096,28672]");
  EXPECT_EQ(gradient.matmul, (MatmulShape{.batch = 8, .m = 4096, .n = 28672, .k = 1024}));
  const DeviceWork eight =
      work("aten._scaled_mm.default", "f8e4m3[100,64];f8e4m3[64,32];f32[100,1];f32[1,32]",
           "bf16[100,32]");
  EXPECT_EQ(eight.matmul, (MatmulShape{.batch = 1, .m = 100, .n = 32, .k = 64}));
  EXPECT_EQ(eight.dtype, Dtype::uint8);
  const DeviceWork damaged =
      work("aten.mm.default", "bf16[1,2,3,4,5,6,7,8,9];bf16[2]", "bf16[2,2]");
  EXPECT_EQ(damaged.matmul, MatmulShape{});
  const DeviceWork huge = work("aten.mm.default", "bf16[2000000000,2000000000];bf16[2000000000,9]",
                               "bf16[2000000000,9]");
  EXPECT_EQ(huge.matmul, MatmulShape{});
}

// By the bytes that it moves: 6 edges of 16 + 4 bytes, 5 rows of 2 numbers are read, as many added
// to and written.
TEST(WorkOf, ASparseProductHasNoRowsAndColumns) {
  const DeviceWork work = work_of({.name = "aten.addmm.default",
                                   .inputs = tensors_of("f32[5,2];i64[2,6] f32[6];f32[5,2];1;1"),
                                   .outputs = tensors_of("f32[5,2]")},
                                  1);
  EXPECT_EQ(work.matmul, MatmulShape{});
  EXPECT_EQ(work.bytes, 6 * 20_B + 3 * 40_B);
  EXPECT_EQ(work.kind, WorkKind::pointwise);
}

// 2 images of 16 x 16, 8 channels to 32 by 3 x 3: 512 places, 72 numbers each, as torch's flop
// counter has it. The backward makes two gradients; four groups have a quarter each; of a group
// with one channel nothing is multiplied by a matrix.
TEST(WorkOf, AConvolutionIsAProductOfItsPlaces) {
  const auto work = [](const char* name, const char* inputs, const char* outputs) {
    return work_of(recorded_call(name, inputs, outputs), 1);
  };
  const DeviceWork forward =
      work("aten.cudnn_convolution.default",
           "bf16[2,8,16,16];bf16[32,8,3,3];_;_;_;1;False;False;True", "bf16[2,32,16,16]");
  EXPECT_EQ(forward.matmul, (MatmulShape{.batch = 1, .m = 512, .n = 32, .k = 72}));
  EXPECT_EQ(forward.flops.count, 2 * 512 * 32 * 72);
  EXPECT_EQ(forward.bytes, 2 * (4096_B + 2304_B + 16384_B));
  EXPECT_EQ(forward.convolution.channels, 8);
  const DeviceWork backward =
      work("aten.convolution_backward.default",
           "f32[2,32,16,16];f32[2,8,16,16];f32[32,8,3,3];_;_;_;_;False;_;1;_",
           "f32[2,8,16,16];f32[32,8,3,3];f32[32]");
  EXPECT_EQ(backward.flops.count, 2 * forward.flops.count);
  const DeviceWork grouped =
      work("aten.cudnn_convolution.default",
           "bf16[2,32,16,16];bf16[32,8,3,3];_;_;_;4;False;False;True", "bf16[2,32,16,16]");
  EXPECT_EQ(grouped.matmul, (MatmulShape{.batch = 4, .m = 512, .n = 8, .k = 72}));
  const DeviceWork wider =
      work("aten.cudnn_convolution_transpose.default",
           "f16[2,8,16,16];f16[8,4,2,2];_;_;_;_;1;False;False;True", "f16[2,4,32,32]");
  EXPECT_EQ(wider.flops.count, 2 * 512 * 8 * 16);
  const DeviceWork depthwise =
      work("aten.cudnn_convolution.default",
           "bf16[2,8,16,16];bf16[8,1,3,3];_;_;_;8;False;False;True", "bf16[2,8,16,16]");
  EXPECT_EQ(depthwise.convolution.channels, 0);
}

// 16-bit tensors of 4096, 2304 and 16384 numbers have their channels last only once they are
// copied. A gradient's product takes two of input, weight and output, and makes the third. A kernel
// of one place leaves an image of 16 x 16 the matrix that it is; one of 3 x 3 places with rows of
// 18 bytes, or every second place, does not.
TEST(WorkOf, AConvolutionWhoseChannelsAreNotLastCopiesItsTensors) {
  const auto shape = [](const char* name, const char* inputs, const char* outputs) {
    return work_of(recorded_call(name, inputs, outputs), 1);
  };
  const char* const forward = "aten.cudnn_convolution.default";
  const DeviceWork first =
      shape(forward, "bf16[2,8,16,16];bf16[32,8,3,3];_;_;_;1;False;False;True", "bf16[2,32,16,16]");
  EXPECT_EQ(first.convolution.rearrangements, 3);
  EXPECT_EQ(first.convolution.rearranged, 2 * (4096_B + 2304_B + 16384_B));
  const DeviceWork last = shape(
      forward, "bf16[2,8,16,16]/2048,1,128,8;bf16[32,8,3,3]/72,1,24,8;_;_;_;1;False;False;True",
      "bf16[2,32,16,16]/8192,1,512,32");
  EXPECT_EQ(last.convolution.rearrangements, 0);
  const DeviceWork backward =
      shape("aten.convolution_backward.default",
            "bf16[2,32,16,16];bf16[2,8,16,16];bf16[32,8,3,3];_;_;_;_;False;_;1;_",
            "bf16[2,8,16,16];bf16[32,8,3,3]");
  EXPECT_EQ(backward.convolution.rearrangements, 6);
  EXPECT_EQ(backward.convolution.rearranged, 4 * (4096_B + 2304_B + 16384_B));
  const DeviceWork plain =
      shape(forward, "bf16[2,8,16,16];bf16[32,8,1,1];_;_;_;1;False;False;True", "bf16[2,32,16,16]");
  EXPECT_EQ(plain.convolution.rearrangements, 0);
  EXPECT_EQ(plain.matmul, (MatmulShape{.batch = 2, .m = 256, .n = 32, .k = 8}));
  const DeviceWork one_place =
      shape(forward, "bf16[2,8,1,1];bf16[32,8,1,1];_;_;_;1;False;False;True", "bf16[2,32,1,1]");
  EXPECT_EQ(one_place.convolution.rearrangements, 0);
  const DeviceWork uneven =
      shape(forward, "bf16[2,8,3,3];bf16[32,8,1,1];_;_;_;1;False;False;True", "bf16[2,32,3,3]");
  EXPECT_EQ(uneven.convolution.rearrangements, 3);
  const DeviceWork strided =
      shape(forward, "bf16[2,8,16,16];bf16[32,8,1,1];_;_;_;1;False;False;True", "bf16[2,32,8,8]");
  EXPECT_EQ(strided.convolution.rearrangements, 3);
}

// 2 layers and directions, 32 sequences of 128 steps, 100 numbers to 512: LSTM's 4 gates. Of the
// first layer's directions each has 100 inputs, of the second's 1024.
// 2 x 4096 x 2048 x (2 x 100 + 2 x 1024 + 4 x 512) flops.
TEST(WorkOf, ARecurrentNetworkHasProductsForEachStep) {
  const char* const inputs =
      "f32[32,128,100];{f32[2048,100] f32[2048,512]};4;f32[9000];f32[4,32,512];f32[4,32,512];2;512;"
      "0;2;True;0.000000;True;True;_;_";
  const DeviceWork forward =
      work_of(recorded_call("aten._cudnn_rnn.default", inputs, "f32[32,128,1024]"), 1);
  EXPECT_EQ(forward.recurrent, (RecurrentShape{.layers = 4,
                                               .steps = 128,
                                               .batch = 32,
                                               .input = 100,
                                               .hidden = 512,
                                               .gates = 4,
                                               .directions = 2}));
  EXPECT_EQ(forward.flops.count, std::int64_t{2} * 4096 * 2048 * (200 + 2048 + 2048));
  // Packed: 700 tokens of at most 7 sequences are 100 steps. GRU of 64 numbers: one kernel keeps
  // its weights, but not where sequences differ.
  const auto gru = [](const char* input) {
    return work_of(
               recorded_call("aten._cudnn_rnn.default",
                             std::string(input) +
                                 ";{f32[192,16] f32[192,64]};4;f32[9000];f32[1,7,64];-;3;64;0;1;"
                                 "False;0.000000;True;False;_;_",
                             "f32[700,64]"),
               1)
        .recurrent;
  };
  EXPECT_EQ(gru("f32[700,16]").steps, 100);
  EXPECT_EQ(gru("f32[700,16]").batch, 7);
  EXPECT_FALSE(gru("f32[700,16]").persistent);
  EXPECT_TRUE(gru("f32[100,7,16]").persistent);
}

// 3 matrices of 512 x 512 with 100 columns each: 3 * 512 * 512 * 100 flops, as LAPACK counts trsm.
// From the right side, and where the columns come first, it is the same.
TEST(WorkOf, ATriangularSystemHasTheFlopsOfHalfAProduct) {
  const auto work = [](const char* name, const char* inputs) {
    return work_of(recorded_call(name, inputs, "f32[3,512,100]"), 3);
  };
  const DeviceWork left = work("aten.linalg_solve_triangular.default",
                               "f32[3,512,512];f32[3,512,100];False;True;False");
  EXPECT_EQ(left.matmul, (MatmulShape{.batch = 3, .m = 100, .n = 512, .k = 256}));
  EXPECT_EQ(left.flops.count, 3 * 512 * 512 * 100);
  EXPECT_EQ(left.bytes, 4 * 3 * (512 * 512_B + 2 * 512 * 100_B));
  EXPECT_EQ(left.launches, 3);
  EXPECT_EQ(work("aten.linalg_solve_triangular.out",
                 "f32[3,512,512];f32[3,100,512];False;False;False;f32[3,512,100]")
                .matmul,
            left.matmul);
  EXPECT_EQ(
      work("aten.triangular_solve.default", "f32[3,512,100];f32[3,512,512];True;True;False").matmul,
      left.matmul);
  // Columns that all matrices share, and a matrix that all columns share.
  EXPECT_EQ(work("aten.linalg_solve_triangular.default", "f32[3,512,512];f32[512,100]").matmul,
            left.matmul);
  EXPECT_EQ(work("aten.linalg_solve_triangular.default", "f32[512,512];f32[3,512,100]").flops,
            left.flops);
  EXPECT_EQ(work("aten.linalg_solve_triangular.default", "f32[0,0];f32[0,4]").flops.count, 0);
}

// 6 images of 4 channels, 10 x 10: 2400 numbers. Read for the statistics, read again and written; a
// backward reads two tensors twice and writes one. One block for each channel.
TEST(WorkOf, BatchNormalizationReadsTwice) {
  const auto work = [](const char* name, const char* inputs, const char* outputs) {
    return work_of(recorded_call(name, inputs, outputs), 1);
  };
  const DeviceWork forward = work("aten.cudnn_batch_norm.default",
                                  "f32[6,4,10,10];_;_;_;_;True;0.1;0.00001", "f32[6,4,10,10]");
  EXPECT_EQ(forward.bytes, 3 * 9600_B);
  EXPECT_EQ(forward.blocks, 4);
  const DeviceWork backward = work("aten.cudnn_batch_norm_backward.default",
                                   "f32[6,4,10,10];f32[6,4,10,10]", "f32[6,4,10,10]");
  EXPECT_EQ(backward.bytes, 5 * 9600_B);
  const DeviceWork last =
      work("aten.native_batch_norm.default", "f32[6,4,10,10]/400,1,40,4;_;_;_;_;True;0.1;0.00001",
           "f32[6,4,10,10]/400,1,40,4");
  EXPECT_EQ(last.blocks, 0);
  const DeviceWork evaluated = work("aten.native_batch_norm.default",
                                    "f32[6,4,10,10];_;_;_;_;False;0.1;0.00001", "f32[6,4,10,10]");
  EXPECT_EQ(evaluated.bytes, 2 * 9600_B);
}

// 100 numbers are read, 100 written: of two halves, floats and doubles each.
TEST(WorkOf, ComplexNumbersHaveTwoParts) {
  const auto bytes = [](std::string_view tensor) {
    return work_of(
               recorded_call("aten._fft_c2c.default", std::string(tensor) + ";_;0;True", tensor), 1)
        .bytes;
  };
  EXPECT_EQ(bytes("ComplexHalf[10,10]"), 800_B);
  EXPECT_EQ(bytes("ComplexFloat[10,10]"), 1600_B);
  EXPECT_EQ(bytes("ComplexDouble[10,10]"), 3200_B);
}

TEST(WorkOf, WhatIsOverwrittenIsNotRead) {
  const auto bytes = [](const char* name, const char* inputs, const char* outputs) {
    return work_of({.name = name, .inputs = tensors_of(inputs), .outputs = tensors_of(outputs)}, 1)
        .bytes;
  };
  // 100 numbers: 2 bytes each are read, 4 written.
  EXPECT_EQ(bytes("aten.copy_.default", "f32[100];bf16[100]", "f32[100]"), 600_B);
  EXPECT_EQ(bytes("aten._foreach_copy_.default", "{f32[100] f32[50]};{bf16[100] bf16[50]}", ""),
            900_B);
  EXPECT_EQ(bytes("aten._foreach_zero_.default", "{f32[100] f32[50]}", ""), 600_B);
  // The argument that is written is the result, too.
  EXPECT_EQ(bytes("aten._chunk_cat.out", "{bf16[60] bf16[40]};0;1;f32[1,100]", "f32[1,100]"),
            600_B);
  // Of 100 rows of 4 numbers 3 are taken.
  EXPECT_EQ(bytes("aten.index_select.out", "f32[100,4];0;i64[3];f32[3,4]", "f32[3,4]"), 96_B);
  EXPECT_EQ(bytes("aten.add_.Tensor", "f32[100];f32[100]", "f32[100]"), 1200_B);
}

/// The log of two steps of one linear layer, by hand: addresses 100 and up are blocks.
constexpr const char* two_steps =
    "V\t1\n"
    "S\t0\taten::mm\nS\t1\tf32[4,8];f32[8,2]\nS\t2\tf32[4,2]\nS\t3\tlinear\nS\t4\tLinear\n"
    "S\t5\tMmBackward0\nS\t6\tmy_kernel\nS\t7\taten::view\n"
    "0\ttorch\t2.15.0\t13.2\n"
    "0\tcommunicator\t1\t0\t4\n"
    "0\talloc\t100\t64\t0\n"  // the weight
    "0\tenter\t3\t4\n"
    "0\top\t0\t1\t7\t0\n0\talloc\t200\t32\t0\n0\tgemm\t0\t2\t4\t8\t1\t0\t0\n0\tend\t2\n"
    "0\tleave\n"
    "1\tnode\t5\t2\t7\t0\n1\talloc\t300\t64\t0\n1\tkernel\t0\t6\t1,1,1\t32,1,1\t0\n"
    "1\tfree\t200\t32\t0\n1\tend\t1\n"
    "1\trecord\t0\t1.1\n1\twait\t5\t1.1\n"
    "1\tnccl\t5\treduce_scatter\t1\t4\t7\t64\n"
    "0\tphase\toptimizer\n0\tpurpose\tparameters\t100\t64\n0\tpurpose\tgradients\t300\t64\n"
    "0\tphase\tstep_end\n"
    "0\tfree\t300\t64\t0\n"
    "0\tenter\t3\t4\n"
    "0\top\t0\t1\t8\t0\n0\talloc\t200\t32\t0\n0\tgemm\t0\t2\t4\t8\t1\t0\t0\n0\tend\t2\n"
    "0\top\t7\t2\t8\t0\n0\tend\t2\n"
    "0\tleave\n"
    "0\tphase\toptimizer\n0\tphase\tstep_end\n"
    "0\top\t0\t1\t9\t0\n0\tend\t2\n"
    "0\tunknown\tcuThing\n"
    "0\tstatistics\t0\t1024\t1024\t2097152\n"
    "END\n";

class RecordingTest : public ::testing::Test {
 protected:
  Recording read(std::string_view text, const RecordedPlace& place = {.world = 4, .rank = 0}) {
    std::ofstream(path()) << text;
    return read_recording(path(), place);
  }
  std::filesystem::path path() const { return folder_.path() / "events.txt"; }
  TemporaryFolder folder_;
};

TEST_F(RecordingTest, StepsOperationsAndOwnersAreThoseOfTheLog) {
  const Recording recording = read(two_steps);
  const Schedule& schedule = recording.schedule;
  ASSERT_EQ(schedule.steps.size(), 2u);
  ASSERT_EQ(schedule.operations.size(), 4u);
  const Operation &forward = schedule.operations[0], &backward = schedule.operations[1],
                  &reduce = schedule.operations[2];
  EXPECT_EQ(schedule.name(forward), "aten.mm.default");
  EXPECT_EQ(forward.phase, Phase::forward);
  EXPECT_EQ(schedule.owners[forward.owner.value], "linear");
  EXPECT_EQ(forward.flops.count, 2 * 4 * 2 * 8);
  EXPECT_EQ(backward.phase, Phase::backward);
  EXPECT_EQ(schedule.owners[backward.owner.value], "linear");  // by autograd's number
  EXPECT_EQ(reduce.kind, OperationKind::reduce_scatter);
  EXPECT_EQ(reduce.stream, Stream::reduce);
  const Collective& collective = schedule.collectives[reduce.detail];
  EXPECT_EQ(collective.elements_out, 4);
  EXPECT_EQ(collective.elements_in, 16);
  EXPECT_EQ(schedule.groups[collective.group.value].ranks.size(), 4u);
  ASSERT_EQ(schedule.after_of(reduce).size(), 1u);
  EXPECT_EQ(schedule.after_of(reduce)[0].value, 1u);
  EXPECT_EQ(schedule.steps[1].operations, (IndexRange{3, 4}));
  const auto dispatched =
      std::ranges::count(schedule.program.actions, HostActionKind::dispatch, &HostAction::kind);
  EXPECT_EQ(dispatched, 1);  // the view
}

TEST_F(RecordingTest, BuffersAreForWhatTheyWereToldToBe) {
  const Schedule schedule = read(two_steps).schedule;
  ASSERT_EQ(schedule.buffers.size(), 4u);
  EXPECT_EQ(schedule.buffers[0].category, MemoryCategory::parameters);
  EXPECT_EQ(schedule.buffers[1].category, MemoryCategory::activations);
  EXPECT_EQ(schedule.buffers[2].category, MemoryCategory::gradients);
  EXPECT_FALSE(schedule.buffers[0].allocated_by);
  EXPECT_EQ(schedule.buffers[1].bytes, 32_B);
}

TEST_F(RecordingTest, FactsOfTheProcessAreKept) {
  const Recording recording = read(two_steps);
  EXPECT_EQ(recording.torch, "2.15.0");
  EXPECT_THAT(recording.unknown, ElementsAre("cuThing"));
  ASSERT_TRUE(recording.peaks);
  EXPECT_EQ(recording.peaks->reserved, 2_MiB);
  EXPECT_TRUE(recording.is_whole);
  EXPECT_EQ(recording.kernels, 3);
}

TEST_F(RecordingTest, ACommunicatorHasTheRanksThatWereToldBeforeIt) {
  const Recording recording = read(
      "V\t1\n"
      "0\tgroup\t1,3,5,7\n0\tcommunicator\t1\t1\t4\n"
      "0\tgroup\t0,1\n0\tcommunicator\t2\t0\t3\n"  // of another size
      "0\tnccl\t0\tall_reduce\t1\t8\t7\t32\n0\tnccl\t0\tall_reduce\t2\t8\t7\t32\n",
      {.world = 8, .rank = 3});
  const Schedule& schedule = recording.schedule;
  ASSERT_EQ(schedule.groups.size(), 2u);
  EXPECT_EQ(schedule.groups[0].ranks, Ranks::spaced(1, 2, 4));
  EXPECT_EQ(schedule.groups[1].ranks, Ranks::up_to(3));
}

// A block that another stream uses is not free before that stream is done with it.
TEST_F(RecordingTest, AStreamThatUsesABlockOfAnotherOneIsToldToTheAllocator) {
  const Schedule schedule = read(
                                "V\t1\nS\t0\taten::mm\nS\t1\tf32[4,8]\n"
                                "0\talloc\t100\t64\t0\n0\tuses\t100\t5\n0\tuses\t100\t0\n"
                                "0\tuses\t999\t5\n"  // of a block that the log does not know
                                "0\top\t0\t1\t7\t0\n0\tgemm\t0\t2\t4\t8\t1\t0\t0\n0\tend\t1\n"
                                "0\tfree\t100\t64\t0\n")
                                .schedule;
  std::vector<HostAction> uses;
  std::ranges::copy_if(
      schedule.program.actions, std::back_inserter(uses),
      [](const HostAction& action) { return action.kind == HostActionKind::record_stream; });
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].subject, 0u);
  EXPECT_EQ(schedule.program.lanes[uses[0].lane].name, "stream 5");
}

/// Pools that the log's actions empty, in their order.
std::vector<std::uint32_t> emptied(const Schedule& schedule) {
  std::vector<std::uint32_t> pools;
  for (const HostAction& action : schedule.program.actions)
    if (action.kind == HostActionKind::empty_cache) pools.push_back(action.subject);
  return pools;
}

constexpr const char* one_product = "0\top\t0\t1\t7\t0\n0\tgemm\t0\t2\t4\t8\t1\t0\t0\n0\tend\t1\n";

// Torch's numbers of pools, 34 and 7, are numbered as they appear.
TEST_F(RecordingTest, BlocksOfACudaGraphLieInAPoolOfTheirOwn) {
  const Schedule schedule =
      read(std::string("V\t2\nS\t0\taten::mm\nS\t1\tf32[4,8]\n") +
           "0\talloc\t100\t64\t0\n0\talloc\t200\t64\t5\t34\n0\talloc\t300\t64\t5\t7\n" +
           one_product + "0\tfree\t200\t64\t5\t34\n0\tsegment_free\t200\t64\t5\t34\n" +
           "0\tsegment_free\t900\t64\t0\n")
          .schedule;
  ASSERT_EQ(schedule.buffers.size(), 3u);
  std::vector<std::int32_t> pools;
  std::int32_t pool = 0;
  for (const HostAction& action : schedule.program.actions) {
    if (action.kind == HostActionKind::mark) {
      const HostMark& mark = schedule.program.marks[action.subject];
      EXPECT_EQ(schedule.names[mark.what], private_pool_mark);
      pool = mark.number;
    }
    if (action.kind == HostActionKind::allocate) pools.push_back(pool);
  }
  EXPECT_THAT(pools, ElementsAre(0, 1, 2));
  EXPECT_THAT(emptied(schedule), ElementsAre(1u, 0u));
}

// Where the device refused memory, or by a setting, torch gives segments back without being asked.
TEST_F(RecordingTest, TheScriptEmptiesTheCacheWhereTorchDoesNotDoItByItself) {
  const std::string start = "V\t2\nS\t0\taten::mm\nS\t1\tf32[4,8]\n";
  const std::string freed = "0\tsegment_free\t100\t64\t0\n";
  const auto times = [&](const std::string& lines) {
    return emptied(read(start + lines + one_product).schedule).size();
  };
  EXPECT_EQ(times(freed), 1u);
  EXPECT_EQ(times("0\tmalloc\t(nil)\t64\t0\n" + freed), 0u);
  EXPECT_EQ(times("0\tmalloc\t(nil)\t64\t0\n" + freed + "0\tmalloc\t0x7\t64\t1\n" + freed), 1u);
  EXPECT_EQ(times("0\tmalloc\t-1\t64\t0\n0\toom\t0\t64\t0\n" + freed), 1u);
  // A library's own memory: torch does not try again.
  EXPECT_EQ(times("0\tmalloc\t(nil)\t64\t0\n" + std::string(one_product) + freed), 1u);
  EXPECT_EQ(times("1\tmalloc\t(nil)\t64\t0\n" + freed), 1u);
  EXPECT_EQ(times("0\tallocator\tgarbage_collection_threshold:0.8\n" + freed), 0u);
}

// PyTorch makes 128 streams at once, so that numbers say little of how many are used.
TEST_F(RecordingTest, StreamsKeepTheOrderInWhichTheyWereMade) {
  const Schedule schedule = read(
                                "V\t1\nS\t0\tmy_kernel\n"
                                "0\tkernel\t90\t0\t1,1,1\t32,1,1\t0\n0\trecord\t17\t1.1\n"
                                "0\tkernel\t5\t0\t1,1,1\t32,1,1\t0\n")
                                .schedule;
  const std::vector<Lane>& lanes = schedule.program.lanes;
  ASSERT_EQ(lanes.size(), 4u);  // in the order of the log
  EXPECT_EQ(lanes[0].pool_place, Lane::no_pool);
  EXPECT_EQ(lanes[1].name, "stream 90");
  EXPECT_EQ(lanes[1].pool_place, 2);
  EXPECT_EQ(lanes[2].name, "stream 17");
  EXPECT_EQ(lanes[2].pool_place, 1);
  EXPECT_EQ(lanes[3].name, "stream 5");
  EXPECT_EQ(lanes[3].pool_place, 0);
}

TEST_F(RecordingTest, InventedValuesThatWereReadAreNamed) {
  const Recording recording = read(
      "V\t1\nS\t0\taten::nll_loss_forward\nS\t1\taten::_local_scalar_dense\n"
      "0\tset\t0\t64\n0\tinvented\t0\t1\n");
  EXPECT_THAT(recording.invented, ElementsAre("aten.nll_loss_forward.default, read by "
                                              "aten._local_scalar_dense.default"));
}

TEST_F(RecordingTest, OnlyACopyOfTheHostsMemoryGoesOverTheLink) {
  const Schedule schedule = read(
                                "V\t1\n"
                                "0\tcopy\t0\tHtoD\t1000\tasync\n0\tcopy\t0\tDtoH\t2000\tpageable\n"
                                "0\tcopy\t0\tDtoD\t4000\tasync\n0\tset\t0\t8000\n")
                                .schedule;
  ASSERT_EQ(schedule.operations.size(), 4u);
  EXPECT_EQ(moved_over_link(schedule, schedule.operations[0]), 1000_B);
  EXPECT_EQ(moved_over_link(schedule, schedule.operations[1]), 2000_B);
  EXPECT_EQ(moved_over_link(schedule, schedule.operations[2]), std::nullopt);
  EXPECT_EQ(schedule.operations[2].bytes, 8000_B);  // read and written
  EXPECT_EQ(schedule.operations[3].bytes, 8000_B);  // written
  EXPECT_FALSE(is_pageable(schedule, schedule.operations[0]));
  EXPECT_TRUE(is_pageable(schedule, schedule.operations[1]));
  EXPECT_FALSE(is_pageable(schedule, schedule.operations[2]));
  EXPECT_EQ(copy_way(schedule, schedule.operations[0]), CopyWay::to_device);
  EXPECT_EQ(copy_way(schedule, schedule.operations[1]), CopyWay::to_host);
  EXPECT_EQ(copy_way(schedule, schedule.operations[2]), CopyWay::within);
}

TEST_F(RecordingTest, QuestionsForTimesAreCountedBesideThoseOfTuning) {
  const Recording recording = read(
      "V\t1\nS\t0\tEvent.query\n0\tset\t0\t64\n0\tasked\t0\n0\tasked\t0\n"
      "0\ttuning\tbegin\n0\tasked\t0\n0\ttuning\tend\nEND\n");
  EXPECT_EQ(recording.timed_answers, 2);
}

TEST_F(RecordingTest, TheOrderOfTwoRecordingsIsComparedOperationByOperation) {
  const auto schedule_of = [&](const std::string& lines) {
    return read("V\t1\nS\t0\taten::mm\nS\t1\tf32[4,8];f32[8,2]\nS\t2\tf32[4,2]\n" + lines).schedule;
  };
  const std::string set = "0\tset\t0\t64\n";
  const std::string product = "0\top\t0\t1\t7\t0\n0\tgemm\t0\t2\t4\t8\t1\t0\t0\n0\tend\t2\n";
  const Schedule first = schedule_of(set + product);
  EXPECT_EQ(order_difference(first, schedule_of(set + product)), std::nullopt);
  const auto shorter = order_difference(first, schedule_of(set));
  ASSERT_TRUE(shorter);
  EXPECT_EQ(*shorter, (OrderDifference{.operation = 2, .first = "aten.mm.default", .second = ""}));
  const auto swapped = order_difference(first, schedule_of(product + set));
  ASSERT_TRUE(swapped);
  EXPECT_EQ(swapped->operation, 1u);
  EXPECT_EQ(swapped->second, "aten.mm.default");
  const auto larger = order_difference(first, schedule_of("0\tset\t0\t65\n" + product));
  ASSERT_TRUE(larger);
  EXPECT_EQ(larger->operation, 1u);
}

// An update of 100,000 floats on the host holds up the script; its views, its scalars and what
// another thread does beside it do not.
TEST_F(RecordingTest, LargeWorkOfTheHostHoldsUpTheScript) {
  const Schedule schedule =
      read(
          "V\t1\n"
          "S\t0\taten::addcdiv_\nS\t1\tcpu:f32[100000];cpu:f32[100000];cpu:f32[100000];1\n"
          "S\t2\tcpu:f32[100000]\nS\t3\taten::view\nS\t4\taten::add_.Tensor\n"
          "S\t5\tcpu:f32[];1\nS\t6\tcpu:f32[]\nS\t7\tlinear\nS\t8\tLinear\n"
          "S\t9\tf32[100000]\nS\t10\taten::neg\n"
          "0\top\t0\t1\t-1\t0\n0\tend\t2\n"  // before the first step
          "0\tenter\t7\t8\n0\tset\t0\t64\n0\tleave\n"
          "0\top\t0\t1\t-1\t0\n0\tend\t2\n"
          "0\top\t3\t2\t-1\t0\n0\tend\t2\tview\n"
          "0\top\t4\t5\t-1\t0\n0\tend\t6\n"
          "2\top\t0\t1\t-1\t0\n0\top\t10\t9\t-1\t0\n0\tend\t9\n2\tend\t2\n"
          "0\tphase\toptimizer\n0\tphase\tstep_end\n")
          .schedule;
  ASSERT_EQ(schedule.operations.size(), 2u);
  const Operation& update = schedule.operations[1];
  EXPECT_EQ(update.kind, OperationKind::host);
  EXPECT_EQ(update.stream, Stream::host);
  EXPECT_EQ(schedule.works[update.work].bytes, 4 * 400'000_B);  // three read, one written
  const auto count = [&](HostActionKind kind) {
    return std::ranges::count(schedule.program.actions, kind, &HostAction::kind);
  };
  EXPECT_EQ(count(HostActionKind::run), 1);
  // The view, the scalar, the other thread's, and an operator on the device without a kernel.
  EXPECT_EQ(count(HostActionKind::dispatch), 4);
}

// Matrices by one optimizer, vectors by another: the second one ends no step of its own. Where each
// has its own backward, as a generator's and a critic's, each ends one.
TEST_F(RecordingTest, OptimizersThatStepOneAfterAnotherEndOneStep) {
  const std::string pass = "0\tenter\t0\t1\n0\tset\t0\t64\n0\tleave\n";
  const std::string update = "0\tphase\toptimizer\n0\tset\t0\t32\n0\tphase\tstep_end\n";
  const Schedule schedule = read("V\t2\nS\t0\tnet\nS\t1\tNet\n" + pass + update + update + pass +
                                 update + pass + update + update + update)
                                .schedule;
  ASSERT_EQ(schedule.steps.size(), 3u);
  EXPECT_EQ(schedule.steps[0].operations.size(), 3u);
  EXPECT_EQ(schedule.steps[1].operations.size(), 2u);
  EXPECT_EQ(schedule.steps[2].operations.size(), 4u);
  for (std::size_t step = 0; step < schedule.steps.size(); ++step)
    for (std::uint32_t i = schedule.steps[step].operations.begin;
         i < schedule.steps[step].operations.end; ++i)
      EXPECT_EQ(schedule.operations[i].step, static_cast<std::int32_t>(step));
  EXPECT_EQ(schedule.steps[2].actions.end, schedule.program.actions.size());
}

// A large recording has most of its views as their number.
TEST_F(RecordingTest, ViewsAreReadAsTheirNumber) {
  const auto actions_of = [&](const std::string& version, const std::string& views) {
    return read(version + "S\t0\taten::narrow\nS\t1\taten::slice\nS\t2\tf32[8]\nS\t3\taten::neg\n" +
                views + "0\tset\t0\t64\n0\tphase\toptimizer\n0\tset\t0\t64\n" + views +
                "0\top\t3\t2\t-1\t0\n" + views +
                "0\tend\t2\n0\tset\t0\t64\n0\tphase\tstep_end\n0\tset\t0\t64\n" + views +
                "0\tset\t0\t64\n0\tphase\tstep_end\n")
        .schedule.program.actions;
  };
  const std::string narrow =
      "0\top\t0\t2\t-1\t0\n0\top\t1\t2\t-1\t0\n0\tend\t2\tview\n0\tend\t2\tview\n";
  const auto one_by_one = actions_of("V\t1\n", narrow + narrow);
  EXPECT_EQ(std::ranges::count(one_by_one, HostActionKind::dispatch, &HostAction::kind), 2);
  EXPECT_EQ(actions_of("V\t2\n", "0\tviews\t2\n"), one_by_one);
}

// The inputs of a graph of torch.compile are those of all its kernels, so that none counts them.
TEST_F(RecordingTest, KernelsOfACompiledGraphTakeTheTimeOfALaunch) {
  const Recording recording = read(
      "V\t1\n"
      "S\t0\tCompiledFunction\nS\t1\tf32[1024,1024]\nS\t2\ttriton_poi_fused_add_0\n"
      "0\top\t0\t1\t7\t0\n0\tkernel\t0\t2\t1,1,1\t32,1,1\t0\n0\tgemm\t0\t2\t4\t8\t1\t0\t0\n"
      "0\tkernel\t0\t2\t1,1,1\t32,1,1\t0\n0\tend\t1\n");
  const Schedule& schedule = recording.schedule;
  EXPECT_EQ(recording.kernels, 3);
  EXPECT_EQ(recording.unseen_kernels, 2);
  ASSERT_EQ(schedule.operations.size(), 3u);
  for (const std::size_t place : {0, 2}) {
    const Operation& kernel = schedule.operations[place];
    EXPECT_EQ(schedule.name(kernel), "triton_poi_fused_add_0");
    EXPECT_EQ(schedule.works[kernel.work].bytes, 0_B);
    EXPECT_EQ(schedule.works[kernel.work].launches, 1);
  }
  EXPECT_EQ(schedule.operations[1].flops.count, 2 * 2 * 4 * 8);
}

// Of each launch of a graph the host issues the first operation, and what comes after the graph.
TEST_F(RecordingTest, AGraphsOperationsAreIssuedTogether) {
  const std::string graph =
      "0\tgraph\tbegin\n0\tset\t0\t64\n0\top\t0\t1\t7\t0\n0\tgemm\t0\t2\t4\t8\t1\t0\t0\n"
      "0\tend\t1\n0\tset\t0\t64\n0\tgraph\tend\n";
  const Recording recording = read("V\t2\nS\t0\taten::mm\nS\t1\tf32[4,2]\n0\tset\t0\t32\n" + graph +
                                   graph + "0\tset\t0\t32\n");
  std::vector<bool> together;
  for (const Operation& operation : recording.schedule.operations)
    together.push_back(operation.issued_with_graph);
  EXPECT_EQ(together, (std::vector{false, false, true, true, false, true, true, false}));
}

// One that Triton wrote has the tensors that it is given, inside of a graph too.
TEST_F(RecordingTest, AKernelOfTritonMovesItsTensors) {
  const Recording recording = read(
      "V\t1\n"
      "S\t0\tCompiledFunction\nS\t1\tf32[1024,1024]\nS\t2\ttriton_poi_fused_add_0\n"
      "S\t3\tbf16[4,8];bf16[8]\nS\t4\tbf16[4,8]\n"
      "0\top\t0\t1\t7\t0\n0\top\t2\t3\t-1\t0\n0\tkernel\t0\t2\t1,1,1\t32,1,1\t0\n"
      "0\tend\t4\n0\tend\t1\n");
  const Schedule& schedule = recording.schedule;
  EXPECT_EQ(recording.unseen_kernels, 0);
  ASSERT_EQ(schedule.operations.size(), 1u);
  EXPECT_EQ(schedule.name(schedule.operations[0]), "triton_poi_fused_add_0");
  EXPECT_EQ(schedule.works[schedule.operations[0].work].bytes, 2_B * (32 + 8 + 32));
}

TEST_F(RecordingTest, LaunchesThatTuneAKernelAreLeftOutAndTheirMemoryIsNot) {
  const Recording recording = read(
      "V\t1\nS\t0\tmy_kernel\nS\t1\tf32[4]\n"
      "0\ttuning\tbegin\n0\talloc\t100\t4096\t0\n"
      "0\ttuning\tbegin\n0\tkernel\t0\t0\t1,1,1\t32,1,1\t0\n0\tsync\t-1\n0\ttuning\tend\n"
      "0\top\t0\t1\t-1\t0\n0\tgemm\t0\t2\t4\t8\t1\t0\t0\n0\tend\t1\n"
      "1\tkernel\t0\t0\t1,1,1\t32,1,1\t0\n"  // of another thread
      "0\tfree\t100\t4096\t0\n0\ttuning\tend\n"
      "0\tkernel\t0\t0\t1,1,1\t32,1,1\t0\n");
  EXPECT_EQ(recording.tuning_kernels, 2);
  EXPECT_EQ(recording.kernels, 2);
  EXPECT_EQ(recording.schedule.operations.size(), 2u);
  ASSERT_EQ(recording.schedule.buffers.size(), 1u);
  EXPECT_EQ(recording.schedule.buffers[0].bytes, 4_KiB);
}

// A process that was killed leaves what it reserved for its log, and no end.
TEST_F(RecordingTest, WhatAKilledProcessLeftIsRead) {
  const std::string text = std::string(two_steps).substr(0, std::string(two_steps).find("END")) +
                           "0\tkern" + std::string(1000, '\0');
  const Recording recording = read(text);
  EXPECT_FALSE(recording.is_whole);
  EXPECT_EQ(recording.schedule.steps.size(), 2u);
}

TEST_F(RecordingTest, ALargeLogIsReadInPiecesWhoseLinesFollowEachOther) {
  // Large enough for many pieces: blocks with a text each, and lines that are left out.
  constexpr int count = 80'000;
  std::string text = "V\t1\n";
  for (int i = 0; i < count; ++i)
    text += fmt::format("S\t{0}\ttext {0}\n0\talloc\t{0}\t64\t0\n0\tother\t1\n", i);
  std::ofstream(path()) << text + "END\n";
  ASSERT_GT(text.size(), std::size_t{3} << 20);
  EventLog log(path(), 3);
  int next = 0, pieces = 0;
  for (; log.next(); ++pieces)
    for (const LogLine& line : log.lines()) {
      ASSERT_EQ(line.integer(0), next);
      ASSERT_EQ(line.number, static_cast<std::uint32_t>(3 * next + 3));
      ASSERT_EQ(log.text(next), fmt::format("text {}", next));
      ++next;
    }
  EXPECT_EQ(next, count);
  EXPECT_GT(pieces, 3);
  EXPECT_TRUE(log.is_whole());
  EXPECT_EQ(log.texts(), static_cast<std::size_t>(count));

  std::ofstream(path()) << text + "0\tgemm\nEN";
  EventLog damaged(path(), 3);
  LogLine last;
  while (damaged.next()) last = damaged.lines().back();
  EXPECT_FALSE(damaged.is_whole());
  EXPECT_THAT(complaint_of([&] { last.integer(0); }), HasSubstr("line 240002: has no field 1"));
}

TEST_F(RecordingTest, DamageIsOneError) {
  EXPECT_THAT(complaint_of([&] { read("{}"); }), HasSubstr("is no log of a recording"));
  EXPECT_THAT(complaint_of([&] {
                read(
                    "V\t2\n0\tset\t0\t1\n0\tphase\tstep_end\n0\tviews\t1\n0\tviews\t67108864\n"
                    "0\tset\t0\t1\n0\tphase\tstep_end\n");
              }),
              HasSubstr("line 5: expected a number up to 67108863"));
  EXPECT_THAT(complaint_of([&] { read("V\t1\n0\tkernel\tx\n"); }), HasSubstr("line 2"));
  EXPECT_THAT(complaint_of([&] { read("V\t1\n0\top\t5\t5\t0\t0\n"); }), HasSubstr("text 5"));
  for (const char* number : {"", "-", "-2", "1x", "9007199254740993", "1000000000000000001"})
    EXPECT_THAT(complaint_of([&] { read(fmt::format("V\t1\n0\tfree\t{}\t1\t0\n", number)); }),
                HasSubstr("line 2: expected a number up to 9007199254740992"));
  EXPECT_THAT(complaint_of([&] { read("V\t1\n0\talloc\t1\t17592186044417\t0\n"); }),
              HasSubstr("line 2: expected a number up to 17592186044416"));
  EXPECT_THAT(complaint_of([&] { read("V\t1\n0\tgemm\n"); }), HasSubstr("line 2: has no field 1"));
  EXPECT_THAT(complaint_of([&] { read("V\t1\nEND\n"); }), HasSubstr("nothing on a CUDA device"));
}

}  // namespace
}  // namespace shardscope
