#include "core/model/family.h"

namespace shardscope {

const std::vector<ModelFamily>& model_families() {
  static const std::vector<ModelFamily> families{gpt2_family(), llama_family()};
  return families;
}

}  // namespace shardscope
