// Stands in for mpi_communicator.cpp where MPI was not found at build time.
#include "backend/comm/mpi/communicator.h"
#include "core/base/error.h"

namespace shardscope {

bool has_mpi() { return false; }

MeetingPoint share_over_mpi(const Environment&, MeetingPoint point) { return point; }

std::unique_ptr<Communicator> make_mpi_communicator(const Environment&) {
  throw Error(
      {.where = "communicator mpi",
       .what = "this program was built without MPI",
       .way_out = "install libopenmpi-dev and build again, or use shared_memory on one host",
       .code = ExitCode::outside});
}

}  // namespace shardscope
