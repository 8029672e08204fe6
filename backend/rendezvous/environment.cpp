#include "backend/rendezvous/environment.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/base/parse_integer.h"
#include "backend/rendezvous/slurm_variables.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

/// One launcher's account of this process, each number with the variable or flag that it came from.
struct Account {
  struct Number {
    int value = 0;
    std::string from;
  };
  StartedBy started_by = StartedBy::user;
  std::optional<Number> rank, world, local_rank, local_world;
};

[[noreturn]] void fail(std::string what, std::string way_out) {
  throw Error(
      {.where = "place of this process", .what = std::move(what), .way_out = std::move(way_out)});
}

class Reader {
 public:
  explicit Reader(const Variables& variables) : variables_(variables) {}

  /// An empty variable counts as absent, as for most launchers.
  const std::string* text(const std::string& name) const {
    const auto found = variables_.find(name);
    return found == variables_.end() || found->second.empty() ? nullptr : &found->second;
  }

  std::optional<Account::Number> number(const std::string& name) const {
    const std::string* value = text(name);
    if (value == nullptr) return std::nullopt;
    const std::optional<int> parsed = parse_integer(*value);
    if (!parsed || *parsed < 0) {
      fail(fmt::format("{}=\"{}\" is not a whole number of 0 or more", name, *value),
           "set it to one, or unset it");
    }
    return Account::Number{*parsed, name};
  }

  std::optional<Account::Number> first_number(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (auto value = number(name)) return value;
    }
    return std::nullopt;
  }

 private:
  const Variables& variables_;
};

std::string shown(const Account::Number& number) {
  return fmt::format("{} {}", number.from, number.value);
}

/// Rank and world come together or not at all; so do the local ones.
void check_complete(const std::optional<Account::Number>& rank,
                    const std::optional<Account::Number>& world, const char* rank_name,
                    const char* world_name) {
  if (rank.has_value() == world.has_value()) return;
  fail(fmt::format("{} is given, but {} is not", rank ? shown(*rank) : shown(*world),
                   rank ? world_name : rank_name),
       "give both or neither");
}

Account account_of_flags(const RankFlags& flags) {
  const auto number = [](std::optional<int> value, const char* flag) {
    if (!value) return std::optional<Account::Number>();
    if (*value < 0) fail(fmt::format("{} {} is negative", flag, *value), "give 0 or more");
    return std::optional(Account::Number{*value, flag});
  };
  Account account{.started_by = StartedBy::flags,
                  .rank = number(flags.rank, "--rank"),
                  .world = number(flags.world, "--world"),
                  .local_rank = number(flags.local_rank, "--local-rank"),
                  .local_world = number(flags.local_world, "--local-world")};
  check_complete(account.rank, account.world, "--rank", "--world");
  check_complete(account.local_rank, account.local_world, "--local-rank", "--local-world");
  return account;
}

StartedBy starter_of_torch_variables(const Reader& reader) {
  if (reader.text(launcher_variable)) return StartedBy::shardscope;
  return reader.text("TORCHELASTIC_RUN_ID") ? StartedBy::torchrun : StartedBy::variables;
}

