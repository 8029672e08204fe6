// Who waits for whom in a collective over MPI: started by mpirun, exits with 4 where the split is
// wrong.
#include <chrono>
#include <cstdio>
#include <exception>

#include "backend/job/make_communicator.h"
#include "backend/rendezvous/environment.h"
#include "tests/backend/profile/late_ranks.h"

int main() {
  using namespace shardscope;
  try {
    const Environment place = read_environment(process_variables());
    const auto world = make_communicator(CommunicatorChoice::mpi, place, std::chrono::seconds(60));
    test::check_who_waits(*world);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    // A failed rank must take the others down with it.
    return 4;
  }
  return 0;
}
