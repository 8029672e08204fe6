// A scope in which one of FSDP2's functions runs, told to the watchers.
#pragma once

#include <vector>

#include "core/runtime/fsdp2/watcher.h"

namespace shardscope::eager::fsdp2 {

class Visiting {
 public:
  Visiting(Session& s, const std::vector<Watcher*>& watchers, const ParameterGroup& group,
           Site site)
      : Visiting(s, watchers, Visit{.site = site, .group = &group}) {}
  Visiting(Session& s, const std::vector<Watcher*>& watchers, const State& state, Site site)
      : Visiting(s, watchers, Visit{.site = site, .state = &state}) {}
  Visiting(const Visiting&) = delete;
  Visiting& operator=(const Visiting&) = delete;
  ~Visiting() {
    for (Watcher* watcher : watchers_) watcher->on_leave(s_, visit_);
  }

 private:
  Visiting(Session& s, const std::vector<Watcher*>& watchers, const Visit& visit)
      : s_(s), watchers_(watchers), visit_(visit) {
    for (Watcher* watcher : watchers_) watcher->on_enter(s_, visit_);
  }

  Session& s_;
  const std::vector<Watcher*>& watchers_;
  Visit visit_;
};

}  // namespace shardscope::eager::fsdp2
