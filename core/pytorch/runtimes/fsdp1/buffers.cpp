#include "core/pytorch/runtimes/fsdp1/buffers.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/runtimes/fsdp1/flat_handle.h"

namespace shardscope::eager::fsdp1 {
namespace {

struct BufferCast {
  Tensor buffer;
  std::optional<Dtype> dtype;
};

void cast(Session& s, const BufferCast& wanted) {
  const NoGrad no_grad(s);
  const auto dtype = wanted.buffer.is_floating_point() ? wanted.dtype : std::nullopt;
  wanted.buffer.set_data(to(s, wanted.buffer, {.dtype = dtype, .device = s.settings.device}));
}

/// Innermost units first, each buffer once.
std::vector<BufferCast> casts_for_computation(const Shared& shared) {
  std::vector<BufferCast> casts;
  for (auto unit = shared.units.rbegin(); unit != shared.units.rend(); ++unit)
    for (const auto& [name, buffer] : named_buffers_of(*(*unit)->wrapper)) {
      const bool known = std::any_of(casts.begin(), casts.end(), [&](const BufferCast& other) {
        return other.buffer.is(buffer);
      });
      if (!known) casts.push_back({buffer, (*unit)->precision.buffers});
    }
  return casts;
}

bool forces_full_precision(const Shared& shared) {
  const Unit& root = *shared.units.front();
  if (root.handle) return root.handle->forces_full_precision();
  return std::any_of(shared.units.begin(), shared.units.end(), [](const Unit* unit) {
    return unit->handle && unit->handle->forces_full_precision();
  });
}

}  // namespace

void cast_buffers_for_computation(Session& s, const Shared& shared) {
  for (const BufferCast& wanted : casts_for_computation(shared)) cast(s, wanted);
}

void prepare_buffers(Session& s, Shared& shared) {
  if (forces_full_precision(shared)) {
    for (const Shared::Buffer& buffer : shared.buffers) cast(s, {buffer.tensor, buffer.dtype});
    shared.buffers_may_be_in_full_precision = true;
  } else if (shared.buffers_may_be_in_full_precision) {
    cast_buffers_for_computation(s, shared);
    shared.buffers_may_be_in_full_precision = false;
  }
}

}  // namespace shardscope::eager::fsdp1
