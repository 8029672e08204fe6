// The states of random generators, as PyTorch's libraries save them beside a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardscope {

/// What accelerate and the Trainer save of a process: Python's, NumPy's and torch's generators,
/// each pickled. Tensors are storages of bytes, in the order of `storages`.
struct RandomStates {
  std::string python;             ///< random.getstate()
  std::string numpy;              ///< numpy.random.get_state(), for NumPy 2
  std::string cpu;                ///< torch.get_rng_state()
  std::vector<std::string> gpus;  ///< torch.cuda.get_rng_state_all(), an element a GPU
  std::vector<std::string> storages;
};

/// As `set_seed(seed)` of both libraries leaves them: random.seed, numpy.random.seed,
/// torch.manual_seed, torch.cuda.manual_seed_all.
RandomStates seeded_random_states(std::uint32_t seed, int gpus);

}  // namespace shardscope
