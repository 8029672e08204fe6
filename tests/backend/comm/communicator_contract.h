// The contract of backend/comm/communicator.h as checks that run on every implementation.
#pragma once

#include <span>

#include "backend/comm/communicator.h"

namespace shardscope::testing {

/// One fact. Every rank of the group calls `run` on a communicator of its own, whose calls block,
/// and whose arena the host may touch; a breach throws.
struct ContractCheck {
  const char* name;
  void (*run)(Communicator& group);
  /// Of the pairwise tree, in which sums of the host's memory are made, and only they.
  bool of_the_tree = false;
};

std::span<const ContractCheck> contract_checks();

}  // namespace shardscope::testing
