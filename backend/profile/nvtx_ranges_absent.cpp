#include "backend/profile/nvtx_ranges.h"

namespace shardscope {

std::unique_ptr<Probe> make_nvtx_ranges(const Schedule&) { return nullptr; }

}  // namespace shardscope
