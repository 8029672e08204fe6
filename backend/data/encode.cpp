#include "backend/data/encode.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string_view>

#include "backend/data/llm_c_header.h"
#include "backend/data/token_stream.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"

namespace shardscope {
namespace {

std::string header_of(std::int64_t tokens) {
  if (tokens > std::numeric_limits<std::int32_t>::max()) {
    throw Error({.where = "--format llm_c",
                 .what = fmt::format("{} tokens do not fit in the header's int32 count", tokens),
                 .way_out = "encode in several files, or as uint16"});
  }
  const LlmCHeader header{llm_c_magic, llm_c_version, static_cast<std::int32_t>(tokens)};
  return {reinterpret_cast<const char*>(header.data()), sizeof header};
}

}  // namespace

EncodeResult encode(const EncodeRequest& request) {
  const TokenStream stream = TokenStream::open(request.text, TokenFormat::text);
  std::string content =
      request.format == TokenFormat::llm_c ? header_of(stream.size()) : std::string();
  content.reserve(content.size() + 2 * static_cast<std::size_t>(stream.size()));
  std::array<std::int32_t, 4096> part{};
  for (std::int64_t done = 0; done < stream.size();) {
    const auto n =
        static_cast<std::size_t>(std::min<std::int64_t>(part.size(), stream.size() - done));
    stream.copy(done, std::span(part).first(n));
    for (const std::int32_t token : std::span(part).first(n)) {
      content.push_back(static_cast<char>(token & 0xff));
      content.push_back(static_cast<char>(token >> 8));
    }
    done += static_cast<std::int64_t>(n);
  }
  write_atomically(request.output, content);
  return {.tokens = stream.size(), .notes = stream.notes()};
}

}  // namespace shardscope
