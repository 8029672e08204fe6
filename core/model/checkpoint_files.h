// The safetensors files of a saved model: which parameter lies where, as transformers'
// save_pretrained decides it.
#pragma once

#include <string>
#include <vector>

#include "core/base/quantities.h"
#include "core/format/safetensors.h"
#include "core/model/model.h"

namespace shardscope {

struct CheckpointFile {
  std::string name;  ///< "model.safetensors" or "model-00001-of-00012.safetensors"
  SafetensorsHeader header;
};

struct CheckpointFiles {
  std::vector<CheckpointFile> files;
  std::string index;  ///< text of model.safetensors.index.json; empty for a single file
};

inline constexpr Bytes default_max_shard = 50_GB;

/// What the files hold: Model::stored, or every parameter under its own name.
std::vector<StoredTensor> stored_tensors(const Model& model);

/// A tied parameter is stored once, under its first name. Files fill up in state_dict() order, or
/// that of Model::stored, to at most `max_shard`; a larger tensor has a file of its own; a block of
/// views counts as one tensor. Source: huggingface_hub, split_torch_state_dict_into_shards.
/// Example: 3 tensors of 4 GB, max_shard 10 GB: two in the first file, one in the second.
CheckpointFiles checkpoint_files(const Model& model, Bytes max_shard = default_max_shard);

}  // namespace shardscope
