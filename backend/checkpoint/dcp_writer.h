// Writes folders that torch.distributed.checkpoint loads.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backend/checkpoint/torch_archive_writer.h"
#include "core/model/model.h"

namespace shardscope {

/// A tensor or another value of a state dict.
struct DcpEntry {
  std::string name;  ///< the keys to it with dots between: "optimizer.param_groups.0.lr"
  std::string path;  ///< the keys, as a pickled tuple
  std::optional<Shape> shape = {};  ///< of a tensor
  FloatSource source = {};
  std::optional<std::size_t> same_as = {};  ///< a tensor that stands before, whose bytes it shares
  std::string value = {};                   ///< of what is no tensor: the value, pickled
};

/// Writes `.metadata`, last, and `__0_0.distcp` into a folder that exists. Throws Error.
void write_dcp(const std::filesystem::path& folder, const std::vector<DcpEntry>& entries);

}  // namespace shardscope
