#include "core/pytorch/engine/selective.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/pytorch/engine/session.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {

SelectiveCache::Calls& SelectiveCache::calls_of(const Operator& op) {
  const auto found = std::find_if(calls_.begin(), calls_.end(),
                                  [&](const Calls& calls) { return calls.op->name == op.name; });
  if (found != calls_.end()) return *found;
  calls_.push_back({.op = &op, .outputs = {}, .next = 0});
  return calls_.back();
}

void SelectiveCache::note(const Operator& op, std::optional<Tensors> outputs) {
  calls_of(op).outputs.push_back(std::move(outputs));
}

std::optional<Tensors> SelectiveCache::take(const Operator& op) {
  Calls& calls = calls_of(op);
  if (calls.next == calls.outputs.size())
    throw Error({.where = std::string(op.name),
                 .what = "runs more often in recomputation than in forward",
                 .way_out = {}});
  return std::exchange(calls.outputs[calls.next++], std::nullopt);
}

void SelectiveCache::rewind() {
  for (Calls& calls : calls_) calls.next = 0;
}

Tensor as_one_operator(Session& s, const Operator& op, const std::function<Tensor()>& run) {
  if (SelectiveCache* const replay = s.selective_replay) {
    if (std::optional<Tensors> kept = replay->take(op)) return std::move(kept->front());
    const Scoped<SelectiveCache*> unseen(s.selective_replay, nullptr);
    return run();
  }
  SelectiveCache* const cache = s.selective_forward;
  if (!cache) return run();
  const Scoped<SelectiveCache*> unseen(s.selective_forward, nullptr);
  Tensor result = run();
  std::optional<Tensors> kept;
  if (cache->keeps(op)) kept = Tensors{detach(s, result)};
  cache->note(op, std::move(kept));
  return result;
}

}  // namespace shardscope::eager
