#include "core/pipeline/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/base/error.h"

namespace shardscope {
namespace {

constexpr int most_layers = 1 << 20;
constexpr std::array<std::string_view, 4> balances{"layers", "work", "time", "memory"};
constexpr std::array<std::string_view, 3> checkpoints{"never", "except_last", "always"};

[[noreturn]] void fail(std::string_view text, std::string_view where) {
  throw Error({.where = std::string(where),
               .what = fmt::format(
                   "\"{}\" is none of layers, work, time, memory and numbers of layers", text),
               .way_out = "give for example layers, work or 3,4,4,3"});
}

}  // namespace

std::string_view name_of(StageBalance balance) {
  return balances[static_cast<std::size_t>(balance)];
}

std::string_view name_of(PipelineCheckpoint checkpoint) {
  return checkpoints[static_cast<std::size_t>(checkpoint)];
}

PipelineCheckpoint parse_pipeline_checkpoint(std::string_view text, std::string_view where) {
  const auto named = std::ranges::find(checkpoints, text);
  if (named == checkpoints.end())
    throw Error({.where = std::string(where),
                 .what = fmt::format("\"{}\" is none of {}", text, fmt::join(checkpoints, ", "))});
  return static_cast<PipelineCheckpoint>(named - checkpoints.begin());
}

int checkpointed_micro_batches(PipelineCheckpoint checkpoint, int micro_batches) {
  switch (checkpoint) {
    case PipelineCheckpoint::never:
      return 0;
    case PipelineCheckpoint::except_last:
      return micro_batches - 1;
    case PipelineCheckpoint::always:
      break;
  }
  return micro_batches;
}

void parse_stages(std::string_view text, std::string_view where, PipelineChoice& choice) {
  choice.layers.clear();
  if (const auto named = std::ranges::find(balances, text); named != balances.end()) {
    choice.balance = static_cast<StageBalance>(named - balances.begin());
    return;
  }
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int layers = 0;
    const auto [stopped, error] = std::from_chars(at, end, layers);
    if (error != std::errc{} || layers < 0 || layers > most_layers) fail(text, where);
    choice.layers.push_back(layers);
    if (stopped == end) return;
    if (*stopped != ',') fail(text, where);
    at = stopped + 1;
  }
}

std::string text_of_stages(const PipelineChoice& choice) {
  if (choice.layers.empty()) return std::string(name_of(choice.balance));
  return fmt::format("{}", fmt::join(choice.layers, ","));
}

}  // namespace shardscope
