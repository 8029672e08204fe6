// The rules, held against this project's own files. SOURCE_ROOT and HEADER_CHECK come from CMake.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "tests/structure/include_circles.h"
#include "tests/structure/include_rules.h"
#include "tests/structure/source_tree.h"
#include "tests/structure/type_names.h"
#include "tests/structure/unreached.h"

namespace shardscope::structure {
namespace {

const std::vector<SourceFile>& our_tree() {
  static const std::vector<SourceFile> tree = read_source_tree(SOURCE_ROOT);
  return tree;
}

void expect_none(const std::vector<std::string>& breaches) {
  for (const std::string& breach : breaches) ADD_FAILURE() << breach;
}

TEST(OurTree, IsFound) { EXPECT_GT(our_tree().size(), 50U); }

TEST(OurTree, KeepsTheIncludeRules) { expect_none(include_breaches(our_tree())); }

TEST(OurTree, HasNoCircleOfHeaders) { expect_none(header_circles(our_tree())); }

TEST(OurTree, HasNoCircleOfFolders) { expect_none(folder_circles(our_tree())); }

TEST(OurTree, HasOneTypeOfAName) { expect_none(repeated_types(our_tree())); }

// Files that a command of the documentation wrote at the root were once committed with a change.
TEST(OurTree, HasNothingElseAtItsTop) {
  if (!std::filesystem::exists(SOURCE_ROOT "/.git")) GTEST_SKIP() << "not a git clone";
  const std::string list = testing::TempDir() + "top_level.txt";
  const std::string command = "git -C '" SOURCE_ROOT "' ls-files | cut -d/ -f1 | sort -u > " + list;
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::string known =
      " .ci .clang-format .clang-tidy .gitignore CHANGES.md CMakeLists.txt CMakePresets.json "
      "CONTRIBUTING.md README.md backend cli cmake core dev docs examples gui packaging sim tests "
      "traces ";
  std::ifstream names(list);
  for (std::string name; std::getline(names, name);) {
    EXPECT_NE(known.find(" " + name + " "), std::string::npos) << name << " is tracked at the root";
  }
}

// NCCL looks up the plugin's symbols by name.
TEST(OurTree, IsReachedFromThePrograms) {
  const std::set<std::string> known{"backend/profile/nccl_plugin.h"};
  const std::vector<std::string> unreached = unreached_headers(our_tree());
  EXPECT_EQ(std::set<std::string>(unreached.begin(), unreached.end()), known);
}

// A header with a source file is that file's first include and so compiles alone there; the others
// are compiled here, a few at a time on every core.
TEST(OurTree, HeadersWithoutASourceCompileAlone) {
  std::set<std::string> sources;
  for (const SourceFile& file : our_tree()) {
    if (!file.is_header()) sources.insert(file.stem());
  }
  std::string command = "cd '" SOURCE_ROOT "' && echo";
  for (const SourceFile& file : our_tree()) {
    if (file.path.ends_with(".h") && !sources.contains(file.stem())) command += " " + file.path;
  }
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  command += " | xargs -n 4 -P " + std::to_string(cores) + " " + HEADER_CHECK;
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

}  // namespace
}  // namespace shardscope::structure
