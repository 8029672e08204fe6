#include "sim/validate/known_positions.h"

#include <algorithm>
#include <array>

namespace shardscope {
namespace {

struct Positions {
  std::string_view name;
  std::int64_t count;
};

/// The first that the name holds counts. From memory; not checked against the
/// config.json files.
constexpr std::array<Positions, 31> known{{{"tinyllama", 2048},
                                           {"codellama", 16384},
                                           {"distillqwen", 131072},
                                           {"distillllama", 131072},
                                           {"llama2", 4096},
                                           {"llama3.", 131072},
                                           {"llama3", 8192},
                                           {"llama7b", 2048},
                                           {"llama13b", 2048},
                                           {"solar", 4096},
                                           {"mistralnemo", 131072},
                                           {"mistralsmallinstruct2409", 32768},
                                           {"mistralsmall22b", 32768},
                                           {"mistralsmall", 131072},
                                           {"magistralsmall", 40960},
                                           {"phi3mini4k", 4096},
                                           {"phi3medium4k", 4096},
                                           {"phi3.5mini", 131072},
                                           {"phi4mini", 131072},
                                           {"phi4", 16384},
                                           {"yi6b", 4096},
                                           {"yi9b", 4096},
                                           {"yi34b", 4096},
                                           {"gemma2b", 8192},
                                           {"gemma7b", 8192},
                                           {"gemma22b", 8192},
                                           {"gemma29b", 8192},
                                           {"gemma227b", 8192},
                                           {"qwen27b", 131072},
                                           {"qwen314bbase", 32768},
                                           {"qwen3", 40960}}};

}  // namespace

std::int64_t known_positions(std::string_view name) {
  constexpr std::int64_t usual = 32768;  // of Mistral 7B, Qwen 1.5 and Qwen 2.5
  const auto found = std::ranges::find_if(known, [&](const Positions& positions) {
    return name.find(positions.name) != std::string_view::npos;
  });
  return found == known.end() ? usual : found->count;
}

}  // namespace shardscope
