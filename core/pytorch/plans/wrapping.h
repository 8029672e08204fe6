// Policies that choose the modules which become FSDP units, as torch 2.15 distributed/fsdp/wrap.py
// has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/schedule/strategy.h"

namespace shardscope {

/// auto_wrap_policy=None: one unit.
struct NoWrap {
  bool operator==(const NoWrap&) const = default;
};

/// transformer_auto_wrap_policy: every instance of these classes, nested ones too.
struct TransformerWrap {
  std::vector<std::string> classes;
  bool operator==(const TransformerWrap&) const = default;
};

/// ModuleWrapPolicy: the same modules, found in one walk over the whole tree before any is wrapped.
struct ClassWrap {
  std::vector<std::string> classes;
  bool operator==(const ClassWrap&) const = default;
};

/// size_based_auto_wrap_policy: a module whose parameters, those wrapped below it left out, have at
/// least min_elements. Smaller ones and instances of force_leaf are not entered; instances of
/// exclude are entered but not wrapped.
struct SizeWrap {
  std::int64_t min_elements = 100'000'000;
  std::vector<std::string> force_leaf{"MultiheadAttention"};
  std::vector<std::string> exclude{"ModuleList", "ModuleDict"};
  bool operator==(const SizeWrap&) const = default;
};

/// lambda_auto_wrap_policy over module names; any name of a module that has several will do.
struct NameWrap {
  std::vector<std::string> modules;
  bool operator==(const NameWrap&) const = default;
};

/// always_wrap_policy.
struct AlwaysWrap {
  bool operator==(const AlwaysWrap&) const = default;
};

/// A module that CustomPolicy wraps, and what it overrides there of the root's arguments.
struct CustomUnit {
  std::string module;
  std::optional<ShardingStrategy> strategy;
  std::optional<bool> use_original_parameters;
  bool without_mixed_precision = false;
  bool operator==(const CustomUnit&) const = default;
};

/// CustomPolicy.
struct CustomWrap {
  std::vector<CustomUnit> units;
  bool operator==(const CustomWrap&) const = default;
};

using AutoWrap =
    std::variant<NoWrap, TransformerWrap, ClassWrap, SizeWrap, NameWrap, AlwaysWrap, CustomWrap>;

}  // namespace shardscope
