#include "tests/structure/type_names.h"

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>

namespace shardscope::structure {
namespace {

/// Follows the namespaces of a file, line by line.
class NamespaceReader {
 public:
  /// The qualified name of the type that this line defines; "" if none, or in an unnamed namespace.
  std::string type_defined_by(const std::string& line) {
    static const std::regex opens(R"(^(?:inline )?namespace(?: ([\w:]+))? \{$)");
    static const std::regex closes(R"(^\}  // namespace.*)");
    static const std::regex defines(
        R"(^(?:struct|class|enum class|union) (\w+)(?: final)?(?: : [^;]*)?(?: \{.*|$))");
    std::smatch match;
    if (std::regex_match(line, match, opens)) {
      open_.push_back(match[1].str());
    } else if (std::regex_match(line, closes) && !open_.empty()) {
      open_.pop_back();
    } else if (std::regex_match(line, match, defines) && std::ranges::count(open_, "") == 0) {
      return qualified(match[1].str());
    }
    return "";
  }

 private:
  std::string qualified(const std::string& type) const {
    std::string name;
    for (const std::string& space : open_) name += space + "::";
    return name + type;
  }

  std::vector<std::string> open_;
};

bool is_of_the_program(const SourceFile& file) {
  return file.room() != "tests" && !file.stem().ends_with("_absent");
}

}  // namespace

std::vector<std::string> repeated_types(const std::vector<SourceFile>& files) {
  std::map<std::string, std::vector<std::string>> files_by_type;
  for (const SourceFile& file : files) {
    if (!is_of_the_program(file)) continue;
    NamespaceReader reader;
    std::istringstream lines(file.text);
    for (std::string line; std::getline(lines, line);) {
      const std::string type = reader.type_defined_by(line);
      if (!type.empty()) files_by_type[type].push_back(file.path);
    }
  }
  std::vector<std::string> repeated;
  for (const auto& [type, paths] : files_by_type) {
    if (paths.size() < 2) continue;
    std::string line = paths[0];
    for (std::size_t i = 1; i < paths.size(); ++i) line += ", " + paths[i];
    repeated.push_back(line + ": both define " + type);
  }
  return repeated;
}

}  // namespace shardscope::structure
