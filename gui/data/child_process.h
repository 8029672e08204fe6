// Another program of ours, run to its end beside the window.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace shardscope::gui {

struct ChildProcess {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  std::chrono::milliseconds patience{120'000};  ///< then it is ended
};

enum class ChildEnd : std::uint8_t { exited, killed, stopped, out_of_patience };

struct ChildResult {
  ChildEnd end = ChildEnd::exited;
  int code = 0;  ///< exit code, or the signal that killed it
  /// The last line that it said on standard error.
  std::string last_words;
};

/// Why it did not do what it was asked: its last words, or how it ended.
std::string reason_of(const ChildResult& result);

/// Runs it without input, and its output goes nowhere. On a stop request, or when patience is over,
/// it is told to end and, a second later, made to. It is gone when this returns. Throws Error where
/// it cannot be started.
ChildResult run_child(const ChildProcess& child, std::stop_token stop);

/// The `shardscope` program: that of the environment variable SHARDSCOPE, else beside this program,
/// else along PATH; none: it is nowhere.
std::optional<std::filesystem::path> shardscope_program();

}  // namespace shardscope::gui
