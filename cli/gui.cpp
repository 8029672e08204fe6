// shardscope gui: the desktop application, which is a program of its own so that this one needs no
// Qt.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "cli/verb.h"
#include "core/base/error.h"
#include "core/format/is_there.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

constexpr const char* gui_program = "shardscope-gui";

fs::path own_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : program.parent_path();
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

Error not_started(const fs::path& beside, int error_number) {
  if (error_number == ENOENT) {
    return Error({.where = gui_program,
                  .what = fmt::format("is neither beside this program ({}) nor in PATH",
                                      beside.parent_path().string()),
                  .way_out = "install qt6-base-dev and qt6-svg-dev and build again, or install "
                             "the package that has it",
                  .code = ExitCode::outside});
  }
  return Error({.where = gui_program,
                .what = "cannot be started: " + std::generic_category().message(error_number),
                .way_out = {},
                .code = ExitCode::outside});
}

ExitCode run_gui(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{gui_program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::vector<char*> pointers = pointers_to(words);
  const fs::path beside = own_folder() / gui_program;
  std::signal(SIGPIPE, SIG_DFL);  // what is ignored here would be ignored there
  if (is_there(beside))
    ::execv(beside.c_str(), pointers.data());
  else
    ::execvp(gui_program, pointers.data());
  const int error_number = errno;
  std::signal(SIGPIPE, SIG_IGN);
  throw not_started(beside, error_number);
}

}  // namespace

void declare_gui(Command& command) {
  const auto arguments = std::make_shared<std::vector<std::string>>();
  command.pass_on("FILE", *arguments,
                  "run folders, traces, memory snapshots, folders of them, and the options of "
                  "shardscope-gui, whose --help lists them");
  command.examples({{"shardscope gui runs/*", "runs side by side, predicted over profiled"},
                    {"shardscope gui trace.json.gz", "a trace of PyTorch's profiler"},
                    {"shardscope gui runs/full_shard --export memory -o memory.png",
                     "one view as a picture, also where there is no display"}});
  command.action([arguments] { return run_gui(*arguments); });
}

}  // namespace shardscope
