#include "core/config/recipe/command_line.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/config/recipe/peft_example.h"
#include "core/config/yaml/yaml_reader.h"

namespace shardscope::recipes {
namespace {

constexpr std::size_t most_words = 1 << 14;

struct Word {
  std::string text;
  int line = 1;
};

/// Commands of the script, each as its words: newlines and ; & | end one, a backslash before the
/// newline does not. Comments are left out.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  std::vector<std::vector<Word>> commands() {
    while (at_ < text_.size() && count_ < most_words) step();
    end_word();
    end_command();
    return std::move(commands_);
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == '\\' && at_ + 1 < text_.size()) return escaped();
    if (c == '\'' || c == '"') return quoted(c);
    if (c == '#' && !word_) return comment();
    if (c == '\n' || c == ';' || c == '&' || c == '|') {
      end_word();
      end_command();
    } else if (c == ' ' || c == '\t' || c == '\r') {
      end_word();
    } else {
      add(c);
    }
    advance();
  }
  void advance() {
    if (text_[at_] == '\n') ++line_;
    ++at_;
  }
  void add(char c) {
    if (!word_) word_ = Word{.text = {}, .line = line_};
    word_->text += c;
  }
  void escaped() {
    advance();
    if (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') advance();
    if (text_[at_] == '\n')
      end_word();
    else
      add(text_[at_]);
    advance();
  }
  void quoted(char quote) {
    if (!word_) word_ = Word{.text = {}, .line = line_};
    advance();
    while (at_ < text_.size() && text_[at_] != quote) {
      word_->text += text_[at_];
      advance();
    }
    if (at_ < text_.size()) advance();
  }
  void comment() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }
  void end_word() {
    if (word_) command_.push_back(std::move(*word_)), ++count_;
    word_.reset();
  }
  void end_command() {
    if (!command_.empty()) commands_.push_back(std::move(command_));
    command_.clear();
  }

  std::string_view text_;
  std::size_t at_ = 0, count_ = 0;
  int line_ = 1;
  std::optional<Word> word_;
  std::vector<Word> command_;
  std::vector<std::vector<Word>> commands_;
};

bool ends_with_any(std::string_view word, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [&](std::string_view end) { return word == end || word.ends_with(end); });
}

/// Where the options of a training start; none: another command.
std::optional<std::size_t> options_of(const std::vector<Word>& command) {
  for (std::size_t i = 0; i < command.size(); ++i) {
    const std::string_view word = command[i].text;
    const std::string_view next =
        i + 1 < command.size() ? std::string_view(command[i + 1].text) : std::string_view();
    if (word == "swift" && (next == "sft" || next == "pt" || next == "rlhf")) return i + 2;
    if (word == "trl" && (next == "sft" || next == "dpo" || next == "grpo")) return i + 2;
    if (word == "llamafactory-cli" && next == "train") return i + 2;
    if (ends_with_any(word, {"swift/cli/sft.py", "swift/cli/pt.py", "swift/cli/rlhf.py",
                             "trl/scripts/sft.py", "trl/scripts/dpo.py", "trl/scripts/grpo.py",
                             "scripts/run_sft.py", "src/train.py"}))
      return i + 1;
    const auto is_own = [](const Word& argument) {
      return is_peft_example_argument(argument.text);
    };
    if ((word == "train.py" || word.ends_with("/train.py")) && std::ranges::any_of(command, is_own))
      return i + 1;
  }
  return std::nullopt;
}

bool starts_python(std::string_view word) {
  const std::string_view name = word.substr(word.rfind('/') + 1);
  return name.starts_with("python") || name == "torchrun" || name == "accelerate" ||
         name == "deepspeed";
}

/// Where the options of a Python script start.
std::optional<std::size_t> options_of_script(const std::vector<Word>& command) {
  bool python = false;
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (command[i].text.ends_with(".py")) return i + 1;
    if (python && command[i].text == "-m" && i + 1 < command.size()) return i + 2;
    python = python || starts_python(command[i].text);
  }
  return std::nullopt;
}

/// As YAML has a bare value, where that can be read.
ConfigValue value_of(const std::string& word, const std::string& file) {
  if (word.find_first_of("\n&*!|>%@`#") != std::string::npos) return ConfigValue(word);
  try {
    ConfigValue value = read_yaml(word, file);
    if (!value.is_null() || word == "null" || word == "None") return value;
  } catch (const Error&) {
    // Text then.
  }
  return ConfigValue(word);
}

ConfigValue value_of(const std::vector<Word>& words, const std::string& file) {
  if (words.empty()) return ConfigValue(true);
  if (words.size() == 1) return value_of(words.front().text, file);
  ConfigValue::List all;
  for (const Word& word : words) all.push_back(value_of(word.text, file));
  return ConfigValue(std::move(all));
}

/// "trl dpo" and "trl/scripts/dpo.py", whose options start at `first`.
bool is_of_trl(const std::vector<Word>& command, std::size_t first) {
  return command[first - 1].text.find("trl/scripts/") != std::string::npos ||
         (first > 1 && command[first - 2].text == "trl");
}

