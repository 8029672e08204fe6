// Stands in for nccl_communicator.cpp where NCCL was not found at build time.
#include "backend/comm/nccl/communicator.h"
#include "core/base/error.h"

namespace shardscope {

bool has_nccl() { return false; }

std::unique_ptr<Communicator> make_nccl_communicator(const NcclPlace&, Device&, const ShareBytes&) {
  throw Error({.where = "communicator nccl",
               .what = "this program was built without NCCL",
               .way_out = "install NCCL beside the CUDA toolkit and build again",
               .code = ExitCode::outside});
}

}  // namespace shardscope
