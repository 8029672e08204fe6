#include "tests/cli/program.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace shardscope::testing {
namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::filesystem::path new_folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "shardscope_cli_XXXXXX").string();
  return mkdtemp(pattern.data());
}

}  // namespace

Outcome run_program(const std::string& arguments, const std::filesystem::path& folder) {
  const std::filesystem::path streams = new_folder();
  const std::string command = "cd '" + folder.string() + "' && { HOME='" + folder.string() +
                              "' XDG_CACHE_HOME= " SHARDSCOPE_PROGRAM " " + arguments + " ; } >'" +
                              (streams / "out").string() + "' 2>'" + (streams / "err").string() +
                              "' </dev/null";
  const int status = std::system(command.c_str());
  Outcome outcome{.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                  .output = content_of(streams / "out"),
                  .errors = content_of(streams / "err")};
  std::filesystem::remove_all(streams);
  return outcome;
}

Workplace::Workplace() : path_(new_folder()) {}

Workplace::~Workplace() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void Workplace::write(const std::string& name, std::string_view content) const {
  std::filesystem::create_directories((path_ / name).parent_path());
  std::ofstream(path_ / name, std::ios::binary) << content;
}

std::string Workplace::read(const std::string& name) const { return content_of(path_ / name); }

std::vector<std::string> Workplace::files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string tiny_config() {
  return R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 256, "n_positions": 32,
 "n_embd": 16, "n_layer": 2, "n_head": 2})";
}

std::string tiny_job() {
  return R"({
  "model": "model",
  "data": "text.txt",
  "steps": 3,
  "batch": 2,
  "seq": 8,
  "strategy": "full_shard",
  "ranks": 2
})";
}

void set_up_tiny_job(const Workplace& workplace) {
  workplace.write("model/config.json", tiny_config());
  workplace.write("job.json", tiny_job());
  std::string text;
  for (int i = 0; i < 200; ++i) text += "the quick brown fox " + std::to_string(i * i) + "\n";
  workplace.write("text.txt", text);
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  if (at == std::string::npos) {
    ADD_FAILURE() << "\"" << what << "\" does not occur in " << text;
    return text;
  }
  return text.replace(at, what.size(), by);
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace shardscope::testing
