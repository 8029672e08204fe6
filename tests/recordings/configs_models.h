// The small models that the recordings of configurations were made with.
#pragma once

#include <string>

#include "core/config/accelerate/prepared.h"

namespace shardscope::recordings {

/// "bert", "gpt2", "llama", "t5", "mixtral", or "mlp", which is plain torch. Source:
/// ../shared/data/pytorch/configs/record.py, tiny_model.
accelerate::PreparedModel tiny_model(const std::string& name);

}  // namespace shardscope::recordings