Account account_of_torch_variables(const Reader& reader) {
  Account account{.started_by = starter_of_torch_variables(reader),
                  .rank = reader.number("RANK"),
                  .world = reader.number("WORLD_SIZE"),
                  .local_rank = reader.number("LOCAL_RANK"),
                  .local_world = reader.first_number({"LOCAL_WORLD_SIZE", "LOCAL_SIZE"})};
  check_complete(account.rank, account.world, "RANK", "WORLD_SIZE");
  check_complete(account.local_rank, account.local_world, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  return account;
}

Account account_of_mpirun(const Reader& reader) {
  Account account{.started_by = StartedBy::mpirun,
                  .rank = reader.number("OMPI_COMM_WORLD_RANK"),
                  .world = reader.number("OMPI_COMM_WORLD_SIZE"),
                  .local_rank = reader.number("OMPI_COMM_WORLD_LOCAL_RANK"),
                  .local_world = reader.number("OMPI_COMM_WORLD_LOCAL_SIZE")};
  check_complete(account.rank, account.world, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  return account;
}

Account account_of_pmi(const Reader& reader) {
  Account account{.started_by = StartedBy::pmi,
                  .rank = reader.number("PMI_RANK"),
                  .world = reader.number("PMI_SIZE"),
                  .local_rank = reader.number("MPI_LOCALRANKID"),
                  .local_world = reader.number("MPI_LOCALNRANKS")};
  check_complete(account.rank, account.world, "PMI_RANK", "PMI_SIZE");
  return account;
}

bool in_slurm_batch_script(const Reader& reader) {
  const std::string* environment = reader.text("ENVIRONMENT");
  return environment != nullptr && *environment == "BATCH" && !reader.text("SLURM_STEP_ID");
}

std::optional<Account::Number> slurm_local_world(const Reader& reader) {
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    const std::string* list = reader.text(name);
    const auto node = reader.number("SLURM_NODEID");
    if (list == nullptr || !node) continue;
    if (const auto tasks = slurm_tasks_on_node(*list, node->value)) {
      return Account::Number{*tasks, name};
    }
    fail(fmt::format("{}=\"{}\" says nothing about node {}", name, *list, node->value),
         "start the processes with srun");
  }
  return std::nullopt;
}

Account account_of_slurm(const Reader& reader) {
  if (!reader.text("SLURM_PROCID") || in_slurm_batch_script(reader)) return {};
  Account account{.started_by = StartedBy::slurm,
                  .rank = reader.number("SLURM_PROCID"),
                  .world = reader.first_number({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}),
                  .local_rank = reader.number("SLURM_LOCALID"),
                  .local_world = slurm_local_world(reader)};
  check_complete(account.rank, account.world, "SLURM_PROCID", "SLURM_NTASKS");
  return account;
}

/// The launchers that speak for this process, the first one first. Inner launchers hide outer ones.
std::vector<Account> accounts(const Reader& reader, const RankFlags& flags) {
  std::vector<Account> all{account_of_flags(flags)};
  const Account torch = account_of_torch_variables(reader);
  all.push_back(torch);
  const bool marked =
      torch.started_by == StartedBy::shardscope || torch.started_by == StartedBy::torchrun;
  if (torch.rank && marked) return all;
  all.push_back(account_of_mpirun(reader));
  const bool under_mpirun = all.back().rank.has_value();
  all.push_back(account_of_pmi(reader));
  if (!under_mpirun) all.push_back(account_of_slurm(reader));
  return all;
}

/// The first account's number; another account that says otherwise is a contradiction.
std::optional<Account::Number> agreed(const std::vector<Account>& all,
                                      std::optional<Account::Number> Account::*field) {
  std::optional<Account::Number> value;
  for (const Account& account : all) {
    const auto& other = account.*field;
    if (!other) continue;
    if (!value) value = other;
    if (value->value != other->value) {
      fail(fmt::format("{} contradicts {}", shown(*value), shown(*other)),
           fmt::format("unset {} or start the processes with one launcher only", other->from));
    }
  }
  return value;
}

StartedBy starter(const std::vector<Account>& all) {
  for (const Account& account : all) {
    if (account.rank) return account.started_by;
  }
  return StartedBy::user;
}

std::string meeting_address(const Reader& reader, const RankFlags& flags, StartedBy started_by) {
  const std::string* variable = reader.text("MASTER_ADDR");
  if (flags.address && variable && *flags.address != *variable) {
    fail(fmt::format("--master-address {} contradicts MASTER_ADDR {}", *flags.address, *variable),
         "give one of them");
  }
  if (flags.address) return *flags.address;
  if (variable) return *variable;
  if (started_by == StartedBy::slurm) {
    for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
      const std::string* list = reader.text(name);
      if (list == nullptr) continue;
      if (const auto host = slurm_first_host(*list)) return *host;
      fail(fmt::format("{}=\"{}\" is not a list of hosts", name, *list), "set MASTER_ADDR");
    }
  }
  return MeetingPoint{}.address;
}

