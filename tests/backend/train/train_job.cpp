// train_job JOB: one rank of a job, as whoever started it says. For tests under mpirun.
#include <fmt/core.h>

#include <cstdio>

#include "backend/train/train.h"

int main(int count, char** arguments) {
  using namespace shardscope;
  if (count != 2) return static_cast<int>(ExitCode::bad_input);
  try {
    return static_cast<int>(
        train(read_job(arguments[1]), read_environment(process_variables()), {.quiet = true}));
  } catch (const Error& error) {
    fmt::print(stderr, "train_job: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
