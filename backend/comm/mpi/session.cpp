#include "backend/comm/mpi/session.h"

#include <atomic>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "core/base/error.h"

namespace shardscope {
namespace {

std::atomic<bool> session_failed = false;

/// Codes with which all ranks exit together.
bool is_orderly(int exit_code) {
  return exit_code == static_cast<int>(ExitCode::done) ||
         exit_code == static_cast<int>(ExitCode::no) ||
         exit_code == static_cast<int>(ExitCode::interrupted);
}

void end_with_process(int exit_code, void*) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) return;
  if (is_orderly(exit_code) && !session_failed) {
    MPI_Finalize();
  } else {
    const int code = is_orderly(exit_code) ? static_cast<int>(ExitCode::rank_lost) : exit_code;
    MPI_Abort(MPI_COMM_WORLD, code);
  }
}

}  // namespace

void MpiSession::start() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized) return;
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  ::on_exit(end_with_process, nullptr);
  if (provided < MPI_THREAD_SERIALIZED) {
    throw Error({.where = "communicator mpi",
                 .what = "this MPI library cannot be called from the communication thread",
                 .way_out = "use a build with MPI_THREAD_SERIALIZED",
                 .code = ExitCode::outside});
  }
}

void MpiSession::mark_failed() { session_failed = true; }
bool MpiSession::failed() { return session_failed; }

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  MpiSession::mark_failed();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw Error({.where = call,
               .what = std::string(text, static_cast<std::size_t>(length)),
               .way_out = "see the logs of the other ranks",
               .code = ExitCode::rank_lost});
}

}  // namespace shardscope
