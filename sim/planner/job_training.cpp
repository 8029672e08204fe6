#include "sim/planner/job_training.h"

namespace shardscope::planner {

void set_optimizer(const Optimizer& optimizer, eager::OptimizerRule rule,
                   eager::OptimizerSettings& settings) {
  settings.rule = rule;
  settings.weight_decay = rule != eager::OptimizerRule::adam && optimizer.weight_decay != 0;
  settings.momentum = rule == eager::OptimizerRule::sgd && optimizer.momentum != 0;
  settings.nesterov = settings.momentum && optimizer.nesterov;
}

Training training_of(const Job& job, const HardwareProfile& profile) {
  Training training{.length = job.seq, .optimizer = job.optimizer, .clip = job.clip};
  const bool sgd = job.optimizer.kind == OptimizerKind::sgd;
  set_optimizer(job.optimizer, sgd ? eager::OptimizerRule::sgd : eager::OptimizerRule::adamw,
                training.loop.optimizer);
  training.session.compute_capability =
      profile.compute_capability > 0 ? profile.compute_capability : usual_compute_capability;
  return training;
}

}  // namespace shardscope::planner
