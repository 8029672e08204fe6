// PyTorch's execution traces (ExecutionTraceObserver, Chakra's schema): operators with the shapes
// that a profiler's trace leaves out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace shardscope {

struct ExecutionNode {
  std::int64_t id = 0;
  std::string name;
  std::int64_t record_function = -1;  ///< "rf_id", the profiler's "Record function id"; -1: none
  std::string input_shapes;           ///< JSON text
};

struct ExecutionTrace {
  std::vector<std::pair<std::string, std::string>> header;  ///< keys beside the nodes, JSON values
  std::vector<ExecutionNode> nodes;                         ///< in the order of the file
};

/// Reads a file, gzip or plain. Throws Error for one that is none.
ExecutionTrace read_execution_trace(const std::filesystem::path& path);

}  // namespace shardscope
