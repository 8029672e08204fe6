// torch.distributed's collectives of pickled objects. What a pickle weighs is Python's affair, so
// that its tensors have no elements here.
#pragma once

#include "core/pytorch/engine/session.h"
#include "core/pytorch/runtimes/common/process_group.h"

namespace shardscope::eager {

/// dist.all_gather_object: the sizes, then the objects.
void all_gather_object(Session& s, const ProcessGroup& group);

/// dist.broadcast_object_list of `objects` objects from the group's first rank.
void broadcast_object_list(Session& s, const ProcessGroup& group, int objects = 1);

}  // namespace shardscope::eager
