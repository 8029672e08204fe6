#include "sim/hardware/cluster.h"

namespace shardscope {

std::string_view name_of(Fabric fabric) {
  switch (fabric) {
    case Fabric::nvswitch:
      return "nvswitch";
    case Fabric::nvlink_mesh:
      return "nvlink_mesh";
    case Fabric::nvlink_pairs:
      return "nvlink_pairs";
    case Fabric::pcie:
      return "pcie";
  }
  return "?";
}

std::string_view name_of(CpuVendor vendor) {
  switch (vendor) {
    case CpuVendor::intel:
      return "intel";
    case CpuVendor::amd:
      return "amd";
    case CpuVendor::arm:
      return "arm";
  }
  return "?";
}

std::string_view name_of(NetworkKind kind) {
  switch (kind) {
    case NetworkKind::infiniband:
      return "infiniband";
    case NetworkKind::roce:
      return "roce";
    case NetworkKind::tcp:
      return "tcp";
  }
  return "?";
}

}  // namespace shardscope
