// Jobs of several ranks, started as people start them, and what a lost, late or missing rank does
// to them: bounded in time, one line that names it, nothing left running.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "backend/rendezvous/tcp_store_server.h"
#include "tests/backend/comm/forked_ranks.h"
#include "tests/cli/started_program.h"

namespace shardscope::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Of a rank that is waited for; a rank that is well comes within it, on a busy machine, too.
constexpr seconds deadline{5};
/// Beyond the deadline.
constexpr seconds bound = long_enough;

class Ranks : public ::testing::Test {
 protected:
  Ranks() {
    set_up_tiny_job(workplace_);
    // No rank is done before the test is.
    workplace_.write("job.json",
                     replaced(replaced(tiny_job(), "\"steps\": 3", "\"steps\": 9000000"),
                              "\"ranks\": 2", R"("ranks": 2, "timeout": "5 s")"));
    std::string text;
    for (int i = 0; i < 400000; ++i) text += "the quick brown fox " + std::to_string(i) + "\n";
    workplace_.write("text.txt", text);
  }

  std::string run_folder() const { return (workplace_.path() / "run").string(); }
  std::vector<std::string> train(std::vector<std::string> before = {}) const {
    for (const char* word : {SHARDSCOPE_PROGRAM, "train", "job.json", "--device", "cpu", "--quiet",
                             "--precision", "fp32", "--threads", "1", "-o"})
      before.push_back(word);
    before.push_back(run_folder());
    return before;
  }
  std::vector<std::string> launch(int ranks) const {
    std::vector<std::string> command = train();
    command.insert(command.end(), {"--ranks", std::to_string(ranks)});
    return command;
  }

  /// As torchrun sets them.
  static StartedProgram::Variables variables_of(int rank, int ranks, int port) {
    return {{"RANK", std::to_string(rank)},
            {"WORLD_SIZE", std::to_string(ranks)},
            {"LOCAL_RANK", std::to_string(rank)},
            {"LOCAL_WORLD_SIZE", std::to_string(ranks)},
            {"MASTER_ADDR", "127.0.0.1"},
            {"MASTER_PORT", std::to_string(port)},
            {"GROUP_RANK", "0"},
            {"TORCHELASTIC_RUN_ID", "none"},
            {"TORCHELASTIC_RESTART_COUNT", "0"},
            {"OMP_NUM_THREADS", "1"},
            {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
  }
  std::vector<StartedProgram> start_by_variables(int ranks, int port) const {
    std::vector<StartedProgram> programs;
    for (int rank = 0; rank < ranks; ++rank)
      programs.emplace_back(train(), workplace_.path(), variables_of(rank, ranks, port));
    return programs;
  }

  void wait_for_steps() const {
    ASSERT_TRUE(comes_true([&] { return lines_of(workplace_.read("run/metrics.jsonl")) >= 3; }))
        << "no step was finished";
  }
  void expect_nothing_left() const {
    comes_true([&] { return processes_with(run_folder()).empty(); });
    EXPECT_THAT(processes_with(run_folder()), IsEmpty());
  }
  /// Outcomes of what must end within deadline and bound.
  static std::vector<Outcome> outcomes_of(std::vector<StartedProgram>& programs) {
    std::vector<Outcome> outcomes;
    const auto end = std::chrono::steady_clock::now() + deadline + bound;
    for (StartedProgram& program : programs) {
      const auto left =
          std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
      const std::optional<Outcome> outcome = program.wait(std::max(left, milliseconds(0)));
      EXPECT_TRUE(outcome) << "it runs on";
      outcomes.push_back(outcome.value_or(Outcome{}));
    }
    return outcomes;
  }

  Workplace workplace_;
};

TEST_F(Ranks, OneThatIsKilledEndsTheJobOfOurLauncher) {
  StartedProgram launcher(launch(3), workplace_.path());
  wait_for_steps();
  ::kill(process_with(run_folder(), "RANK=1").value(), SIGKILL);
  const auto outcome = launcher.wait(bound);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, 4);
  EXPECT_EQ(lines_of(outcome->errors), 1U) << outcome->errors;
  EXPECT_THAT(outcome->errors, AllOf(HasSubstr("rank 1: was killed by signal 9 (Killed)"),
                                     HasSubstr("ranks 0,2 "), HasSubstr("flight.<rank>.json"),
                                     Not(HasSubstr("log.1.txt"))));  // it is empty
  expect_nothing_left();
}

TEST_F(Ranks, OneThatHangsIsNamedWithWhatTheOthersWaitIn) {
  StartedProgram launcher(launch(3), workplace_.path());
  wait_for_steps();
  ::kill(process_with(run_folder(), "RANK=2").value(), SIGSTOP);
  const auto outcome = launcher.wait(deadline + bound);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, 4);
  EXPECT_EQ(lines_of(outcome->errors), 1U) << outcome->errors;
  EXPECT_THAT(outcome->errors, AllOf(HasSubstr("rank 2 did not come within 5 s"),
                                     HasSubstr("rank 2 gives no answer"), HasSubstr(" B, ")));
  expect_nothing_left();
  const auto record = nlohmann::json::parse(workplace_.read("run/flight.0.json"));
  EXPECT_EQ(record["schema"], "shardscope.flight/1");
  EXPECT_EQ(record["late_ranks"], nlohmann::json({2}));
  EXPECT_EQ(record["world"], 3);
  const auto waits = std::find_if(record["operations"].begin(), record["operations"].end(),
                                  [](const auto& one) { return one["state"] == "started"; });
  ASSERT_NE(waits, record["operations"].end());
  EXPECT_THAT(outcome->errors,
              HasSubstr((*waits)["operation"].template get<std::string>() + " of " +
                        std::to_string((*waits)["bytes"].template get<int>())));
}

