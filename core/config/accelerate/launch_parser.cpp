#include <fmt/format.h>

#include <algorithm>

#include "core/base/refusal.h"
#include "core/config/accelerate/launch_flags.h"
#include "core/config/values/python_arithmetic.h"
#include "core/config/values/python_number.h"
#include "core/format/python_text.h"

namespace shardscope::accelerate {
namespace {

/// argparse prints its complaint and exits with code 2.
Refusal usage_error(std::string what) { return {"SystemExit", std::move(what)}; }

bool is_choice(std::string_view choices, std::string_view word) {
  while (!choices.empty()) {
    const std::size_t bar = std::min(choices.find('|'), choices.size());
    if (choices.substr(0, bar) == word) return true;
    choices.remove_prefix(std::min(bar + 1, choices.size()));
  }
  return false;
}

ConfigValue truths_of(std::string_view text) {
  ConfigValue::List result;
  while (true) {
    const std::size_t comma = text.find(',');
    result.emplace_back(str_to_bool(text.substr(0, comma)) ? 1 : 0);
    if (comma == std::string_view::npos) return ConfigValue(std::move(result));
    text.remove_prefix(comma + 1);
  }
}

ConfigValue converted(FlagKind kind, const std::string& text) {
  if (kind == FlagKind::integer) return python_integer(text);
  if (kind == FlagKind::number) return python_float_of(text);
  if (kind == FlagKind::any_text_is_true) return !text.empty();
  if (kind == FlagKind::truth) return str_to_bool(text) ? 1 : 0;
  if (kind == FlagKind::truths) return truths_of(text);
  return text;
}

bool takes_value(FlagKind kind) {
  return kind != FlagKind::set_true && kind != FlagKind::set_false;
}

/// A word that argparse takes for a flag: not a lone dash, not a negative number.
bool looks_like_flag(const std::string& word) {
  if (word.size() < 2 || word[0] != '-') return false;
  if (word.find(' ') != std::string::npos) return false;
  return word.find_first_not_of("0123456789.", 1) != std::string::npos;
}

class Parser {
 public:
  explicit Parser(const std::vector<std::string>& words) : words_(words) {
    for (const Flag& flag : launch_flags()) result_.values.set(flag.attribute(), flag.fallback);
  }

  LaunchArguments parse() {
    for (; at_ < words_.size(); ++at_) {
      if (!looks_like_flag(words_[at_])) return script();
      take_flag();
    }
    throw usage_error("the training script is missing");
  }

 private:
  LaunchArguments script() {
    result_.values.set("training_script", words_[at_]);
    ConfigValue::List rest;
    for (std::size_t i = at_ + 1; i < words_.size(); ++i) rest.emplace_back(words_[i]);
    result_.values.set("training_script_args", ConfigValue(std::move(rest)));
    result_.given.insert({"training_script", "training_script_args"});
    return std::move(result_);
  }

  static const Flag& flag_of(const std::string& word) {
    if (word == "--help" || word == "-h") throw usage_error("prints its help");
    for (const Flag& flag : launch_flags()) {
      if (flag.letter != 0 && word.size() == 2 && word[1] == flag.letter) return flag;
      std::string name(flag.name);
      if (word == "--" + name) return flag;
      std::replace(name.begin(), name.end(), '_', '-');
      if (word == "--" + name) return flag;
    }
    throw usage_error(fmt::format("unknown argument {}", word));
  }

  void take_flag() {
    const std::string& word = words_[at_];
    const std::size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
    const Flag& flag = flag_of(word.substr(0, equals));
    if (!takes_value(flag.kind)) {
      if (equals != std::string::npos)
        throw usage_error(fmt::format("--{} takes no value", flag.name));
      return store(flag, flag.kind == FlagKind::set_true);
    }
    if (equals != std::string::npos) return store_text(flag, word.substr(equals + 1));
    if (at_ + 1 == words_.size() || looks_like_flag(words_[at_ + 1]))
      throw usage_error(fmt::format("--{} needs a value", flag.name));
    store_text(flag, words_[++at_]);
  }

  void store_text(const Flag& flag, const std::string& text) {
    if (!flag.choices.empty() && !is_choice(flag.choices, text))
      throw usage_error(fmt::format("--{} must be one of {}, got {}", flag.name, flag.choices,
                                    python_quoted(text)));
    try {
      store(flag, converted(flag.kind, text));
    } catch (const Refusal& refusal) {
      throw usage_error(fmt::format("--{}: {}", flag.name, refusal.what()));
    }
  }

  void store(const Flag& flag, ConfigValue value) {
    const std::string name(flag.attribute());
    if (flag.kind == FlagKind::append) {
      // argparse's own action here: it does not note that the flag was given.
      ConfigValue::List all;
      if (result_.values.at(name).is_list()) all = result_.values.at(name).elements();
      all.push_back(std::move(value));
      result_.values.set(name, ConfigValue(std::move(all)));
      return;
    }
    result_.values.set(name, std::move(value));
    result_.given.insert(name);
  }

  const std::vector<std::string>& words_;
  std::size_t at_ = 0;
  LaunchArguments result_;
};

}  // namespace

LaunchArguments parse_launch(const std::vector<std::string>& words) {
  return Parser(words).parse();
}

}  // namespace shardscope::accelerate
