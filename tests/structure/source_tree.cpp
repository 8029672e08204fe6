#include "tests/structure/source_tree.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <utility>

namespace shardscope::structure {
namespace {

namespace fs = std::filesystem;

constexpr std::array rooms{"core", "traces", "sim", "backend", "gui", "cli", "tests"};
constexpr std::string_view blanks = " \t";

std::string_view without_blanks(std::string_view text) {
  const auto first = text.find_first_not_of(blanks);
  return first == std::string_view::npos ? std::string_view{} : text.substr(first);
}

std::optional<Include> parse_include(std::string_view line, int number) {
  line = without_blanks(line);
  if (!line.starts_with('#')) return std::nullopt;
  line = without_blanks(line.substr(1));
  if (!line.starts_with("include")) return std::nullopt;
  line = without_blanks(line.substr(std::string_view("include").size()));
  if (line.empty() || (line[0] != '"' && line[0] != '<')) return std::nullopt;
  const bool quoted = line[0] == '"';
  const auto end = line.find(quoted ? '"' : '>', 1);
  if (end == std::string_view::npos) return std::nullopt;
  return Include{.line = number, .target = std::string(line.substr(1, end - 1)), .quoted = quoted};
}

bool is_source(const fs::path& path) {
  const auto extension = path.extension();
  return extension == ".h" || extension == ".cpp" || extension == ".cu" || extension == ".cuh";
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

bool SourceFile::is_header() const { return path.ends_with(".h") || path.ends_with(".cuh"); }
std::string SourceFile::stem() const { return path.substr(0, path.rfind('.')); }
std::string SourceFile::room() const { return path.substr(0, path.find('/')); }

SourceFile parse_source(std::string path, std::string text) {
  SourceFile file{.path = std::move(path), .text = std::move(text), .includes = {}};
  std::string_view rest = file.text;
  for (int number = 1; !rest.empty(); ++number) {
    const auto end = rest.find('\n');
    if (auto include = parse_include(rest.substr(0, end), number)) {
      file.includes.push_back(*std::move(include));
    }
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  }
  return file;
}

std::vector<SourceFile> read_source_tree(const fs::path& root) {
  std::vector<SourceFile> files;
  for (const char* room : rooms) {
    if (!fs::is_directory(root / room)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / room)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      files.push_back(parse_source(entry.path().lexically_relative(root).generic_string(),
                                   read_text(entry.path())));
    }
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

}  // namespace shardscope::structure
