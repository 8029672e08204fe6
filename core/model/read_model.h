// What kind of file describes a model, and reading it.
#pragma once

#include <filesystem>
#include <string_view>

#include "core/model/huggingface.h"
#include "core/model/model.h"

namespace shardscope {

/// `folder_or_file` is a Hugging Face folder or config.json, an export of ours, a safetensors file
/// or its index. Throws Error with file, line and key: unknown model_type or architecture (names
/// those known), wrong type, shapes that do not divide, files that are missing or are pickles.
Model read_model(const std::filesystem::path& folder_or_file, const ModelOptions& options = {});
/// The file in a folder that describes its model: config.json, else the index or the file of its
/// safetensors; config.json where there is none of them. A file is itself.
std::filesystem::path model_file(const std::filesystem::path& folder_or_file);

/// The model of any JSON that describes one, told apart by its keys: an export of ours, an index or
/// a header of safetensors, a config.json. `path` is where it came from.
Model model_of_json(std::string_view text, const std::filesystem::path& path,
                    const ModelOptions& options = {});

}  // namespace shardscope
