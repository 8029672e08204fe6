// FSDP2 over a chain of linear layers, and its collectives in short.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/pytorch/runtimes/fsdp2/fully_shard.h"

namespace shardscope::eager {

/// Linear layers "0", "1", ... without biases, sizes[i] to sizes[i + 1].
std::shared_ptr<Module> chain(Session& s, const std::vector<std::int64_t>& sizes);
/// Two rows of `width` floats.
Tensor input(Session& s, std::int64_t width);

/// Elements put in and held after each collective, and its dtype.
struct Collectives : Observer {
  std::vector<std::string> rows;
  void on_collective(Session&, const CollectiveCall& call) override;
};

struct Fsdp2 {
  Fsdp2(Session& s, int ranks, const std::shared_ptr<Module>& module)
      : session(s), groups(ranks, 0), root(module), sharded(s, groups) {}

  /// Each layer, then the root, over all ranks where `options` has no mesh.
  void shard_all(fsdp2::Options options);
  Tensor forward(std::int64_t width);
  void step(std::int64_t width);

  Session& session;
  ProcessGroups groups;
  std::shared_ptr<Module> root;
  fsdp2::FullySharded sharded;
};

}  // namespace shardscope::eager
