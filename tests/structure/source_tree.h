// The project's C++ files and their #include lines.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope::structure {

struct Include {
  int line = 0;         ///< from 1
  std::string target;   ///< what stands between the quotes or brackets
  bool quoted = false;  ///< "..." rather than <...>
  bool operator==(const Include&) const = default;
};

struct SourceFile {
  std::string path;  ///< from the project's root: "core/error.h"
  std::string text;
  std::vector<Include> includes;

  bool is_header() const;
  /// The path without its extension: what a header and its source share.
  std::string stem() const;
  /// The first folder: "core".
  std::string room() const;
};

/// A file with its includes found. Lines inside comments that start with // are not includes.
SourceFile parse_source(std::string path, std::string text);

/// Every .h, .cpp, .cu and .cuh of the rooms under `root`, by path.
std::vector<SourceFile> read_source_tree(const std::filesystem::path& root);

}  // namespace shardscope::structure
