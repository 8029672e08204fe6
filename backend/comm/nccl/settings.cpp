#include "backend/comm/nccl/settings.h"

#include <fmt/format.h>

#include <cstdlib>

namespace shardscope {

Variables nccl_defaults(const NcclSituation& situation) {
  Variables variables{{"NCCL_LAUNCH_ORDER_IMPLICIT", "1"},
                      {"NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN"}};  // backend/profile/nccl_plugin.h
  if (situation.deterministic) variables.insert({{"NCCL_ALGO", "Ring"}, {"NCCL_PROTO", "Simple"}});
  if (!situation.shares_gpu) return variables;
  variables.insert({{"NCCL_HOSTID", fmt::format("shardscope-{}", situation.rank)},
                    {"NCCL_ALGO", "Ring"},
                    {"NCCL_IB_DISABLE", "1"},
                    {"NCCL_MAX_CTAS", "2"},
                    {"NCCL_MNNVL_ENABLE", "0"},
                    {"NCCL_NET", "Socket"},
                    {"NCCL_NVLS_ENABLE", "0"},
                    {"NCCL_RAS_ENABLE", "0"}});
  if (situation.on_one_host) variables.insert({"NCCL_SOCKET_IFNAME", "lo"});
  return variables;
}

void set_missing(const Variables& variables) {
  constexpr int keep = 0;
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), keep);
}

std::string nccl_variables_text(const Variables& variables) {
  std::string text;
  for (const auto& [name, value] : variables) {
    if (!name.starts_with("NCCL_")) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  }
  return text;
}

}  // namespace shardscope
