// What a process of the real tools sees besides its arguments: environment variables and files.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace shardscope {

/// Environment variables; a variable that is not set is not there.
using Environment = std::map<std::string, std::string, std::less<>>;

/// os.environ.get(name, otherwise).
inline std::string variable(const Environment& environment, std::string_view name,
                            std::string_view otherwise = {}) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string(otherwise) : found->second;
}

/// The text of the file at a path as it stands in a configuration; nothing where there is no file.
using ReadFile = std::function<std::optional<std::string>(const std::string& path)>;

}  // namespace shardscope
