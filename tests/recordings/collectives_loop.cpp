#include "tests/recordings/collectives_loop.h"

#include <nlohmann/json.hpp>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "tests/recordings/collectives_models.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using namespace eager;
using eager::Module;  // not the model's

class Loop {
 public:
  Loop(Session& s, EventLog& log, const Json& given, Module& root, const TrainingHooks& hooks)
      : s_(s), log_(log), given_(given), root_(root), hooks_(hooks) {}

  void run() {
    for (int it = 1; it <= given_.value("iters", 3); ++it) iteration(it);
    for (const Json& action : given_.value("after", Json::array())) act(action);
    log_.phase("end");
  }

 private:
  void iteration(int it) {
    const Json accumulate = given_.value("accumulate", Json{{"micro", 1}});
    const int micro_batches = accumulate.at("micro").get<int>();
    for (int mb = 0; mb < micro_batches; ++mb) {
      std::shared_ptr<void> scope;
      if (hooks_.micro_batch) scope = hooks_.micro_batch(mb == micro_batches - 1);
      step_forward_and_back(it, mb);
    }
    if (given_.contains("clip") && given_.at("clip").is_number()) clip(it);
    log_.phase("optimizer_step", it);
    if (hooks_.step) hooks_.step();
    log_.phase("zero_grad", it);
    zero_grad(given_.value("set_to_none", true));
    const Json between = given_.value("between", Json::object());
    for (const Json& action : between.value(std::to_string(it), Json::array())) act(action);
  }

  void step_forward_and_back(int it, int mb) {
    const Arguments batch = collectives_batch(s_, given_.at("model"));
    log_.phase("forward", it, mb);
    Tensors outputs = hooks_.forward(batch);
    log_.phase("backward", it, mb);
    backward(s_, outputs.front());
  }

  void clip(int it) {
    log_.phase("clip", it);
    const bool is_distributed = hooks_.clip && hooks_.clip();
    if (!is_distributed || !given_.value("clip_full_tensor", true)) return;
    log_.phase("clip_full_tensor", it);
    hooks_.full_norm();
  }

  void zero_grad(bool set_to_none) {
    for (const Tensor& parameter : hooks_.parameters) {
      if (!parameter.grad().defined()) continue;
      if (set_to_none)
        parameter.set_grad({});
      else
        zero_(s_, parameter.grad());
    }
  }

  void act(const Json& action) {
    const std::string name = action.is_string() ? action : action.at("do");
    log_.phase(action.is_string() ? name : action.dump());
    if (name == "eval_forward" || name == "train_forward_no_grad") {
      set_training(name != "eval_forward");
      const NoGrad no_grad(s_);
      hooks_.forward(collectives_batch(s_, given_.at("model")));
      set_training(true);
    } else if (name == "forward_only") {
      hooks_.forward(collectives_batch(s_, given_.at("model")));
    } else if (name == "train_step") {
      step_forward_and_back(90, 0);
      log_.phase("optimizer_step", 90);
      if (hooks_.step) hooks_.step();
      zero_grad(true);
    } else if (hooks_.action) {
      hooks_.action(action);
    }
  }

  void set_training(bool on) {
    for (Module* module : modules_of(root_)) module->training = on;
  }

  Session& s_;
  EventLog& log_;
  const Json& given_;
  Module& root_;
  const TrainingHooks& hooks_;
};

}  // namespace

void run_training(Session& s, EventLog& log, const Json& given, Module& root,
                  const TrainingHooks& hooks) {
  Loop(s, log, given, root, hooks).run();
}

}  // namespace shardscope::recordings
