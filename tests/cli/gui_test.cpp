// The verb gui: another program, found and started.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// The program alone in a folder of its own, as it is installed without Qt.
class Gui : public ::testing::Test {
 protected:
  Gui() { fs::copy_file(SHARDSCOPE_PROGRAM, workplace_.path() / "bin/shardscope"); }

  void write_program(const std::string& name, std::string_view script) const {
    workplace_.write(name, script);
    fs::permissions(workplace_.path() / name, fs::perms::owner_all);
  }
  /// With `path` as PATH.
  Outcome run(const std::string& arguments, const std::string& path = "/nowhere") const {
    return workplace_.run("--version >/dev/null; PATH=" + path + " ./bin/shardscope " + arguments);
  }

  struct Folder : Workplace {
    Folder() { fs::create_directory(path() / "bin"); }
  } workplace_;
};

TEST_F(Gui, GetsEverythingThatFollowsTheVerb) {
  write_program("bin/shardscope-gui", "#!/bin/sh\necho \"$#: $*\"\nexit 3\n");
  const Outcome outcome = run("gui 'a b' --export memory --size= -- c");
  EXPECT_EQ(outcome.output, "6: a b --export memory --size= -- c\n");
  EXPECT_EQ(outcome.code, 3);
}

TEST_F(Gui, IsLookedForInThePathNext) {
  write_program("elsewhere/shardscope-gui", "#!/bin/sh\necho found\n");
  EXPECT_EQ(run("gui", workplace_.path() / "elsewhere").output, "found\n");
}

TEST_F(Gui, ItsAbsenceIsOneLineWithTheWayOut) {
  const Outcome outcome = run("gui trace.json");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.errors,
              HasSubstr("shardscope gui: shardscope-gui: is neither beside this program"));
  EXPECT_THAT(outcome.errors, HasSubstr("install qt6-base-dev"));
  EXPECT_EQ(lines_of(outcome.errors), 1u);
}

TEST_F(Gui, HelpNeedsNoQt) {
  const Outcome outcome = run("gui --help");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("Examples:\n  shardscope gui"));
}

}  // namespace
}  // namespace shardscope::testing
