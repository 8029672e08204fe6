// The trained model as a folder that transformers loads.
#pragma once

#include <filesystem>

#include "backend/comm/communicator.h"
#include "backend/train/trainer.h"

namespace shardscope {

/// Collective: rank 0 writes `folder`, the others send it their shards, a piece at a time. `source`
/// is the folder or config.json that the model was read from. Frozen parameters are written bit for
/// bit as they were at the start. Throws Error (ExitCode::outside) where rank 0 cannot write.
void save_model(const std::filesystem::path& folder, const std::filesystem::path& source,
                Trainer& trainer, Communicator& world);

}  // namespace shardscope
