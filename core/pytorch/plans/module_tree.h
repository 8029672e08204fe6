// The tree of modules as torch.nn.Module holds it: what wrapping policies walk and flat parameters
// are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/model/model.h"

namespace shardscope {

/// One name of a parameter. A tied parameter has several, each registered in its own module.
struct TreeParameter {
  std::string name;  ///< full: "transformer.h.0.attn.c_attn.weight"
  Shape shape;
  Dtype dtype = Dtype::float32;
  bool trainable = true;
  /// Index in ModuleTree::parameters of the first name of the same object; none: this is the first.
  std::optional<std::int32_t> same_as;

  std::int64_t elements() const { return elements_of(shape); }
  bool operator==(const TreeParameter&) const = default;
};

struct TreeModule {
  std::string name;  ///< full; "" is the root
  std::string class_name;
  /// Classes above it, nearest first, up to but without Module; policies test with isinstance.
  std::vector<std::string> bases;
  std::vector<std::int32_t> parameters;  ///< its own, in registration order
  std::vector<std::int32_t> children;    ///< in registration order
  std::int32_t parent = -1;              ///< -1: the root
  /// Index of an earlier module that is the same object, registered again under this name.
  std::optional<std::int32_t> same_as;

  bool is(std::string_view class_or_base) const;
  bool operator==(const TreeModule&) const = default;
};

/// Pre-order, children in registration order: named_modules(remove_duplicate=False) and
/// named_parameters(remove_duplicate=False).
struct ModuleTree {
  std::vector<TreeParameter> parameters;
  std::vector<TreeModule> modules;  ///< [0] is the root

  bool operator==(const ModuleTree&) const = default;
};

/// Whether any class is known; the files of weights name none.
bool names_classes(const ModuleTree& tree);

/// The model's own tree. Tied names stand where their module registers them.
ModuleTree tree_of(const Model& model);

}  // namespace shardscope
