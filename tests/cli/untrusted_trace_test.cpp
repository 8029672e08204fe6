// What a trace holds is others' text, and what is named may be no file: neither disturbs a terminal
// or holds the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// One collective of a group whose name would colour the terminal and set its title; a process too.
std::string evil_trace() {
  const std::string evil = R"(<b>\u001b[31mRED\u001b]0;title\u0007\u009b2J)";
  return R"({"schemaVersion": 1, "deviceProperties": [], "distributedInfo": {"rank": 0},
"traceEvents": [
{"ph": "M", "name": "thread_name", "pid": 0, "tid": 8, "args": {"name": ")" +
         evil + R"("}},
{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 8, "ts": 1,
 "dur": 50, "args": {"device": 0, "stream": 8, "Collective name": ")" +
         evil + R"(", "In msg nelems": 10, "Out msg nelems": 10, "Group size": 2, "dtype": "Float",
 "Process Group Name": ")" +
         evil + R"(", "Process Group Description": ")" + evil + R"("}}]})";
}

bool has_controls(std::string_view text) {
  const bool has_c1 = text.find("\xC2\x9B") != text.npos;
  return has_c1 || std::any_of(text.begin(), text.end(), [](char c) {
           return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7F;
         });
}

TEST(UntrustedTrace, ShowsItsNamesWithoutWhatATerminalObeys) {
  const Workplace workplace;
  workplace.write("evil.json", evil_trace());
  const Outcome outcome = workplace.run("report evil.json --color never");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr(R"(<b>\x1b[31mRED\x1b]0;title\x07\x9b2J)"));
  EXPECT_FALSE(has_controls(outcome.output));
  const Outcome coloured = workplace.run("report evil.json --color always");
  EXPECT_THAT(coloured.output, HasSubstr("\033[1m"));
  EXPECT_THAT(coloured.output, Not(HasSubstr("\033[31m")));
}

TEST(UntrustedTrace, LeavesNoControlCharactersInAPageOrAText) {
  const Workplace workplace;
  workplace.write("evil.json", evil_trace());
  for (const std::string name : {"page.html", "page.svg", "page.txt"}) {
    ASSERT_EQ(workplace.run("report evil.json --quiet -o " + name).code, 0);
    EXPECT_FALSE(has_controls(workplace.read(name))) << name;
  }
}

TEST(UntrustedTrace, ComplainsOfAFileWithoutItsControlCharacters) {
  const Workplace workplace;
  workplace.write("a\033[31mb.json", "nothing of ours");
  const Outcome outcome = workplace.run("report *.json");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("a\\x1b[31mb.json"));
  EXPECT_FALSE(has_controls(outcome.errors));
}

TEST(UntrustedTrace, IsNoPipe) {
  const Workplace workplace;
  ASSERT_EQ(::mkfifo((workplace.path() / "pipe").c_str(), 0600), 0);
  const Outcome outcome = workplace.run("report pipe");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("pipe: a pipe"));
  workplace.write("plain.json", evil_trace());
  EXPECT_EQ(workplace.run("report /dev/stdin < plain.json").code, 0);  // a file all the same
}

TEST(UntrustedTrace, IsSaidToBeEmpty) {
  const Workplace workplace;
  workplace.write("empty.json", "");
  EXPECT_THAT(workplace.run("report empty.json").errors, HasSubstr("empty.json: empty"));
}

}  // namespace
}  // namespace shardscope::testing
