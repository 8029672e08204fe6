// A model from safetensors files alone: names, shapes and dtypes, and the modules that the names
// imply.
#pragma once

#include <filesystem>

#include "core/format/json_reader.h"
#include "core/model/model.h"

namespace shardscope {

/// A safetensors file; its header is enough. Classes are not known, floating-point tensors count as
/// parameters and others as buffers. Throws Error with the file.
Model model_of_safetensors(const std::filesystem::path& path);
/// The header's JSON alone.
Model model_of_safetensors_header(const JsonValue& header);
/// model.safetensors.index.json with the files that it names beside it; Error where one is missing:
/// an index has names only. So for an index of PyTorch's own files (.bin), which are not read.
Model model_of_safetensors_index(const JsonValue& index, const std::filesystem::path& path);

}  // namespace shardscope
