// The command line of Megatron-LM, in a shell script or a file of arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/megatron/settings.h"

namespace shardscope::megatron {

/// A flag that cannot be taken as it stands.
struct Problem {
  std::string flag;  ///< "num-experts"
  int line = 0;
  std::string what, way_out;
  bool is_refused = true;  ///< by Megatron-LM; else it would train, and it is not predicted here
  bool is_read = true;     ///< else the settings have something else in its place
};

/// A flag that is taken otherwise than it seems to say.
struct Remark {
  enum class Kind : std::uint8_t {
    ignored,     ///< Megatron-LM does not look at it
    deprecated,  ///< Megatron-LM has another flag for it
    ambiguous,   ///< it, or a variable in it, stands several times with other values
    unknown      ///< no argument that is known here
  };
  Kind kind = Kind::ignored;
  std::string flag;
  int line = 0;
  std::string what;
};

/// What a command line says, at the defaults of Megatron-LM where it says nothing.
struct Arguments {
  Settings settings;       ///< `world` is 1 where it is not said
  bool has_model = false;  ///< it says layers, hidden size and heads
  bool has_length = false, has_world = false;
  std::vector<std::string> assumed;  ///< defaults that were taken, and what is not modelled
  std::vector<Problem> problems;     ///< empty after read_arguments
  std::vector<Remark> remarks;
  std::vector<std::string> missing;  ///< required flags that are not there: "micro-batch-size"
  bool passes_arguments = false;     ///< the script's caller may add flags ("$@")
  std::string max_connections;       ///< CUDA_DEVICE_MAX_CONNECTIONS, as the script sets it
  Origin origin;                     ///< of the settings
};

/// Whether the text is such a command line: it has --tensor-model-parallel-size, or the sizes of a
/// model as Megatron-LM writes them.
bool is_megatron(std::string_view text);

/// All flags of the text count, wherever they stand: in a command, in a variable, in an array. The
/// last one of a name decides. Variables are followed as read_shell does. Defaults and the meaning
/// of flags: Megatron-LM d98e8a6, megatron/training/arguments.py,
/// core/transformer/transformer_config.py. Throws Error as read_shell does.
Arguments inspect_arguments(std::string_view text, const std::string& file);

/// The same. Throws Error with file, line and flag of the first problem.
Arguments read_arguments(std::string_view text, const std::string& file);

}  // namespace shardscope::megatron
