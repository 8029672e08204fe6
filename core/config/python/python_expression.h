// Values of Python expressions over names that are known.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "core/base/error.h"
#include "core/config/python/python_tokens.h"
#include "core/config/values/config_value.h"

namespace shardscope::python {

using Names = std::map<std::string, ConfigValue, std::less<>>;

/// What an expression may ask of the module around it.
struct Surroundings {
  const Names& locals;
  const Names& globals;
  const std::string& file;
  /// The result of one of the module's functions; none: it has no such function.
  std::function<std::optional<ConfigValue>(const std::string&, const ConfigValue& call)> call;
  std::int64_t& budget;  ///< values that may still be made
};

/// A value that only running the code would tell. `text` is shown for it.
ConfigValue not_known(std::string text, int line);
/// Whether it can be told if it is true: not of what an imported function returns.
bool is_known(const ConfigValue& value);

/// Of the tokens before `end` or a ":" or "=" outside of brackets; `at` is moved behind them.
/// Throws Error with file and line.
ConfigValue value_of(std::span<const Token> tokens, std::size_t& at, const Surroundings& around);

}  // namespace shardscope::python
