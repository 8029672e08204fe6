#include "traces/kineto_names.h"

#include <fmt/format.h>

namespace shardscope {
namespace {

/// NCCL's suffix of a reduction kernel's element type.
std::string_view nccl_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::float64:
      return "f64";
    case Dtype::float32:
      return "f32";
    case Dtype::float16:
      return "f16";
    case Dtype::bfloat16:
      return "bf16";
    case Dtype::int64:
      return "i64";
    case Dtype::int32:
      return "i32";
    case Dtype::int16:
    case Dtype::int8:
      return "i8";
    case Dtype::uint8:
    case Dtype::boolean:
      return "u8";
    case Dtype::uint64:
      return "u64";
  }
  return "f32";
}

std::string nccl_function(OperationKind kind, Dtype dtype) {
  switch (kind) {
    case OperationKind::all_gather:
      return "AllGather_RING_LL";
    case OperationKind::reduce_scatter:
      return fmt::format("ReduceScatter_Sum_{}_RING_LL", nccl_type(dtype));
    case OperationKind::all_reduce:
    case OperationKind::barrier:
      return fmt::format("AllReduce_Sum_{}_RING_LL", nccl_type(dtype));
    case OperationKind::reduce:
      return fmt::format("Reduce_Sum_{}_RING_LL", nccl_type(dtype));
    case OperationKind::broadcast:
      return "Broadcast_RING_LL";
    case OperationKind::scatter:
    case OperationKind::all_to_all:
    case OperationKind::send:
    case OperationKind::receive:
      return "SendRecv";
    case OperationKind::compute:
    case OperationKind::copy:
    case OperationKind::host:
    case OperationKind::optimizer:
      break;
  }
  return "Generic";
}

}  // namespace

std::string nccl_kernel_name(OperationKind kind, Dtype dtype) {
  return fmt::format("ncclDevKernel_{}(ncclDevKernelArgsStorage<4096ul>)",
                     nccl_function(kind, dtype));
}

std::string_view memcpy_name(CopyWay way) {
  switch (way) {
    case CopyWay::to_host:
      return "Memcpy DtoH (Device -> Pinned)";
    case CopyWay::to_device:
      return "Memcpy HtoD (Pinned -> Device)";
    case CopyWay::within:
      break;
  }
  return "Memcpy DtoD (Device -> Device)";
}

std::string_view collective_name(OperationKind kind) {
  switch (kind) {
    case OperationKind::all_gather:
      return "_allgather_base";
    case OperationKind::reduce_scatter:
      return "_reduce_scatter_base";
    case OperationKind::all_reduce:
      return "allreduce";
    case OperationKind::all_to_all:
      return "all_to_allv";
    case OperationKind::receive:
      return "recv";
    default:
      return name_of(kind);  // reduce, broadcast, scatter, send, barrier
  }
}

std::string_view c10_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::float64:
      return "Double";
    case Dtype::float32:
      return "Float";
    case Dtype::float16:
      return "Half";
    case Dtype::bfloat16:
      return "BFloat16";
    case Dtype::int64:
      return "Long";
    case Dtype::int32:
      return "Int";
    case Dtype::int16:
      return "Short";
    case Dtype::int8:
      return "Char";
    case Dtype::uint8:
      return "Byte";
    case Dtype::boolean:
      return "Bool";
    case Dtype::uint64:
      return "UInt64";
  }
  return "Float";
}

}  // namespace shardscope