TEST_F(Ranks, StartedByVariablesTheyEndWhenOneIsKilled) {
  auto programs = start_by_variables(3, free_port());
  wait_for_steps();
  ::kill(programs[1].id(), SIGKILL);
  const auto outcomes = outcomes_of(programs);
  EXPECT_EQ(outcomes[0].code, 4);
  EXPECT_EQ(outcomes[1].code, 128 + SIGKILL);
  EXPECT_EQ(outcomes[2].code, 4);
  const std::string errors = outcomes[0].errors + outcomes[2].errors;
  EXPECT_EQ(lines_of(errors), 1U) << errors;
  EXPECT_THAT(errors, HasSubstr("rank 1 was lost"));
  expect_nothing_left();
}

TEST_F(Ranks, StartedByVariablesTheyEndWhenTheFirstIsKilled) {
  auto programs = start_by_variables(2, free_port());
  wait_for_steps();
  ::kill(programs[0].id(), SIGKILL);
  const auto outcomes = outcomes_of(programs);
  EXPECT_EQ(outcomes[1].code, 4);
  EXPECT_THAT(outcomes[1].errors, HasSubstr("rank 0 was lost"));
  expect_nothing_left();
}

TEST_F(Ranks, StartedByVariablesTheyEndWhenOneHangs) {
  auto programs = start_by_variables(3, free_port());
  wait_for_steps();
  ::kill(programs[2].id(), SIGSTOP);
  const auto outcomes = outcomes_of(programs);
  EXPECT_EQ(outcomes[0].code, 4);
  EXPECT_EQ(outcomes[1].code, 4);
  EXPECT_EQ(outcomes[2].code, 128 + SIGKILL);
  EXPECT_THAT(outcomes[0].errors + outcomes[1].errors, HasSubstr("rank 2 did not come within 5 s"));
  expect_nothing_left();
}

struct OtherJob {
  std::vector<std::string> words;  ///< of rank 1
  const char* named;
  std::vector<std::string> words_of_first = {};
};

