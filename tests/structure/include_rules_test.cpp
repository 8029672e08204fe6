#include "tests/structure/include_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope::structure {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

SourceFile header(std::string path, const std::string& includes) {
  return parse_source(std::move(path), "#pragma once\n" + includes);
}

TEST(SourceTree, FindsIncludesWithTheirLines) {
  const SourceFile file = parse_source(
      "core/base/a.cpp", "#include <map>\n// #include \"x.h\"\n  #  include \"core/base/b.h\"\n");
  EXPECT_THAT(file.includes,
              ElementsAre(Include{1, "map", false}, Include{3, "core/base/b.h", true}));
}

TEST(IncludeRules, AcceptsTheRoomsBelow) {
  EXPECT_THAT(
      include_breaches(
          {header("core/base/a.h", "#include <vector>\n"),
           header("traces/b.h", "#include \"core/base/a.h\"\n"),
           header("sim/engine/c.h", "#include \"core/base/a.h\"\n#include \"traces/b.h\"\n"),
           header("backend/d.h", "#include \"traces/b.h\"\n"),
           header("cli/e.h", "#include \"sim/engine/c.h\"\n#include \"backend/d.h\"\n")}),
      IsEmpty());
}

TEST(IncludeRules, RefusesBackendInSimAndNamesTheLine) {
  EXPECT_THAT(include_breaches(
                  {header("backend/a.h", ""), header("sim/b.h", "\n#include \"backend/a.h\"\n")}),
              ElementsAre("sim/b.h:3: sim must not see \"backend/a.h\""));
}

TEST(IncludeRules, AFolderOfARoomHasARuleOfItsOwn) {
  EXPECT_THAT(
      include_breaches({header("core/config/a.h", ""), header("core/native/b.h", ""),
                        header("core/pytorch/runtimes/fsdp1/c.h", "#include \"core/config/a.h\"\n"),
                        header("sim/engine/d.h", "#include \"core/native/b.h\"\n"),
                        header("sim/planner/e.h", "#include \"core/native/b.h\"\n")}),
      ElementsAre("core/pytorch/runtimes/fsdp1/c.h:2: core/pytorch/runtimes must not see "
                  "\"core/config/a.h\"",
                  "sim/engine/d.h:2: sim must not see \"core/native/b.h\""));
}

TEST(IncludeRules, EveryFolderHasARule) {
  EXPECT_THAT(include_breaches({header("core/base/a.h", ""),
                                header("core/new/b.h", "#include \"core/base/a.h\"\n")}),
              ElementsAre("core/new/b.h:1: no rule of tests/structure covers this folder"));
}

TEST(IncludeRules, RefusesBackendInTheGui) {
  EXPECT_THAT(include_breaches(
                  {header("backend/a.h", ""), header("gui/b.h", "#include \"backend/a.h\"\n")}),
              ElementsAre("gui/b.h:2: gui must not see \"backend/a.h\""));
}

TEST(IncludeRules, RefusesIncludesThatDoNotStartAtTheRoot) {
  EXPECT_THAT(
      include_breaches(
          {header("core/base/a.h", ""), header("core/base/b.h", "#include \"a.h\"\n")}),
      ElementsAre("core/base/b.h:2: \"a.h\" is no file of this project; include from its root, "
                  "libraries in <>"));
}

TEST(IncludeRules, KeepsMpiInTheCommunicators) {
  EXPECT_THAT(include_breaches({header("backend/comm/a.h", "#include <mpi.h>\n"),
                                header("backend/train/b.h", "#include <mpi.h>\n")}),
              ElementsAre("backend/train/b.h:2: MPI does not belong in this folder: <mpi.h>"));
}

TEST(IncludeRules, KeepsCudaInItsFolders) {
  EXPECT_THAT(include_breaches({header("backend/cuda/a.h", "#include <cuda_runtime.h>\n"),
                                header("backend/profile/a.h",
                                       "#include <cupti.h>\n#include <nvtx3/nvtx3.hpp>\n"),
                                header("backend/executor/b.h", "#include <nccl.h>\n")}),
              ElementsAre("backend/executor/b.h:2: NCCL does not belong in this folder: <nccl.h>"));
}

TEST(IncludeRules, KeepsQtInTheGui) {
  EXPECT_THAT(include_breaches({header("gui/a.h", "#include <QWidget>\n"),
                                header("cli/b.h", "#include <QWidget>\n")}),
              ElementsAre("cli/b.h:2: Qt does not belong in this folder: <QWidget>"));
}

TEST(IncludeRules, KeepsJsonOutOfHeaders) {
  EXPECT_THAT(
      include_breaches({header("core/base/a.h", "#include <nlohmann/json.hpp>\n"),
                        parse_source("core/base/b.cpp", "#include <nlohmann/json.hpp>\n")}),
      ElementsAre("core/base/a.h:2: nlohmann/json belongs in a source file, not in a header: "
                  "<nlohmann/json.hpp>"));
}

TEST(IncludeRules, WantsTheOwnHeaderFirst) {
  EXPECT_THAT(
      include_breaches(
          {header("core/base/a.h", ""),
           parse_source("core/base/a.cpp", "#include <map>\n#include \"core/base/a.h\"\n")}),
      ElementsAre(
          "core/base/a.cpp:1: the first include must be its own header, \"core/base/a.h\""));
}

TEST(IncludeRules, WantsPragmaOnce) {
  EXPECT_THAT(include_breaches({parse_source("core/base/a.h", "int f();\n")}),
              ElementsAre("core/base/a.h:1: a header needs #pragma once"));
}

TEST(IncludeRules, RefusesConditionsOnDependencies) {
  EXPECT_THAT(
      include_breaches({parse_source("core/base/a.cpp", "\n#ifdef SHARDSCOPE_HAS_MPI\n#endif\n")}),
      ElementsAre("core/base/a.cpp:2: an absent dependency is a second source file, not an #if"));
}

}  // namespace
}  // namespace shardscope::structure
