// Rows and lifetimes marked "recorded" are those of torch 2.15 on the CPU, by the classes of
// ../shared/data/pytorch/operators/record.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/multi_grad_hook.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "tests/core/operator_log.h"

namespace shardscope::eager {
namespace {

using Names = std::vector<std::string>;
using testing::ElementsAre;

struct EagerEngine : testing::Test {
  Session s{{.device = Device::cpu, .watched = true}};
  OperatorLog log;

  void SetUp() override { s.observe(log); }
  /// Operators of the backward alone, without the ones_like of the loss.
  Names backward_names(const Tensor& loss) {
    log.clear();
    backward(s, loss);
    Names names = log.names();
    names.erase(names.begin());
    return names;
  }
};

TEST_F(EagerEngine, RunsTheNodeMadeLastFirst) {
  // recorded: (x.sin() + x.cos()).sum(): the cosine was made later.
  const Tensor x = leaf(s, {3});
  const Tensor sine = sin(s, x);
  EXPECT_EQ(backward_names(sum(s, add(s, sine, cos(s, x)))),
            (Names{"expand.default", "sin.default", "neg.default", "mul.Tensor", "cos.default",
                   "mul.Tensor", "add.Tensor", "detach.default"}));
}

TEST_F(EagerEngine, GradientsOfOperandsComeInTheOrderOfTheirNames) {
  // recorded: x * y has the gradient of `other` first, then that of `self`, and sums the broadcast
  // one before either is handed on.
  const Tensor x = leaf(s, {2, 4}), y = leaf(s, {4});
  log.number(*x.storage());
  backward(s, sum(s, mul(s, x, y)));
  EXPECT_THAT(log.names(),
              ElementsAre("mul.Tensor", "sum.default", "ones_like.default", "expand.default",
                          "mul.Tensor", "mul.Tensor", "sum.dim_IntList", "view.default",
                          "detach.default", "detach.default"));
}

TEST_F(EagerEngine, SavedTensorsGoWithTheNodeThatRan) {
  // x * x: the product's saved x and the tanh's result are freed as backward passes.
  const Tensor x = leaf(s, {4});
  Tensor y = tanh(s, mul(s, x, x));
  const Tensor loss = sum(s, y);
  const int result = log.number(*y.storage());
  y.reset();
  backward(s, loss);
  // recorded: rows 0 mul, 1 tanh, 2 detach, 3 sum, 4 ones_like, 5 expand, 6 detach, 7
  // tanh_backward, 8 and 9 mul, 10 add, 11 detach: the tanh lives until its backward has run.
  EXPECT_EQ(log.rows()[7].substr(0, 13), "tanh_backward");
  EXPECT_EQ(log.lives()[static_cast<std::size_t>(result)].freed, 8);
}

TEST_F(EagerEngine, ASumOfGradientsIsNewUnderAWatchingMode) {
  const Tensor x = leaf(s, {4});
  const Tensor y = mul(s, x, 2);
  EXPECT_THAT(backward_names(sum(s, add(s, mul(s, y, 3), mul(s, y, 4)))),
              testing::Contains("add.Tensor"));
}

TEST(EagerEngineUnwatched, AddsToTheFirstGradientInPlaceIfItIsNobodyElses) {
  Session s({.device = Device::cpu});
  OperatorLog log;
  const Tensor x = leaf(s, {4});
  const Tensor y = mul(s, x, 2);
  const Tensor loss = sum(s, add(s, mul(s, y, 3), mul(s, y, 4)));
  s.observe(log);
  backward(s, loss);
  // profiled: the CPU's run has aten::add_.
  EXPECT_THAT(log.names(), testing::Contains("add_.Tensor"));
}

TEST(EagerEngineUnwatched, AnExpandedFirstGradientIsNotAddedTo) {
  Session s({.device = Device::cpu});
  OperatorLog log;
  const Tensor x = leaf(s, {4});
  const Tensor y = mul(s, x, 2);
  // profiled: (y * 3).sum() + y.sum(): the gradient of y.sum(), which comes first, has stride 0.
  const Tensor first = sum(s, mul(s, y, 3));
  const Tensor loss = add(s, first, sum(s, y));
  s.observe(log);
  backward(s, loss);
  EXPECT_THAT(log.names(), testing::Contains("add.Tensor"));
  EXPECT_THAT(log.names(), testing::Not(testing::Contains("add_.Tensor")));
}

TEST_F(EagerEngine, ALeafTakesAGradientThatNobodyElseHolds) {
  const Tensor x = leaf(s, {4});
  backward(s, sum(s, mul(s, x, 2)));
  EXPECT_EQ(log.names().back(), "detach.default");
}

TEST_F(EagerEngine, ALeafCopiesAGradientOfOtherStrides) {
  // recorded: the gradient of x.sum() is expanded; AccumulateGrad writes it out.
  const Tensor x = leaf(s, {2, 3});
  EXPECT_EQ(backward_names(sum(s, x)),
            (Names{"expand.default", "new_empty_strided.default", "copy_.default"}));
  EXPECT_EQ(x.grad().strides(), (Dims{3, 1}));
}

TEST_F(EagerEngine, ASecondBackwardAddsInPlace) {
  const Tensor x = leaf(s, {4});
  backward(s, sum(s, mul(s, x, 2)));
  const Storage before = x.grad().storage();
  EXPECT_EQ(backward_names(sum(s, mul(s, x, 2))).back(), "add_.Tensor");
  EXPECT_EQ(x.grad().storage(), before);
}

TEST_F(EagerEngine, HooksRunInPyTorchsOrder) {
  // Hooks of the tensor, then those of the node before it runs, then after it.
  const Tensor x = leaf(s, {4});
  const Tensor y = mul(s, x, 2);
  Names seen;
  y.grad_fn()->register_hook(s,
                             [&](Session&, Tensors&, const Tensors&) { seen.push_back("post"); });
  y.grad_fn()->register_prehook(s, [&](Session&, Tensors&) { seen.push_back("pre"); });
  register_hook(s, y, [&](Session&, const Tensor&) {
    seen.push_back("tensor");
    return Tensor();
  });
  register_hook(s, x, [&](Session&, const Tensor&) {
    seen.push_back(x.grad().defined() ? "leaf late" : "leaf");
    return Tensor();
  });
  register_post_accumulate_grad_hook(s, x, [&](Session&, const Tensor& at) {
    seen.push_back(at.grad().defined() ? "accumulated" : "too early");
  });
  y.grad_fn()->register_prehook(s, [&](Session& in, Tensors&) {
    queue_callback(in, [&](Session&) { seen.push_back("end"); });
  });
  backward(s, sum(s, y));
  EXPECT_THAT(seen, ElementsAre("tensor", "pre", "post", "leaf", "accumulated", "end"));
}

TEST_F(EagerEngine, APostHookOfTheLeafsNodeDoesNotMakeItCopy) {
  // FSDP1's hook: torch counts one reference more where there are post hooks.
  const Tensor x = leaf(s, {4});
  const NodeRef node = gradient_edge(s, x).node;
  node->register_hook(s, [](Session&, Tensors&, const Tensors&) {});
  EXPECT_EQ(backward_names(sum(s, mul(s, x, 2))).back(), "detach.default");
}

TEST_F(EagerEngine, AMultiGradHookWaitsForTheGradientsOfThisBackwardOnly) {
  const Tensor x = leaf(s, {4});
  const Tensor a = mul(s, x, 2), b = mul(s, x, 3), unused = mul(s, x, 4);
  std::vector<bool> given;
  MultiGradHandle handle =
      register_multi_grad_hook_all(s, {a, b, unused}, [&](Session&, const Tensors& gradients) {
        for (const Tensor& gradient : gradients) given.push_back(gradient.defined());
      });
  backward(s, sum(s, add(s, a, b)));
  handle.remove();
  EXPECT_THAT(given, ElementsAre(true, true, false));
}

/// Events as "record 1", "1 waits".
class Waits final : public Observer {
 public:
  std::vector<std::string> seen;
  void on_event_record(Session&, EventId, StreamId on) override {
    seen.push_back("record on " + std::to_string(on.value));
  }
  void on_event_wait(Session&, EventId, StreamId waiting) override {
    seen.push_back(std::to_string(waiting.value) + " waits");
  }
};

TEST(EagerEngineStreams, BackwardRunsOnTheStreamsOfForwardAndTheCallerWaitsForTheLeaves) {
  Session s;
  Waits waits;
  const Tensor x = allocate(s, {Dtype::float32, Device::cuda}, {4});
  x.set_requires_grad(true);
  const StreamId side = s.new_stream();
  Tensor y;
  {
    const OnStream on(s, side);
    y = mul(s, x, 2);  // its node, and the leaf's, which is made now, are on the side stream
  }
  const Tensor loss = sum(s, y);
  s.observe(waits);
  backward(s, loss);
  // The sum's node is on stream 0, and hands its gradient to stream 1; the leaf is on stream 1.
  EXPECT_THAT(waits.seen, ElementsAre("record on 0", "1 waits", "record on 1", "0 waits"));
}

struct FreedStorages : Observer {
  explicit FreedStorages(int& count) : count_(count) {}
  void on_storage_freed(Session&, StorageImpl&) override { ++count_; }

