// Any bytes as a script with Megatron-LM's command line: either an Error, or settings that the
// checks take or refuse.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/base/error.h"
#include "core/config/megatron/arguments.h"
#include "core/config/megatron/lint.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardscope;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    megatron::lint_command_line(text, "run.sh", 8);
    const megatron::Arguments arguments = megatron::read_arguments(text, "run.sh");
    megatron::check(arguments.settings, arguments.origin);
    if (arguments.settings.micro_batches() < 1) std::abort();
    int layers = 0;
    for (const int of_stage : arguments.settings.stage_layers()) {
      if (of_stage < 0) std::abort();
      layers += of_stage;
    }
    if (layers != arguments.settings.shape.layers) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
