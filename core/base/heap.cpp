#include "core/base/heap.h"

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace shardscope {

void keep_freed_memory() {
#ifdef __GLIBC__
  // Setting one threshold stops glibc from adapting the other, so both are set. 32 MiB is its
  // largest value for mmap.
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
#endif
}

}  // namespace shardscope
