#include "cli/init_questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "cli/hardware_choice.h"
#include "core/base/error.h"
#include "core/config/config_file.h"
#include "core/format/is_there.h"
#include "core/model/read_model.h"
#include "sim/hardware/builtin_profiles.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {
namespace {

constexpr std::int64_t usual_length = 2048;
constexpr std::int64_t usual_sequences = 8;  // of a rank and step
constexpr std::int64_t most = std::int64_t{1} << 40;
constexpr const char* usual_cluster = "h100_sxm";

Error missing(std::string option, std::string what, std::string way_out) {
  return Error(
      {.where = std::move(option), .what = std::move(what), .way_out = std::move(way_out)});
}

std::int64_t count_of(const std::string& text, const std::string& option) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > most)
    throw missing(option, fmt::format("expected a whole number of 1 or more, got \"{}\"", text),
                  "write for example 8");
  return value;
}

/// A shell completes and keeps it, a question does not.
std::string without_tilde(std::string path) {
  const char* home = std::getenv("HOME");
  if (path.starts_with("~/") && home != nullptr) path.replace(0, 1, home);
  return path;
}

/// One answer at a time, each kept only if what it stands for can be read.
class Interview {
 public:
  Interview(const Ask& ask, const Complain& complain) : ask_(ask), complain_(complain) {}

  /// `given` if it is there, else the typed answer or `usual`. `use` reads it and throws Error.
  std::string answer(const std::optional<std::string>& given, const std::string& option,
                     const std::string& question, const std::string& usual,
                     const std::function<void(const std::string&)>& use) {
    if (given) return use(*given), *given;
    if (!ask_) return assume(option, usual, use);
    while (true) {
      const std::optional<std::string> line = ask_(question, usual);
      if (!line)
        throw missing(option, "the questions ended before it was answered",
                      "answer it, or give the option");
      std::string text = line->empty() ? usual : without_tilde(*line);
      try {
        use(text);
        return text;
      } catch (const Error& error) {
        complain_(error.what());
      }
    }
  }

  std::int64_t count(const std::optional<std::int64_t>& given, const std::string& option,
                     const std::string& question, std::int64_t usual) {
    std::int64_t value = 0;
    const auto text = given ? std::optional(fmt::format("{}", *given)) : std::nullopt;
    answer(text, option, question, fmt::format("{}", usual),
           [&](const std::string& typed) { value = count_of(typed, option); });
    return value;
  }

  std::vector<std::string> take_assumed() { return std::move(assumed_); }

 private:
  std::string assume(const std::string& option, const std::string& usual,
                     const std::function<void(const std::string&)>& use) {
    use(usual);
    if (!usual.empty()) assumed_.push_back(fmt::format("{} {}", option, usual));
    return usual;
  }

  const Ask& ask_;
  const Complain& complain_;
  std::vector<std::string> assumed_;
};

/// The folder that we are in, where it holds a model.
std::string model_here() { return is_there("config.json") ? "." : ""; }

std::string config_here() {
  for (const char* name : {"accelerate.yaml", "accelerate_config.yaml", "fsdp.yaml",
                           "deepspeed.json", "ds_config.json"})
    if (is_there(name)) return name;
  return "";
}

/// "--accelerate" or "--deepspeed", by whose keys the file has.
std::string option_of(const std::string& file) {
  const ConfigFile config = read_config_file(file);
  if (config.kind == ConfigKind::accelerate) return "--accelerate";
  if (config.kind == ConfigKind::deepspeed) return "--deepspeed";
  throw missing(file,
                fmt::format("is read as {}, and plan takes files of accelerate and DeepSpeed",
                            name_of(config.kind)),
                "give one of these, or none");
}

std::int64_t usual_length_of(const Model& model) {
  const std::int64_t most = model.decoder ? model.decoder->max_positions : model.positions;
  return most > 0 ? std::min(most, usual_length) : usual_length;
}

std::int64_t usual_world(const HardwareProfile& profile) {
  return profile.node ? profile.node->gpus : std::max(profile.ranks, 1);
}

}  // namespace

FirstCommand first_command(const InitAnswers& answers, const std::string& profile, const Ask& ask,
                           const Complain& complain) {
  Interview interview(ask, complain);
  Model model;
  HardwareProfile hardware;
  std::string option;
  const std::string path =
      interview.answer(answers.model, "--model", "Which model? Its folder or config.json",
                       model_here(), [&](const std::string& text) {
                         if (text.empty())
                           throw missing("--model", "no model was given",
                                         "give a folder or config.json of Hugging Face");
                         model = read_model(text);
                       });
  const std::string cluster = interview.answer(
      answers.cluster, "--cluster", "Which GPUs? A ready hardware profile or a file",
      profile.empty() ? usual_cluster : profile,
      [&](const std::string& text) { hardware = find_hardware_profile(text, "--cluster"); });
  const std::int64_t world =
      interview.count(answers.world, "--world", "How many GPUs in all?", usual_world(hardware));
  const std::int64_t seq = interview.count(answers.seq, "--seq", "How many tokens has a sequence?",
                                           usual_length_of(model));
  const std::int64_t tokens = interview.count(answers.tokens_per_batch, "--tokens-per-batch",
                                              "How many tokens has one optimizer step of all GPUs?",
                                              world * seq * usual_sequences);
  const std::string config =
      interview.answer(answers.config, "--config",
                       "Which file of accelerate or DeepSpeed do you have now? (- for none)",
                       config_here(), [&](const std::string& text) {
                         option = text.empty() || text == "-" ? "" : option_of(text);
                       });
  FirstCommand command{.words = {"shardscope", "plan", "--model", path, "--cluster", cluster,
                                 "--world", fmt::format("{}", world), "--seq",
                                 fmt::format("{}", seq), "--tokens-per-batch",
                                 fmt::format("{}", tokens)}};
  if (!option.empty()) command.words.insert(command.words.end(), {option, config});
  command.words.insert(command.words.end(), {"-o", "plans/first"});
  command.assumed = interview.take_assumed();
  return command;
}

std::string shell_text(const std::vector<std::string>& words) {
  constexpr std::size_t width = 96;
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  std::string text;
  std::size_t column = 0;
  for (const std::string& word : words) {
    std::string quoted = word;
    if (word.empty() || word.find_first_not_of(plain) != word.npos) {
      quoted = "'";
      for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
      quoted += "'";
    }
    if (column > 0 && word.starts_with("-") && column + quoted.size() + 20 > width) {
      text += " \\\n  ";
      column = 2;
    } else if (column > 0) {
      text += " ";
      ++column;
    }
    text += quoted;
    column += quoted.size();
  }
  return text + "\n";
}

}  // namespace shardscope