TEST_F(Ranks, ThatRunDifferentJobsSaySoBeforeTheFirstStep) {
  workplace_.write("other.txt", workplace_.read("text.txt") + "more\n");
  // As long, and different in one byte that no sample of the data would meet.
  std::string text(400'000, 'a');
  workplace_.write("a.txt", text);
  text[5000] = 'b';
  workplace_.write("b.txt", text);
  // The same config, and weights that differ in the last number's lowest byte.
  ASSERT_EQ(workplace_.run("train job.json --quiet --steps 1 --ranks 1 --device cpu -o w").code, 0);
  workplace_.write("w/other/config.json", workplace_.read("w/model/config.json"));
  std::string weights = workplace_.read("w/model/model.safetensors");
  weights[weights.size() - 4] ^= 1;
  workplace_.write("w/other/model.safetensors", weights);
  for (const OtherJob& other : std::initializer_list<OtherJob>{
           {{"--seed", "2"}, "ranks 0 and 1 run different jobs: seed is 1 and 2"},
           {{"--batch", "4"}, "ranks 0 and 1 run different jobs: batch is 2 and 4"},
           {{"--steps", "7"}, "ranks 0 and 1 run different jobs: steps is 9000000 and 7"},
           {{"--profile", "3"}, "ranks 0 and 1 run different jobs: profile.start is 0 and 3"},
           {{"--data", "other.txt"}, "ranks 0 and 1 run different jobs: data is "},
           {{"--data", "b.txt"},
            "ranks 0 and 1 run different jobs: data is 400000 tokens with digest ",
            {"--data", "a.txt"}},
           {{"--model", "w/other"},
            "ranks 0 and 1 run different jobs: the start weights' content is ",
            {"--model", "w/model"}}}) {
    SCOPED_TRACE(other.named);
    const int port = free_port();
    std::vector<StartedProgram> programs;
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<std::string> words = train();
      const std::vector<std::string>& more = rank == 0 ? other.words_of_first : other.words;
      words.insert(words.end(), more.begin(), more.end());
      programs.emplace_back(words, workplace_.path(), variables_of(rank, 2, port));
    }
    std::string errors;
    for (const Outcome& outcome : outcomes_of(programs)) {
      EXPECT_EQ(outcome.code, 2);
      errors += outcome.errors;
    }
    EXPECT_THAT(errors, HasSubstr(other.named));
    EXPECT_FALSE(workplace_.has("run/metrics.jsonl"));
  }
}

TEST_F(Ranks, AFolderIsOneRunsAlone) {
  StartedProgram first(launch(2), workplace_.path());
  wait_for_steps();
  StartedProgram second(launch(2), workplace_.path());
  const auto outcome = second.wait(deadline + bound);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, 3);
  EXPECT_THAT(outcome->errors, HasSubstr("another run is writing into this folder"));
  ::kill(first.id(), SIGTERM);
  const auto interrupted = first.wait(deadline + bound);
  ASSERT_TRUE(interrupted);
  EXPECT_EQ(interrupted->code, 130);
  EXPECT_THAT(interrupted->output, HasSubstr("interrupted after "));
}

TEST_F(Ranks, StartedByVariablesTheyAllEndWhereTheFolderIsAnotherRuns) {
  StartedProgram first(launch(1), workplace_.path());
  wait_for_steps();
  auto programs = start_by_variables(3, free_port());
  const auto outcomes = outcomes_of(programs);
  EXPECT_EQ(outcomes[0].code, 3);
  for (const std::size_t rank : {1, 2}) {
    EXPECT_EQ(outcomes[rank].code, 4);
    EXPECT_THAT(outcomes[rank].errors, AllOf(HasSubstr("rank 0 ended before the start"),
                                             HasSubstr("another run is writing into this folder")));
  }
}

