#include "core/pytorch/runtimes/common/object_collectives.h"

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/runtimes/common/collectives.h"

namespace shardscope::eager {
namespace {

/// Marks that a function of the library runs.
class Function {
 public:
  Function(Session& s, std::string_view name) : s_(s), name_(name) {
    s_.mark({.what = "enter", .subject = name_});
  }
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;
  ~Function() { s_.mark({.what = "leave", .subject = name_}); }

 private:
  Session& s_;
  std::string_view name_;
};

Tensor numbers(Session& s, std::int64_t count, Dtype dtype) {
  return empty(s, {count}, {.dtype = dtype, .device = s.settings.device});
}

}  // namespace

void all_gather_object(Session& s, const ProcessGroup& group) {
  const Function running(s, "all_gather_object");
  all_gather_single(s, group, numbers(s, group.size(), Dtype::int64), numbers(s, 1, Dtype::int64));
  all_gather_single(s, group, numbers(s, 0, Dtype::uint8), numbers(s, 0, Dtype::uint8));
}

void broadcast_object_list(Session& s, const ProcessGroup& group, int objects) {
  const Function running(s, "broadcast_object_list");
  broadcast(s, group, numbers(s, objects, Dtype::int64), 0);
  broadcast(s, group, numbers(s, 0, Dtype::uint8), 0);
}

}  // namespace shardscope::eager
