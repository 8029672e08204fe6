// What a hardware profile calls the fields of each kind of kernel.
#include "sim/hardware/kernel_json.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

Kernel read_kernel_text(std::string_view text) {
  return read_kernel(JsonValue::parse(text, "profile.json"));
}

void expect_text(const Kernel& kernel, std::string_view text) {
  EXPECT_EQ(kernel_json(kernel), text);
  EXPECT_EQ(read_kernel_text(text), kernel);
}

TEST(KernelJson, CallsWidthsInAndVocabulariesOut) {
  expect_text(
      EmbeddingForwardKernel{
          .rows = 12, .width = 8, .vocabulary = 50, .batch = 2, .length = 6, .positions = 7},
      R"({"kind": "embedding_forward", "rows": 12, "in": 8, "out": 50, "batch": 2, )"
      R"("length": 6, "positions": 7})");
  expect_text(NormForwardKernel{.norm = NormKind::rms_norm, .rows = 3, .width = 8},
              R"({"kind": "norm_forward", "norm": "rms_norm", "rows": 3, "in": 8})");
  expect_text(SwigluBackwardKernel{{.dtype = Dtype::bfloat16, .rows = 3, .features = 8}},
              R"({"kind": "swiglu_backward", "dtype": "bfloat16", "rows": 3, "in": 8})");
  expect_text(
      CrossEntropyKernel{.has_count = true, .rows = 3, .classes = 50, .logits_stride = 56},
      R"({"kind": "cross_entropy", "has_count": true, "rows": 3, "out": 50, "out_stride": 56})");
}

TEST(KernelJson, CallsPiecesElements) {
  expect_text(ClipCoefficientKernel{.has_clip = true, .pieces = 64},
              R"({"kind": "clip_coefficient", "has_clip": true, "elements": 64})");
}

TEST(KernelJson, WritesWhatDiffersFromTheDefault) {
  expect_text(LinearBackwardWeightKernel{.layout = WeightLayout::in_out,
                                         .dtype = Dtype::bfloat16,
                                         .gradient_dtype = Dtype::bfloat16,
                                         .accumulate = true,
                                         .has_bias = true,
                                         .has_weight_gradient = false,
                                         .rows = 3,
                                         .in = 4,
                                         .out = 5,
                                         .out_stride = 8},
              R"({"kind": "linear_backward_weight", "layout": "in_out", "dtype": "bfloat16", )"
              R"("gradient_dtype": "bfloat16", "accumulate": true, "has_bias": true, )"
              R"("has_weight_gradient": false, "rows": 3, "in": 4, "out": 5, "out_stride": 8})");
  expect_text(AddKernel{}, R"({"kind": "add"})");
}

TEST(KernelJson, HoldsNoFactorThatChangesNoCost) {
  EXPECT_EQ(kernel_json(SgdKernel{.nesterov = true, .elements = 9, .momentum = 0.9}),
            R"({"kind": "sgd", "nesterov": true, "elements": 9})");
}

TEST(KernelJson, LeavesOutAKeyOfAnotherKind) {
  EXPECT_EQ(read_kernel_text(R"({"kind": "add", "heads": 4, "elements": 9})"),
            Kernel(AddKernel{.elements = 9}));
}

}  // namespace
}  // namespace shardscope