TEST_F(Ranks, OneThatNeverComesIsNamed) {
  const int port = free_port();
  std::vector<StartedProgram> programs;
  for (const int rank : {0, 2})
    programs.emplace_back(train(), workplace_.path(), variables_of(rank, 3, port));
  for (const Outcome& outcome : outcomes_of(programs)) {
    EXPECT_EQ(outcome.code, 4);
    EXPECT_THAT(outcome.errors, HasSubstr("rank 1 of 3 did not come"));
  }
  expect_nothing_left();
}

TEST_F(Ranks, AWrongHostNameIsNamed) {
  auto variables = variables_of(1, 2, free_port());
  variables["MASTER_ADDR"] = "no-such-host.invalid";
  std::vector<StartedProgram> programs;
  programs.emplace_back(train(), workplace_.path(), variables);
  const Outcome outcome = outcomes_of(programs)[0];
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("no-such-host.invalid"), HasSubstr("MASTER_ADDR")));
}

TEST_F(Ranks, AWrongPortIsNamed) {
  const int port = free_port();
  std::vector<StartedProgram> programs;
  programs.emplace_back(train(), workplace_.path(), variables_of(1, 2, port));
  const Outcome outcome = outcomes_of(programs)[0];
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.errors,
              AllOf(HasSubstr("127.0.0.1:" + std::to_string(port)), HasSubstr("refused")));
}

TEST_F(Ranks, APortThatSomebodyElseHasIsNamed) {
  const ListeningSocket taken(ListeningSocket::Reach::loopback, 0);
  std::vector<StartedProgram> programs;
  for (int rank = 0; rank < 2; ++rank)
    programs.emplace_back(train(), workplace_.path(), variables_of(rank, 2, taken.port()));
  const auto outcomes = outcomes_of(programs);
  EXPECT_EQ(outcomes[0].code, 3);
  EXPECT_THAT(outcomes[0].errors, HasSubstr("in use"));
  EXPECT_EQ(outcomes[1].code, 4);
}

#ifdef SHARDSCOPE_MPIEXEC
class MpiRanks : public Ranks {
 protected:
  StartedProgram start(int ranks) const {
    // More ranks than cores, possibly as root, in a container without ptrace rights.
    return {train({SHARDSCOPE_MPIEXEC, "--oversubscribe", "--bind-to", "none", "--mca",
                   "btl_vader_single_copy_mechanism", "none", "-np", std::to_string(ranks)}),
            workplace_.path(),
            {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}}};
  }
  void disturb(int rank, int signal) const {
    const auto id = process_with(run_folder(), "OMPI_COMM_WORLD_RANK=" + std::to_string(rank));
    ::kill(id.value(), signal);
  }
  static std::size_t our_lines(const std::string& errors) {
    std::size_t count = 0;
    for (std::size_t at = errors.find("shardscope train:"); at != errors.npos;
         at = errors.find("shardscope train:", at + 1))
      ++count;
    return count;
  }
};

TEST_F(MpiRanks, EndWhenOneIsKilled) {
  StartedProgram mpirun = start(2);
  wait_for_steps();
  disturb(1, SIGKILL);
  const auto outcome = mpirun.wait(bound);
  ASSERT_TRUE(outcome);
  EXPECT_NE(outcome->code, 0);  // mpirun's own: 128 + 9 or ours
  EXPECT_LE(our_lines(outcome->errors), 1U) << outcome->errors;
  EXPECT_THAT(outcome->errors, HasSubstr("rank 1"));
  expect_nothing_left();
}

TEST_F(MpiRanks, EndWhenOneHangs) {
  StartedProgram mpirun = start(2);
  wait_for_steps();
  disturb(1, SIGSTOP);
  const auto outcome = mpirun.wait(deadline + bound);
  ASSERT_TRUE(outcome);
  EXPECT_NE(outcome->code, 0);
  EXPECT_EQ(our_lines(outcome->errors), 1U) << outcome->errors;
  EXPECT_THAT(outcome->errors, HasSubstr("rank 1 did not come within 5 s"));
  expect_nothing_left();
}
#endif

}  // namespace
}  // namespace shardscope::testing
