#include "backend/comm/nccl/library.h"

#include <fmt/format.h>

#include "backend/base/shared_library.h"

namespace shardscope {
namespace {

Nccl load_all() {
  const cuda::SharedLibrary library(
      fmt::format("libnccl.so.{}", NCCL_MAJOR),
      fmt::format("install NCCL {}.19 or later, or put its folder into LD_LIBRARY_PATH",
                  NCCL_MAJOR));
  Nccl functions{};
  library.load("ncclGetVersion", functions.get_version);
  library.load("ncclGetErrorString", functions.error_string);
  library.load("ncclGetLastError", functions.last_error);
  library.load("ncclGetUniqueId", functions.get_unique_id);
  library.load("ncclCommInitRankConfig", functions.comm_init_rank);
  library.load("ncclCommSplit", functions.comm_split);
  library.load("ncclCommFinalize", functions.comm_finalize);
  library.load("ncclCommDestroy", functions.comm_destroy);
  library.load("ncclCommAbort", functions.comm_abort);
  library.load("ncclCommGetAsyncError", functions.comm_async_error);
  library.load("ncclCommRegister", functions.comm_register);
  library.load("ncclCommDeregister", functions.comm_deregister);
  library.load("ncclMemAlloc", functions.mem_alloc);
  library.load("ncclMemFree", functions.mem_free);
  library.load("ncclAllGather", functions.all_gather);
  library.load("ncclReduceScatter", functions.reduce_scatter);
  library.load("ncclAllReduce", functions.all_reduce);
  library.load("ncclBroadcast", functions.broadcast);
  library.load("ncclSend", functions.send);
  library.load("ncclRecv", functions.receive);
  return functions;
}

}  // namespace

const Nccl& nccl() {
  static const Nccl functions = load_all();
  return functions;
}

std::string nccl_version_text() {
  int version = 0;
  nccl().get_version(&version);
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace shardscope
