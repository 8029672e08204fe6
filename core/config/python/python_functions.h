// What a Python function returns that puts a configuration together, without running Python.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/values/config_value.h"

namespace shardscope {

/// The file of "config_registry.py:llama3_8b", a function of a Python module, and that function's
/// name; else the name itself, and no function. Example: "a.py" has the file "a.py".
struct PythonName {
  std::string file, function;
};
PythonName python_name(std::string_view name);

/// The key under which the dict of a call has the callee's name. Arguments stand under their names,
/// those without a name under "0", "1" and so on. Example: Trainer.Config(seed=1) is
/// {"()": "Trainer.Config", "seed": 1}.
constexpr std::string_view callee_key = "()";

struct PythonResult {
  ConfigValue value;
  struct Skipped {
    int line = 0;
    std::string text;  ///< "enable_fused_swiglu(config)"
  };
  std::vector<Skipped> skipped;  ///< statements that were left out and may change the value
};

/// Functions of a module that can be called without arguments, but for those that begin with "_".
/// Throws Error with file and line where the text is no Python.
std::vector<std::string> python_functions(std::string_view text, const std::string& file);

/// What `function` returns. Assignments, also to attributes and by two names of one value, branches
/// whose condition is known, dataclasses.replace, and calls of the module's own functions are
/// followed. What comes from an import is a call, or a PythonObject that stands for it. Throws
/// Error with file and line at a loop, at a condition or a change that is not known, and where
/// there is no such function.
PythonResult python_result(std::string_view text, const std::string& file,
                           std::string_view function);

}  // namespace shardscope
