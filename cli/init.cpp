// shardscope init: asks a few questions, or takes options, and writes the first command: a plan.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/init_questions.h"
#include "cli/machine_findings.h"
#include "cli/output_options.h"
#include "cli/output_path.h"
#include "cli/verb.h"
#include "core/format/atomic_file.h"
#include "core/model/huggingface.h"

namespace shardscope {
namespace {

struct InitOptions {
  InitAnswers answers;
  std::optional<std::string> file;
  bool yes = false;
  OutputOptions output;
};

/// Asks on standard error, so that standard output is the command alone.
std::optional<std::string> ask_person(const std::string& question, const std::string& usual) {
  std::fputs(fmt::format("{}{} ", question, usual.empty() ? "" : " [" + usual + "]").c_str(),
             stderr);
  std::fflush(stderr);
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == line.npos) return "";
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

std::string profile_of_this_machine() {
  MachineFacts facts;
  ask_nvidia_smi(facts);
  const auto like = profile_like(facts);
  return like ? like->profile : "";
}

void write_script(const std::string& file, const std::string& command) {
  write_atomically(
      file,
      "#!/bin/sh\n# Ranks the ways to train; shardscope plan --help says what else it takes.\n" +
          command);
  std::filesystem::permissions(file,
                               std::filesystem::perms::owner_exec |
                                   std::filesystem::perms::group_exec |
                                   std::filesystem::perms::others_exec,
                               std::filesystem::perm_options::add);
}

std::string to_json(const FirstCommand& command, const std::string& text,
                    const std::optional<std::string>& file) {
  using Json = nlohmann::ordered_json;
  const Json json{{"schema", "shardscope.init/1"},
                  {"command", command.words},
                  {"text", text},
                  {"file", file ? Json(*file) : Json(nullptr)},
                  {"assumed", command.assumed}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// A file that one of the command's words names is an input.
void refuse_over_words(const std::string& file, const std::vector<std::string>& words) {
  std::vector<std::filesystem::path> inputs;
  for (const std::string& word : words) {
    inputs.emplace_back(word);
    inputs.push_back(config_path(word));
  }
  refuse_over_input(file, inputs, "-o");
}

ExitCode run_init(const InitOptions& options) {
  const bool asks = !options.yes && !options.output.json && ::isatty(STDIN_FILENO) != 0;
  const Ask ask = asks ? Ask(ask_person) : Ask();
  const auto complain = [](const std::string& why) { print_error("    " + why); };
  const std::string profile = options.answers.cluster ? "" : profile_of_this_machine();
  const FirstCommand command = first_command(options.answers, profile, ask, complain);
  if (options.file) refuse_over_words(*options.file, command.words);
  const std::string text = shell_text(command.words);
  if (options.file) write_script(*options.file, text);
  if (options.output.json) {
    print(to_json(command, text, options.file));
  } else {
    note_assumptions(options.output, command.assumed);
    print(text);
    if (options.file) options.output.note("written to " + *options.file);
  }
  return ExitCode::done;
}

}  // namespace

void declare_init(Command& command) {
  const auto options = std::make_shared<InitOptions>();
  InitAnswers& answers = options->answers;
  command.heading("Answers; what is missing is asked on a terminal, else assumed");
  command.option("--model", answers.model, {"PATH", "Hugging Face folder or config.json"});
  command.option(
      "--cluster", answers.cluster,
      {"FILE|NAME", "hardware profile (usual: the one that this machine is like, else h100_sxm)"});
  command.option("--world", answers.world, {"N", "GPUs in all (usual: one node)"});
  command.option("--seq", answers.seq,
                 {"T", "tokens of a sequence (usual: 2048, or what the model has)"});
  command.option("--tokens-per-batch", answers.tokens_per_batch,
                 {"N", "tokens of one step of all GPUs (usual: 8 sequences of each)"});
  command.option("--config", answers.config,
                 {"FILE", "your file of accelerate or DeepSpeed, which gets a place, too"});
  command.flag("--yes", options->yes, "asks nothing");
  command.option("-o", options->file, {"FILE", "writes the command as a script, too"});
  declare_output_options(command, options->output);
  command.examples(
      {{"shardscope init", "asks, and prints the command"},
       {"shardscope init --model examples/models/gpt2 --cluster h100_sxm --world 16 -o plan.sh",
        "a script that plans for two nodes"},
       {"sh -c \"$(shardscope init --model examples/models/gpt2 --yes --quiet)\"",
        "plans at once, for one node of what is here"}});
  command.action([options] { return run_init(*options); });
}

}  // namespace shardscope
