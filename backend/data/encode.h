// Text to token files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/native/job.h"

namespace shardscope {

struct EncodeRequest {
  std::vector<std::filesystem::path> text;  ///< files and folders, as TokenStream reads them
  std::filesystem::path output;
  TokenFormat format = TokenFormat::uint16;  ///< uint16 or llm_c
};

struct EncodeResult {
  std::int64_t tokens = 0;
  std::vector<std::string> notes;  ///< skipped files
};

/// Writes the bytes of the text as tokens 0..255, atomically. Throws Error.
EncodeResult encode(const EncodeRequest& request);

}  // namespace shardscope
