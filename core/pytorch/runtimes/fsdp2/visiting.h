// A scope in which one of FSDP2's functions runs, told to the watchers.
#pragma once

#include <vector>

#include "core/pytorch/runtimes/common/visit_scope.h"
#include "core/pytorch/runtimes/fsdp2/parameter_group.h"
#include "core/pytorch/runtimes/fsdp2/watcher.h"

namespace shardscope::eager::fsdp2 {

class Visiting : public VisitScope<Watcher, Visit> {
 public:
  Visiting(Session& s, const std::vector<Watcher*>& watchers, const ParameterGroup& group,
           Site site)
      : VisitScope(s, watchers, {.site = site, .group = &group}, &group.modules().front()->name) {}
  Visiting(Session& s, const std::vector<Watcher*>& watchers, const State& state, Site site)
      : VisitScope(s, watchers, {.site = site, .state = &state}) {}
};

}  // namespace shardscope::eager::fsdp2
