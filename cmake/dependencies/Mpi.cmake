# shardscope::mpi: collectives across hosts. Only the C interface; MPIEXEC_EXECUTABLE runs the tests.
shardscope_option(MPI "MPI (collectives across hosts)")
if(SHARDSCOPE_WANTS_MPI)
  find_package(MPI QUIET COMPONENTS C)
endif()
shardscope_conclude(MPI "${MPI_C_FOUND}" "MPI ${MPI_C_VERSION}, started by ${MPIEXEC_EXECUTABLE}"
                    "no MPI compiler wrapper was found, processes of one host still work - install libopenmpi-dev")
if(SHARDSCOPE_HAS_MPI)
  add_library(shardscope_mpi INTERFACE)
  add_library(shardscope::mpi ALIAS shardscope_mpi)
  target_link_libraries(shardscope_mpi INTERFACE MPI::MPI_C)
  # mpi.h would otherwise pull in the C++ bindings that MPI-3 removed.
  target_compile_definitions(shardscope_mpi INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
endif()
