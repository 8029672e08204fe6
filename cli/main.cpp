// The shardscope program: finds the verb, runs it, turns failures into one line and an exit code.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "backend/launch/launcher.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "core/base/error.h"
#include "core/base/heap.h"
#include "core/base/nearest_word.h"
#include "core/base/version.h"

namespace shardscope {
namespace {

constexpr std::array<Verb, 20> verbs{
    {{"model", "parameters, units and shards of a model", declare_model},
     {"schedule", "the operations and buffers of one rank", declare_schedule},
     {"simulate", "time and memory of one strategy, predicted", declare_simulate},
     {"plan", "ranks the strategies, says why, and writes the chosen one", declare_plan},
     {"calibrate", "measures this machine and writes its hardware profile", declare_calibrate},
     {"fit", "corrects a hardware profile with the times of a real run", declare_fit},
     {"validate", "predicts measured runs, and prints the errors", declare_validate},
     {"train", "predicts, really trains, and compares", declare_train},
     {"checkpoint", "lists, verifies and rewrites what runs have saved", declare_checkpoint},
     {"profile", "profiles steps of a running job", declare_profile},
     {"compare", "compares runs: predicted and profiled", declare_compare},
     {"record", "runs a PyTorch script on a machine without a GPU, and predicts it",
      declare_record},
     {"import", "makes a run folder from traces of other tools", declare_import},
     {"report", "reports on a trace of any tool", declare_report},
     {"lint", "what the real tools would do with a configuration file", declare_lint},
     {"convert", "writes a configuration for another tool", declare_convert},
     {"data", "turns text into tokens", declare_data},
     {"doctor", "what this machine has, which profile it is like, and what is wrong",
      declare_doctor},
     {"init", "asks a few questions and writes the first command", declare_init},
     {"gui", "the desktop application: runs and traces, predicted over profiled", declare_gui}}};

std::string program_help() {
  std::string text =
      "Predicts memory and time of sharded training, really trains, and lays the two over each "
      "other.\n\n"
      "usage: shardscope VERB [ARGUMENT...]\n\n";
  for (const Verb& verb : verbs) text += fmt::format("  {:<12}{}\n", verb.name, verb.summary);
  text +=
      "\n  --help      of the program, or of a verb: shardscope train --help\n"
      "  --version   prints it\n\n"
      "Examples:\n"
      "  shardscope model examples/models/gpt2 --strategy full_shard --world 8\n"
      "      what every rank holds of GPT-2\n"
      "  shardscope lint accelerate.yaml --model examples/models/gpt2\n"
      "      what accelerate would really do with that file\n"
      "  shardscope calibrate\n"
      "      measures this machine, so that predictions are about it\n"
      "  shardscope train job.json --ranks 2\n"
      "      predicts, trains with two processes, compares\n\n"
      "Exit codes: 0 done, 1 the answer is no, 2 bad usage or input, 3 something outside failed, 4 "
      "a rank was lost,\n"
      "5 a loss is not finite, 130 interrupted with everything left whole. docs/cli.md says "
      "more.\n";
  return text;
}

Error unknown_verb(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Verb& verb : verbs) names.push_back(verb.name);
  const auto near = nearest_word(name, names);
  return Error({.where = name,
                .what = "unknown verb",
                .way_out = near ? fmt::format("did you mean {}?", *near) : "--help lists them"});
}

ExitCode run_verb(const Verb& verb, const std::vector<std::string>& arguments) {
  Command command(verb.name, verb.summary);
  verb.declare(command);
  return command.run(arguments);
}

ExitCode run(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    print_error(program_help());
    return ExitCode::bad_input;
  }
  const std::string& first = arguments.front();
  if (first == "--help" || first == "-h" || first == "help")
    return print(program_help()), ExitCode::done;
  if (first == "--version")
    return print(fmt::format("shardscope {}\n", program_version())), ExitCode::done;
  for (const Verb& verb : verbs) {
    if (verb.name == first) return run_verb(verb, {arguments.begin() + 1, arguments.end()});
  }
  throw unknown_verb(first);
}

/// "shardscope model: what failed", or without the verb where there is none.
void complain(const std::vector<std::string>& arguments, std::string_view what) {
  const bool in_verb = std::any_of(verbs.begin(), verbs.end(), [&](const Verb& verb) {
    return !arguments.empty() && verb.name == arguments.front();
  });
  print_error(fmt::format("shardscope{}: {}", in_verb ? " " + arguments.front() : "", what));
}

ExitCode run_or_complain(const std::vector<std::string>& arguments) {
  try {
    return run(arguments);
  } catch (const Error& error) {
    complain(arguments, error.what());
    return error.code();
  } catch (const std::bad_alloc&) {
    complain(
        arguments,
        "out of memory; give a smaller model, batch or sequence, or a trace of fewer steps, or "
        "take a machine with more");
    return ExitCode::outside;
  } catch (const std::filesystem::filesystem_error& error) {
    complain(arguments, fmt::format("{}: {}", error.path1().string(), error.code().message()));
    return ExitCode::outside;
  } catch (const std::exception& error) {
    complain(arguments,
             fmt::format("unexpected failure: {}; please report it with the command line",
                         error.what()));
    return ExitCode::outside;
  }
}

}  // namespace
}  // namespace shardscope

int main(int argc, char** argv) {
  // First of all: somebody may ask for a window as soon as there is a process to ask.
  if (argc > 1 && std::string_view(argv[1]) == "train") shardscope::ignore_profile_signal();
  shardscope::keep_freed_memory();
  std::signal(SIGPIPE, SIG_IGN);  // a reader that went away shows as EPIPE, and a run goes on
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on files shows as EFBIG, and nothing half written stays
  return static_cast<int>(shardscope::run_or_complain({argv + std::min(argc, 1), argv + argc}));
}
