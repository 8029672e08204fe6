// Values of Python expressions over names that are known.
#pragma once

#include <cstdint>
#include <deque>
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

/// What calls made. Python's names refer to them, so that a change by one name is seen by all.
class Objects {
 public:
  /// A value that refers to the new object.
  ConfigValue add(ConfigValue object, int line);
  /// The dict with the callee and the arguments; null: the value is no reference.
  ConfigValue* find(const ConfigValue& reference);
  std::uint32_t size() const { return static_cast<std::uint32_t>(objects_.size()); }

 private:
  std::deque<ConfigValue> objects_;
};

/// Of an object's dict: "Trainer.Config"; empty: it stands for a default that the file changes.
std::string callee_of(const ConfigValue& object);

/// What an expression may ask of the module around it.
struct Surroundings {
  const Names& locals;
  const std::string& file;
  /// A constant of the module; null: it has none of this name.
  std::function<const ConfigValue*(const std::string&)> constant;
  std::function<bool(const std::string&)> has_function, has_class;
  /// The result of one of the module's functions.
  std::function<ConfigValue(const std::string&, const ConfigValue& call)> call;
  Objects& objects;
  std::int64_t& budget;  ///< values that may still be made
  int& depth;            ///< of expressions in work, also of functions that call each other
};

/// A value that only running the code would tell. `text` is shown for it.
ConfigValue not_known(std::string text, int line);
/// Whether it can be told if it is true: not of an object.
bool is_known(const ConfigValue& value);

/// Of the tokens before `end` or a ":" or "=" outside of brackets; `at` is moved behind them.
/// Throws Error with file and line.
ConfigValue value_of(std::span<const Token> tokens, std::size_t& at, const Surroundings& around);

}  // namespace shardscope::python
