// launching_program RANK_PROGRAM LETTERS LOG_FOLDER: launches, for tests that signal or kill the
// launcher.
#include <cstdio>
#include <cstring>

#include "backend/launch/launcher.h"

int main(int, char** arguments) {
  using namespace shardscope;
  try {
    const ExitCode code = launch({.ranks = static_cast<int>(std::strlen(arguments[2])),
                                  .arguments = {arguments[1], arguments[2]},
                                  .program = arguments[1],
                                  .log_folder = arguments[3],
                                  .grace = std::chrono::milliseconds(500)});
    return static_cast<int>(code);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
