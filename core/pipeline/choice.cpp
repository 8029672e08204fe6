#include "core/pipeline/choice.h"

#include <fmt/format.h>

#include <charconv>

#include "core/base/error.h"

namespace shardscope {
namespace {

constexpr int most_layers = 1 << 20;

[[noreturn]] void fail(std::string_view text, std::string_view where) {
  throw Error({.where = std::string(where),
               .what = fmt::format("\"{}\" is neither layers, work nor numbers of layers", text),
               .way_out = "give for example layers, work or 3,4,4,3"});
}

}  // namespace

std::string_view name_of(StageBalance balance) {
  return balance == StageBalance::layers ? "layers" : "work";
}

void parse_stages(std::string_view text, std::string_view where, PipelineChoice& choice) {
  choice.layers.clear();
  for (const StageBalance balance : {StageBalance::layers, StageBalance::work}) {
    if (text != name_of(balance)) continue;
    choice.balance = balance;
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
