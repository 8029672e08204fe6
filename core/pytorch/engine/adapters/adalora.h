// PEFT's AdaLoRA: an update of three factors, and the importance of each of its ranks.
// Source: peft 0.21.2, tuners/adalora.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

struct AdaLoraShape {
  std::int64_t in, out, rank;
};
/// SVDLinear around `base`. `like` is what the factors are made in.
std::shared_ptr<Module> adalora_layer(Session& s, std::shared_ptr<Module> base,
                                      const AdaLoraShape& shape, double dropout, Like like);
bool is_adalora(const Module& layer);
/// The number of ranks that are left.
Tensor& rank_count_of(Module& layer);

/// SVDLinear.merge.
void merge_adalora(Session& s, Module& layer);

/// cast_adapter_dtype: each factor by itself.
void cast_adalora(Session& s, Module& layer, Dtype dtype);

/// The loss and the orthogonality of all factors below `root`: AdaLoraModel.forward.
Tensor with_orthogonality(Session& s, Module& root, Tensor loss);

/// AdaLoraModel.update_and_allocate after a step, while there are gradients. It keeps the
/// importance of each parameter. The masks that it makes of them are left out.
class RankAllocator {
 public:
  void update(Session& s, Module& root);

 private:
  struct Importance {
    Tensor sensitivity, smoothed, uncertainty;
  };
  std::map<std::string, Importance> importances_;
};

}  // namespace shardscope::eager
