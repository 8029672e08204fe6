// The communicator contract over MPI: started by mpirun, prints one line per check, exits 1 when
// one does not hold.
#include <chrono>
#include <cstdio>
#include <exception>

#include "backend/job/make_communicator.h"
#include "backend/rendezvous/environment.h"
#include "core/base/error.h"
#include "tests/backend/comm/communicator_contract.h"

int main() {
  using namespace shardscope;
  try {
    const Environment place = read_environment(process_variables());
    for (const testing::ContractCheck& check : testing::contract_checks()) {
      const auto group =
          make_communicator(CommunicatorChoice::automatic, place, std::chrono::seconds(60));
      if (group->description().rfind("mpi", 0) != 0) {
        std::fprintf(stderr, "this is %s\n", group->description().c_str());
        return 2;
      }
      check.run(*group);
      if (place.rank == 0) std::printf("holds: %s\n", check.name);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    // A failed rank must take the others down with it.
    return 4;
  }
  return 0;
}
