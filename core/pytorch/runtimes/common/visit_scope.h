// A scope in which one of a library's functions runs, told to its watchers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/pytorch/engine/session.h"

namespace shardscope::eager {

/// A runtime's watcher has `on_enter(Session&, const Visit&)` and `on_leave` likewise. The list of
/// watchers must outlive the scope.
template <class Watcher, class Visit>
class VisitScope {
 public:
  /// `unit`: the name of the module whose parameters it is about; null: as around it.
  VisitScope(Session& s, const std::vector<Watcher*>& watchers, Visit visit,
             const std::string* unit = nullptr)
      : s_(s), watchers_(watchers), visit_(std::move(visit)), unit_(s.unit, unit ? unit : s.unit) {
    for (Watcher* watcher : watchers_) watcher->on_enter(s_, visit_);
  }
  VisitScope(const VisitScope&) = delete;
  VisitScope& operator=(const VisitScope&) = delete;
  ~VisitScope() {
    for (Watcher* watcher : watchers_) watcher->on_leave(s_, visit_);
  }

 private:
  Session& s_;
  const std::vector<Watcher*>& watchers_;
  Visit visit_;
  Scoped<const std::string*> unit_;
};

}  // namespace shardscope::eager
