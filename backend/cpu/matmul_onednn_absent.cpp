#include "backend/cpu/matmul_library.h"

namespace shardscope::cpu {

std::unique_ptr<MatmulLibrary> make_matmul_library(int) { return nullptr; }

}  // namespace shardscope::cpu
