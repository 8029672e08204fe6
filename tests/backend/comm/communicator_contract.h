// The contract of backend/communicator.h as checks that run on every implementation.
#pragma once

#include <span>

#include "backend/communicator.h"

namespace shardscope::testing {

/// One fact. Every rank of the group calls `run` on a communicator of its own; a breach throws.
struct ContractCheck {
  const char* name;
  void (*run)(Communicator& group);
};

std::span<const ContractCheck> contract_checks();

}  // namespace shardscope::testing