/// Their scripts are started by torchrun or accelerate; the other tools have words of their own.
bool is_trls_or_pefts(const std::vector<Word>& command, std::size_t first) {
  const std::string& script = command[first - 1].text;
  return script.ends_with(".py") && !ends_with_any(script, {"src/train.py"}) &&
         script.find("swift/") == std::string::npos;
}

std::string trainer_word(const std::string& word) {
  const std::size_t slash = word.rfind('/');
  const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
  return word.substr(begin, word.find(".py") - begin);
}

void set_at(ConfigValue& dict, const std::string& key, ConfigValue value, int line) {
  value.set_line(line);
  dict.set(key, std::move(value));
  for (ConfigValue::Entry& entry : dict.entries())
    if (entry.key == key) entry.line = line;
}

bool is_count(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// The value of a launcher's option before the script: "--nnodes 2", "--nnodes=2".
std::optional<Word> launcher_option(const std::vector<Word>& command, std::size_t first,
                                    std::initializer_list<std::string_view> names) {
  for (std::size_t i = 0; i + 1 < first; ++i) {
    std::string key = command[i].text;
    std::string value = command[i + 1].text;
    if (const std::size_t equals = key.find('='); equals != std::string::npos) {
      value = key.substr(equals + 1);
      key.erase(equals);
    }
    if (!key.starts_with("--")) continue;
    std::replace(key.begin() + 2, key.end(), '-', '_');
    if (std::ranges::find(names, std::string_view(key).substr(2)) != names.end())
      return Word{value, command[i].line};
  }
  return std::nullopt;
}

/// What torchrun, `accelerate launch` and deepspeed are told before the script, as the keys that
/// `trl sft` has for it. A number of processes of a node counts only with a number of nodes.
void take_launcher(const std::vector<Word>& command, std::size_t first, const std::string& file,
                   ConfigValue& dict) {
  if (const auto config = launcher_option(command, first, {"config_file"}))
    set_at(dict, "accelerate_config", ConfigValue(config->text), config->line);
  if (const auto all = launcher_option(command, first, {"num_processes"}); all)
    if (is_count(all->text)) set_at(dict, "num_processes", value_of(all->text, file), all->line);
  const auto of_node = launcher_option(command, first, {"nproc_per_node", "num_gpus"});
  const auto nodes = launcher_option(command, first, {"nnodes", "num_nodes"});
  constexpr std::size_t most_digits = 6;
  const auto is_known = [](const Word& word) {
    return is_count(word.text) && word.text.size() <= most_digits;
  };
  if (!of_node || !is_known(*of_node) || (nodes && !is_known(*nodes))) return;
  const std::int64_t ranks = std::stoll(of_node->text) * (nodes ? std::stoll(nodes->text) : 1);
  set_at(dict, "num_processes", ConfigValue(ranks), of_node->line);
}

ConfigValue dict_of(const std::vector<Word>& command, std::size_t first, const std::string& file) {
  ConfigValue dict = ConfigValue::dict();
  constexpr std::string_view processes = "NPROC_PER_NODE=";
  for (std::size_t i = 0; i < first; ++i)
    if (command[i].text.starts_with(processes))
      set_at(dict, "nproc_per_node", value_of(command[i].text.substr(processes.size()), file),
             command[i].line);
  if (const Word& last = command[first - 1]; is_of_trl(command, first))
    set_at(dict, std::string(trl_command_key), ConfigValue(trainer_word(last.text)), last.line);
  for (std::size_t i = first; i < command.size();) {
    std::string key = command[i].text;
    const int line = command[i].line;
    ++i;
    if (!key.starts_with("--") || key.size() == 2) continue;
    key.erase(0, 2);
    std::vector<Word> values;
    if (const std::size_t equals = key.find('='); equals != std::string::npos) {
      values.push_back({key.substr(equals + 1), line});
      key.erase(equals);
    }
    std::replace(key.begin(), key.end(), '-', '_');
    while (i < command.size() && !command[i].text.starts_with("--")) values.push_back(command[i++]);
    set_at(dict, key, value_of(values, file), line);
  }
  return dict;
}

}  // namespace

ConfigValue command_line(std::string_view text, const std::string& file) {
  const std::vector<std::vector<Word>> commands = Splitter(text).commands();
  for (const std::vector<Word>& command : commands)
    if (const auto first = options_of(command)) {
      ConfigValue dict = dict_of(command, *first, file);
      if (is_trls_or_pefts(command, *first)) take_launcher(command, *first, file, dict);
      return dict;
    }
  return {};
}

std::vector<ConfigValue> script_command_lines(std::string_view text, const std::string& file) {
  std::vector<ConfigValue> all;
  for (const std::vector<Word>& command : Splitter(text).commands())
    if (const auto first = options_of_script(command))
      all.push_back(dict_of(command, *first, file));
  return all;
}

}  // namespace shardscope::recipes