 private:
  int& count_;
};

TEST(EagerEngineObservers, AnObserverHearsNothingAfterItsEnd) {
  int freed = 0;
  Session s;
  Tensor x = allocate(s, {Dtype::float32, Device::cuda}, {4});
  Tensor y = allocate(s, {Dtype::float32, Device::cuda}, {4});
  {
    FreedStorages observer(freed);
    s.observe(observer);
    x.reset();
  }
  EXPECT_FALSE(s.observed());
  y.reset();
  EXPECT_EQ(freed, 1);
}

TEST(EagerEngineObservers, AnObserverWatchesTheNextSessionAfterTheEndOfOne) {
  int freed = 0;
  FreedStorages observer(freed);
  for (int session = 0; session < 2; ++session) {
    Session s;
    s.observe(observer);
    Session other;
    EXPECT_THROW(other.observe(observer), std::logic_error);
    allocate(s, {Dtype::float32, Device::cuda}, {4});
  }
  EXPECT_EQ(freed, 2);
}

TEST_F(EagerEngine, ABackwardThatFailsLeavesNoneRunning) {
  const Tensor x = leaf(s, {4});
  const Tensor y = mul(s, x, 2);
  y.grad_fn()->register_prehook(s, [](Session&, Tensors&) -> void { throw 1; });
  EXPECT_THROW(backward(s, sum(s, y)), int);
  EXPECT_FALSE(s.engine().running());
}

TEST_F(EagerEngine, AFrozenInputMakesNoNodes) {
  const Tensor x = allocate(s, {Dtype::float32, Device::cpu}, {2, 4});
  const Tensor frozen = allocate(s, {Dtype::float32, Device::cpu}, {4, 4});
  EXPECT_FALSE(mm(s, x, frozen).requires_grad());
  const Tensor weight = leaf(s, {4, 4});
  const Tensor y = mm(s, x, weight);
  // Only the gradient of the weight is wanted: x is kept, the weight is not.
  ASSERT_EQ(y.grad_fn()->saved().size(), 1u);
  EXPECT_EQ(y.grad_fn()->saved()[0].field(), "self");
}

TEST_F(EagerEngine, NothingIsMadeWithoutGrad) {
  const Tensor x = leaf(s, {4});
  const NoGrad off(s);
  EXPECT_FALSE(mul(s, x, 2).requires_grad());
}

TEST_F(EagerEngine, ALongChainGoesWithoutRecursion) {
  Tensor x = leaf(s, {1});
  for (int i = 0; i < 200'000; ++i) x = neg(s, std::move(x));
  x.reset();
  SUCCEED();
}

TEST_F(EagerEngine, APackedTensorIsNotHeld) {
  const Tensor x = leaf(s, {4});
  int packed = 0, unpacked = 0;
  const auto hooks = std::make_shared<SavedTensorHooks>();
  hooks->pack = [&](Session&, const Tensor& tensor) -> std::shared_ptr<void> {
    ++packed;
    return std::make_shared<Dims>(tensor.sizes());
  };
  hooks->unpack = [&](Session& in, const std::shared_ptr<void>& sizes) {
    ++unpacked;
    return allocate(in, {Dtype::float32, Device::cpu}, *std::static_pointer_cast<Dims>(sizes));
  };
  s.saved_tensor_hooks.push_back(hooks);
  const Tensor loss = sum(s, tanh(s, mul(s, x, x)));
  s.saved_tensor_hooks.pop_back();
  EXPECT_EQ(packed, 3);                // x twice, the tanh once
  EXPECT_EQ(log.lives()[2].freed, 3);  // storage 2, the tanh's result, goes once the sum has run
  backward(s, loss);
  EXPECT_EQ(unpacked, 3);
}

}  // namespace
}  // namespace shardscope::eager
