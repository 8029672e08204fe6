#include "sim/planner/search_rules.h"

#include "core/base/error.h"

namespace shardscope::planner {

Bytes SearchRules::on_host(const Choice& choice) const {
  if (choice.offload == Offload::none) return {};
  try {
    return host_memory_of_node(choice, inputs);
  } catch (const Error&) {
    return {};  // trying it out says why
  }
}

bool SearchRules::is_out(const Trial& trial, double factor) const {
  return exceeds({scaled(trial.needed().count, factor)}) ||
         is_too_slow({scaled(trial.time.span.ns, factor)});
}

}  // namespace shardscope::planner
