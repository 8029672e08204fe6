// Which rank this process is, from its flags and from what its launcher left in the environment.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace shardscope {

/// Environment variables by name.
using Variables = std::map<std::string, std::string>;
/// The variables of this process.
Variables process_variables();

/// Who started this process.
enum class StartedBy { user, flags, shardscope, torchrun, variables, mpirun, pmi, slurm };
const char* name_of(StartedBy started_by);

/// Where the ranks meet. Rank 0 hosts the store there unless our launcher does.
struct MeetingPoint {
  std::string address = "127.0.0.1";
  int port = 29500;
  bool hosted_by_launcher = false;
  /// Everybody who meets here is on this host.
  bool on_loopback() const;
  bool operator==(const MeetingPoint&) const = default;
};

/// The place of this process in its job.
struct Environment {
  StartedBy started_by = StartedBy::user;
  int rank = 0;
  int world = 1;
  int local_rank = 0;   ///< among the ranks of this host
  int local_world = 1;  ///< ranks on this host
  MeetingPoint meeting_point;

  bool on_one_host() const { return local_world == world; }
  bool operator==(const Environment&) const = default;
};

/// What was given on the command line; these come first.
struct RankFlags {
  std::optional<int> rank = {};
  std::optional<int> world = {};
  std::optional<int> local_rank = {};
  std::optional<int> local_world = {};
  std::optional<std::string> address = {};
  std::optional<int> port = {};
};

// Variables that our launcher sets beside torchrun's: it hosts the store itself, and its ranks are
// the innermost ones.
inline constexpr const char* launcher_variable = "SHARDSCOPE_LAUNCHER";

/// Reads the place of this process. In order: flags; RANK, WORLD_SIZE, LOCAL_RANK,
/// LOCAL_WORLD_SIZE (or DeepSpeed's LOCAL_SIZE), MASTER_ADDR, MASTER_PORT (our launcher, torchrun,
/// by hand); OMPI_COMM_WORLD_* (mpirun); PMI_* (MPICH); SLURM_* (srun). Sets that contradict each
/// other, are incomplete or impossible (rank >= world) throw Error naming the variables. Launchers
/// nest, and an inner one is right: under our launcher or torchrun the variables of mpirun and
/// Slurm are not looked at, and under mpirun not those of Slurm. In a Slurm batch script outside of
/// srun there is one process.
///
/// With TORCHELASTIC_USE_AGENT_STORE=True the agent sits on MASTER_PORT, and the ranks meet at
/// MASTER_PORT + 1. Without MASTER_ADDR and MASTER_PORT, srun's ranks meet on the first host of the
/// step, at 15000 + the last four digits of SLURM_JOB_ID.
Environment read_environment(const Variables& variables, const RankFlags& flags = {});

}  // namespace shardscope
