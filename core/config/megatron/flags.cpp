#include "core/config/megatron/flags.h"

#include <algorithm>
#include <utility>

namespace shardscope::megatron {
namespace {

std::string first_value(const Flag& flag) {
  return flag.values.empty() ? std::string() : flag.values.front();
}

void keep(Flags& flags, Flag flag) {
  const auto [found, fresh] = flags.try_emplace(flag.name, flag);
  Flag& last = found->second;
  if (fresh || first_value(last) == first_value(flag)) return;
  flag.has_several = true;
  last = std::move(flag);
}

}  // namespace

Flags flags_of(const ShellScript& script) {
  Flags flags;
  Flag flag;
  const auto end_flag = [&] {
    if (!flag.name.empty()) keep(flags, std::exchange(flag, {}));
  };
  for (const ShellWord& word : script.words) {
    if (word.text.size() < 3 || !word.text.starts_with("--")) {
      if (flag.values.empty()) flag.unsure = word.unsure, flag.is_followed = !word.begins;
      if (!flag.name.empty()) flag.values.push_back(word.text);
      continue;
    }
    end_flag();
    flag = {
        .name = word.text.substr(2), .written = {}, .values = {}, .line = word.line, .unsure = {}};
    if (const std::size_t equals = flag.name.find('='); equals != std::string::npos) {
      flag.values.push_back(flag.name.substr(equals + 1));
      flag.name.erase(equals);
      flag.unsure = word.unsure;
      flag.is_followed = true;
    }
    flag.written = flag.name;
    std::ranges::replace(flag.name, '_', '-');
  }
  end_flag();
  return flags;
}

}  // namespace shardscope::megatron
