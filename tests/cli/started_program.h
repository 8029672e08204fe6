// The real program as a process of its own, watched and disturbed by a test.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace shardscope::testing {

/// A command that runs beside the test; it is killed, with all that it started, when this goes.
class StartedProgram {
 public:
  using Variables = std::map<std::string, std::string>;
  /// Runs `command` (its first word is looked for in PATH) in `folder`, with the test's environment
  /// and `variables`.
  StartedProgram(const std::vector<std::string>& command, const std::filesystem::path& folder,
                 const Variables& variables = {});
  StartedProgram(StartedProgram&& other) noexcept;
  ~StartedProgram();

  pid_t id() const { return id_; }
  /// How it ended; nothing if it has not within `longest`.
  std::optional<Outcome> wait(std::chrono::milliseconds longest);
  /// What it has written to standard error so far.
  std::string errors_so_far() const;

 private:
  pid_t id_ = -1;
  std::filesystem::path output_;
  std::filesystem::path errors_;
};

/// What a program that is well ends within, on a busy machine, too.
inline constexpr std::chrono::seconds long_enough{60};
/// Looks until `holds`; false where it does not within `long_enough`.
bool comes_true(const std::function<bool()>& holds);

/// What a process does about a signal.
enum class SignalCare { ignores, catches };
bool cares(pid_t process, int signal, SignalCare care);
/// Has it ended, also where nobody has waited for it yet.
bool has_ended(pid_t process);

/// Processes whose command line has `word`, by number.
std::vector<pid_t> processes_with(const std::string& word);
/// The one among them with `variable` in its environment ("RANK=1").
std::optional<pid_t> process_with(const std::string& word, const std::string& variable);

}  // namespace shardscope::testing
