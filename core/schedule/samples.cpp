#include "core/schedule/samples.h"

#include "core/schedule/kernel_fields.h"

namespace shardscope {

Kernel cost_key(const Kernel& kernel) {
  return kernel.visit([]<class K>(const K& k) -> Kernel {
    K key;
    for_each_cost_field<K>([&](std::string_view, auto member) { key.*member = k.*member; });
    return key;
  });
}

}  // namespace shardscope
