// What an adversary would give: every verb, file and variable. Each ends with the right exit code
// and one line that names the cause, soon, in little memory, and leaves nothing behind.
//
// adversarial_inputs.json: [{args, code, says, files, env}]. `says` stands on standard error, or of
// exit code 1 on either stream. A file is text, {"hex": bytes}, {"utf16": text}, {"symlink":
// target},
// {"repeat": [text, times]} or {"profile": {key: value}}: the built-in h100_sxm with other figures.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr std::chrono::seconds longest{10};
constexpr long most_memory_kib = 1 << 20;

std::filesystem::path source_root() { return SOURCE_ROOT; }

Json read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

/// Little-endian with its mark; of ASCII.
std::string utf16_of(const std::string& text) {
  std::string bytes = "\xff\xfe";
  for (const char c : text) (bytes += c) += '\0';
  return bytes;
}

void make_file(const Workplace& workplace, const std::string& name, const Json& content) {
  if (content.is_string()) return workplace.write(name, content.get<std::string>());
  if (content.contains("symlink")) {
    std::filesystem::create_directories((workplace.path() / name).parent_path());
    return std::filesystem::create_symlink(content["symlink"].get<std::string>(),
                                           workplace.path() / name);
  }
  if (content.contains("hex"))
    return workplace.write(name, bytes_of_hex(content["hex"].get<std::string>()));
  if (content.contains("utf16"))
    return workplace.write(name, utf16_of(content["utf16"].get<std::string>()));
  if (content.contains("repeat")) {
    std::string text;
    for (int i = 0; i < content["repeat"][1].get<int>(); ++i)
      text += content["repeat"][0].get<std::string>();
    return workplace.write(name, text);
  }
  Json profile = read(source_root() / "sim/profiles/h100_sxm.json");
  for (const auto& [key, value] : content["profile"].items()) profile[key]["value"] = value;
  workplace.write(name, profile.dump());
}

struct Ended {
  bool in_time = false;
  long memory_kib = 0;
  Outcome outcome;
};

[[noreturn]] void become(const std::string& arguments, const std::filesystem::path& folder,
                         const std::filesystem::path& streams, const Json& environment) {
  setpgid(0, 0);
  if (chdir(folder.c_str()) != 0) _exit(126);
  setenv("HOME", folder.c_str(), 1);
  unsetenv("XDG_CACHE_HOME");
  for (const auto& [name, value] : environment.items())
    setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(open((streams / "out").c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
  dup2(open((streams / "err").c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
  const std::string command = "exec " SHARDSCOPE_PROGRAM " " + arguments;
  execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  _exit(127);
}

Ended run(const std::string& arguments, const Workplace& workplace, const Json& environment) {
  const Workplace streams;
  const pid_t child = fork();
  if (child == 0) become(arguments, workplace.path(), streams.path(), environment);
  Ended ended;
  int status = 0;
  rusage usage{};
  const auto end = std::chrono::steady_clock::now() + longest;
  while (!ended.in_time && std::chrono::steady_clock::now() < end) {
    ended.in_time = wait4(child, &status, WNOHANG, &usage) == child;
    if (!ended.in_time) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (!ended.in_time) {
    kill(-child, SIGKILL);
    wait4(child, &status, 0, &usage);
  }
  ended.memory_kib = usage.ru_maxrss;
  ended.outcome = {.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                   .output = streams.read("out"),
                   .errors = streams.read("err")};
  return ended;
}

void expect_named(const Json& input, const Outcome& outcome) {
  const std::string says = input["says"];
  EXPECT_EQ(outcome.code, input["code"]);
  EXPECT_THAT(outcome.errors, Not(HasSubstr("unexpected failure")));
  if (input["code"] == 1) {
    EXPECT_THAT(outcome.output + outcome.errors, HasSubstr(says));
    return;
  }
  EXPECT_THAT(outcome.errors, HasSubstr(says));
  EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
  EXPECT_EQ(outcome.output, "");
}

TEST(AdversarialInput, EndsSoonWithOneLineThatNamesTheCause) {
  const Json inputs = read(source_root() / "tests/cli/adversarial_inputs.json");
  EXPECT_GE(inputs.size(), 440u);
  for (const Json& input : inputs) {
    SCOPED_TRACE(input.dump().substr(0, 400));
    const Workplace workplace;
    set_up_tiny_job(workplace);
    const Json files = input.value("files", Json::object());
    for (const auto& [name, content] : files.items()) make_file(workplace, name, content);
    const std::vector<std::string> before = workplace.files();
    const Ended ended = run(input["args"], workplace, input.value("env", Json::object()));
    EXPECT_TRUE(ended.in_time) << "it runs on";
    EXPECT_LT(ended.memory_kib, most_memory_kib);
    expect_named(input, ended.outcome);
    EXPECT_EQ(workplace.files(), before);
  }
}

}  // namespace
}  // namespace shardscope::testing
