#include "tests/structure/type_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope::structure {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

SourceFile defining(std::string path, const std::string& type, const std::string& space = "a") {
  return parse_source(std::move(path),
                      "namespace " + space + " {\n" + type + "\n}  // namespace " + space + "\n");
}

TEST(TypeNames, FindsOneNameInTwoRooms) {
  EXPECT_THAT(repeated_types({defining("core/a.h", "struct Fit {"),
                              defining("sim/b.h", "class Fit : public Other {")}),
              ElementsAre("core/a.h, sim/b.h: both define a::Fit"));
}

TEST(TypeNames, NamespacesKeepThemApart) {
  EXPECT_THAT(repeated_types(
                  {defining("core/a.h", "struct Fit {"), defining("sim/b.h", "struct Fit {", "b")}),
              IsEmpty());
}

TEST(TypeNames, ASourceFilesOwnTypesAreItsOwn) {
  const std::string unnamed = "namespace a {\nnamespace {\nstruct Fit {\n}  // namespace\n";
  EXPECT_THAT(
      repeated_types({parse_source("core/a.cpp", unnamed), parse_source("sim/b.cpp", unnamed)}),
      IsEmpty());
}

TEST(TypeNames, ADeclarationDefinesNothing) {
  EXPECT_THAT(
      repeated_types({defining("core/a.h", "struct Fit {"), defining("sim/b.h", "struct Fit;")}),
      IsEmpty());
}

}  // namespace
}  // namespace shardscope::structure
