#include "core/model/read_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "core/format/atomic_file.h"
#include "core/format/is_there.h"
#include "core/format/json_reader.h"
#include "core/model/export.h"
#include "core/model/tensor_files.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t largest_file_bytes = 256 << 20;
constexpr std::size_t sniffed_bytes = 16;

/// In the order in which they are preferred.
constexpr std::string_view files_in_folder[] = {"config.json", "model.safetensors.index.json",
                                                "model.safetensors", "pytorch_model.bin.index.json",
                                                "pytorch_model.bin"};

/// The first bytes; fewer, or none, of a file that is short or cannot be read.
std::string first_bytes(const fs::path& path) {
  std::string bytes(sniffed_bytes, '\0');
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return {};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

/// Eight bytes of length, of which a header leaves the highest four empty, and its JSON.
bool begins_like_safetensors(std::string_view bytes) {
  constexpr std::size_t length_bytes = 8;
  return bytes.size() > length_bytes && bytes[length_bytes] == '{' &&
         bytes.substr(4, 4) == std::string_view("\0\0\0\0", 4);
}

bool begins_like_pickle(std::string_view bytes) {
  return bytes.starts_with("PK\x03\x04") || bytes.starts_with('\x80');
}

bool is_safetensors_header(const JsonValue& json) {
  const auto members = json.members();
  const auto first = std::find_if(members.begin(), members.end(), [](const auto& member) {
    return member.first != "__metadata__";
  });
  return first != members.end() && first->second.is_object() && first->second.has("data_offsets");
}

}  // namespace

fs::path model_file(const fs::path& folder_or_file) {
  std::error_code ignored;
  if (!fs::is_directory(folder_or_file, ignored)) return folder_or_file;
  for (const std::string_view name : files_in_folder)
    if (is_there(folder_or_file / name)) return folder_or_file / name;
  return config_path(folder_or_file);
}

Model model_of_json(std::string_view text, const fs::path& path, const ModelOptions& options) {
  // transformers reads with Python's json, where the last of two equal keys wins.
  const JsonValue json = JsonValue::parse(text, path.string(), DuplicateKeys::last_wins);
  if (json.is_object()) {
    if (json.has("schema")) return model_of_export(JsonValue::parse(text, path.string()));
    if (json.has("weight_map")) return model_of_safetensors_index(json, path);
    if (is_safetensors_header(json)) return model_of_safetensors_header(json);
  }
  return model_of_config(json, options);
}

Model read_model(const fs::path& folder_or_file, const ModelOptions& options) {
  const fs::path path = model_file(folder_or_file);
  const std::string bytes = first_bytes(path);
  // By its name too: what is wrong with its header is then told as such.
  const bool named = path.extension() == ".safetensors" && !bytes.starts_with('{');
  if (named || begins_like_safetensors(bytes)) return model_of_safetensors(path);
  if (begins_like_pickle(bytes))
    throw Error({.where = path.string(),
                 .what = "is a pickle of PyTorch, which is not read",
                 .way_out = "save_pretrained of the loaded model writes safetensors, and "
                            "examples/pytorch/export_model.py describes any model"});
  return model_of_json(read_whole(path, largest_file_bytes), path, options);
}

}  // namespace shardscope
