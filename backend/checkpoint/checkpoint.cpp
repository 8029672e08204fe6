#include "backend/checkpoint/checkpoint.h"

#include <set>

namespace shardscope {

std::vector<std::string> Checkpoint::states() const {
  std::set<std::string> states;
  for (const Tensor& tensor : tensors())
    states.insert(std::string(split_tensor_name(tensor.name).state));
  return {states.begin(), states.end()};
}

}  // namespace shardscope