/// Two jobs on a node do not meet: 15000 + the last four digits of the job's number, as in
/// PyTorch Lightning (lightning/fabric/plugins/environments/slurm.py, 2.x).
int usual_port(const Reader& reader, StartedBy started_by) {
  const auto job =
      started_by == StartedBy::slurm ? reader.first_number({"SLURM_JOB_ID"}) : std::nullopt;
  return job ? 15000 + job->value % 10000 : MeetingPoint{}.port;
}

int meeting_port(const Reader& reader, const RankFlags& flags, StartedBy started_by) {
  const auto variable = reader.number("MASTER_PORT");
  if (flags.port && variable && *flags.port != variable->value) {
    fail(fmt::format("--master-port {} contradicts MASTER_PORT {}", *flags.port, variable->value),
         "give one of them");
  }
  int port = flags.port ? *flags.port : variable ? variable->value : usual_port(reader, started_by);
  const std::string* agent_store = reader.text("TORCHELASTIC_USE_AGENT_STORE");
  const bool agent_is_there = agent_store && *agent_store == "True";
  if (agent_is_there && !flags.port && !reader.text(launcher_variable)) ++port;
  if (port < 1 || port > 65535) {
    fail(fmt::format("port {} is not between 1 and 65535", port), "set MASTER_PORT");
  }
  return port;
}

/// Ranks that meet on the loopback address are on one host; those of mpirun and srun meet through
/// MPI instead.
bool meets_on_loopback(const Environment& place) {
  return place.meeting_point.on_loopback() && place.started_by != StartedBy::mpirun &&
         place.started_by != StartedBy::pmi && place.started_by != StartedBy::slurm;
}

void check_range(const Account::Number& rank, const Account::Number& world) {
  if (world.value < 1) fail(fmt::format("{}: there is no rank", shown(world)), "give 1 or more");
  if (rank.value >= world.value) {
    fail(fmt::format("{} is not below {}", shown(rank), shown(world)),
         fmt::format("ranks count from 0 to {}", world.value - 1));
  }
}

}  // namespace

bool MeetingPoint::on_loopback() const {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

Variables process_variables() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos)
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

const char* name_of(StartedBy started_by) {
  switch (started_by) {
    case StartedBy::user:
      return "user";
    case StartedBy::flags:
      return "flags";
    case StartedBy::shardscope:
      return "shardscope";
    case StartedBy::torchrun:
      return "torchrun";
    case StartedBy::variables:
      return "variables";
    case StartedBy::mpirun:
      return "mpirun";
    case StartedBy::pmi:
      return "pmi";
    case StartedBy::slurm:
      return "slurm";
  }
  return "?";
}

Environment read_environment(const Variables& variables, const RankFlags& flags) {
  const Reader reader(variables);
  const std::vector<Account> all = accounts(reader, flags);
  const auto rank = agreed(all, &Account::rank);
  const auto world = agreed(all, &Account::world);
  const auto local_rank = agreed(all, &Account::local_rank);
  const auto local_world = agreed(all, &Account::local_world);

  Environment place;
  place.started_by = starter(all);
  if (!rank) {
    if (local_rank) fail(fmt::format("{} is given, but no rank", shown(*local_rank)), "set RANK");
    return place;
  }
  check_range(*rank, *world);
  place.rank = rank->value;
  place.world = world->value;
  place.meeting_point = {.address = meeting_address(reader, flags, place.started_by),
                         .port = meeting_port(reader, flags, place.started_by),
                         .hosted_by_launcher = place.started_by == StartedBy::shardscope};
  if (local_rank && local_world) {
    check_range(*local_rank, *local_world);
    if (local_world->value > world->value) {
      fail(fmt::format("{} is above {}", shown(*local_world), shown(*world)),
           "a host cannot have more ranks than the job");
    }
    place.local_rank = local_rank->value;
    place.local_world = local_world->value;
  } else if (place.world == 1 || meets_on_loopback(place)) {
    place.local_rank = place.rank;
    place.local_world = place.world;
  } else {
    fail(fmt::format("{} of {}: which ranks share this host is not known", shown(*rank),
                     world->value),
         "set LOCAL_RANK and LOCAL_WORLD_SIZE");
  }
  return place;
}

}  // namespace shardscope
