// How long it takes to play three training steps of Llama-3 on the eager engine, host order, frees
// and all: alone, and as rank 0 of 64 under FSDP1. The second and third step differ from the first
// by the optimizer's state.
#include <benchmark/benchmark.h>

#include "core/model/huggingface.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/models/make_module.h"
#include "core/pytorch/runtimes/common/optimizer.h"
#include "core/pytorch/runtimes/fsdp1/fully_sharded.h"
#include "tests/bench/llama3_configs.h"

namespace shardscope {
namespace {

using namespace eager;

class Counter final : public Observer {
 public:
  void on_operator(Session&, const OperatorCall&) override { ++operators; }
  void on_storage_allocated(Session&, StorageImpl&) override { ++allocations; }
  std::int64_t operators = 0;
  std::int64_t allocations = 0;
};

void train(Session& s, eager::Module& root, ParameterOptimizer& optimizer, int steps) {
  const Like tokens{Dtype::int64, Device::cuda};
  const Tensor ids = allocate(s, tokens, {1, 2048}), labels = allocate(s, tokens, {1, 2048});
  for (int step = 0; step < steps; ++step) {
    Tensors outputs = call(s, root, {ids, Tensor(), labels});
    Tensor loss = std::move(outputs.front());
    outputs.clear();
    backward(s, loss);
    loss.reset();
    optimizer.step(s);
    optimizer.zero_grad(s);
  }
}

struct Loaded {
  JsonValue config;
  Model model;
  explicit Loaded(std::string_view text)
      : config(JsonValue::parse(text, "llama3")),
        model(model_of_config(config, {.dtype = Dtype::bfloat16})) {}
};

void count(benchmark::State& state, const Counter& counter) {
  state.counters["operators"] = benchmark::Counter(static_cast<double>(counter.operators),
                                                   benchmark::Counter::kAvgIterations);
  state.counters["allocations"] = benchmark::Counter(static_cast<double>(counter.allocations),
                                                     benchmark::Counter::kAvgIterations);
}

void three_steps(benchmark::State& state, std::string_view text) {
  const Loaded loaded(text);
  Counter counter;
  for (auto _ : state) {
    Session s;
    s.observe(counter);
    const auto root = make_module(s, loaded.model, loaded.config, {});
    Tensors parameters;
    for (const NamedParameter& p : named_parameters_of(*root)) parameters.push_back(p.tensor());
    ParameterOptimizer optimizer(std::move(parameters), {});
    train(s, *root, optimizer, 3);
  }
  count(state, counter);
}
BENCHMARK_CAPTURE(three_steps, llama3_8b, llama3_8b)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(three_steps, llama3_405b, llama3_405b)->Unit(benchmark::kMillisecond);

void three_steps_fsdp1(benchmark::State& state, std::string_view text) {
  const Loaded loaded(text);
  const Fsdp1Plan plan = plan_fsdp1(
      tree_of(loaded.model), {.world = 64, .auto_wrap = TransformerWrap{{"LlamaDecoderLayer"}}});
  Counter counter;
  for (auto _ : state) {
    Session s;
    s.observe(counter);
    const ProcessGroups groups(64, 0);
    const fsdp1::FullySharded sharded(
        s, {.module = make_module(s, loaded.model, loaded.config, {}),
            .plan = plan,
            .options = {},
            .groups = {.world = &groups.world(), .all = &groups.world()}});
    ParameterOptimizer optimizer(sharded.parameters(), {});
    train(s, sharded.module(), optimizer, 3);
  }
  count(state, counter);
}
BENCHMARK_CAPTURE(three_steps_fsdp1, llama3_8b, llama3_8b)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(three_steps_fsdp1, llama3_405b, llama3_405b)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shardscope
