// `shardscope record`, with a program that uses CUDA directly, and with torch where it is
// installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/format/atomic_file.h"
#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

const std::string cuda_user = CUDA_USER;

class Record : public ::testing::Test {
 protected:
  Workplace workplace_;
};

TEST_F(Record, TheDeviceHoldsWhatItIsGivenAndNoMoreThanItHas) {
  const Outcome outcome = workplace_.run("record -o run --json -- " + cuda_user);
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json answer = Json::parse(outcome.output);
  EXPECT_THAT(answer["recording"]["unknown_functions"], Contains("cusparseGather"));
  EXPECT_EQ(answer["recording"]["exit_code"], 0);
  EXPECT_TRUE(answer["recording"]["ended"]);
  EXPECT_EQ(answer["world"], 1);
  const Json again =
      Json::parse(workplace_.run("simulate --recording run --cluster a100_80gb --json").output);
  EXPECT_EQ(again["recording"]["kernels"], answer["recording"]["kernels"]);
  const Json same = Json::parse(workplace_.run("simulate --recording run --json").output);
  EXPECT_EQ(same["step_time_ns"], answer["step_time_ns"]);
}

// Everything up to the crash is there, and the code says that the command failed.
TEST_F(Record, WhatACrashLeavesIsRead) {
  const Outcome outcome = workplace_.run("record -o run --json -- " + cuda_user + " --crash");
  EXPECT_EQ(outcome.code, 3) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("exit code 134"));
  EXPECT_FALSE(Json::parse(outcome.output)["recording"]["ended"]);
}

// An event after work is not ready before its time, and elapsed time is that of the cost model.
TEST_F(Record, TimeIsModelledWhereItIsAskedFor) {
  for (const char* time : {"zero", "model"}) {
    SCOPED_TRACE(time);
    const Outcome outcome =
        workplace_.run(std::string("record -o run --json --cluster h100_sxm --time ") + time +
                       " -- " + cuda_user + " --" + time);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
  }
}

TEST_F(Record, ACopyOfPageableMemoryGoesAtTheRateOfTheHost) {
  const Outcome outcome = workplace_.run(
      "record -o run --json --cluster h100_sxm --time model -- " + cuda_user + " --copies");
  EXPECT_EQ(outcome.code, 0) << outcome.errors << outcome.output;
  // Played again: 18.413 and 2.796 ms, and no more than a few launches beside them.
  const Json again = Json::parse(workplace_.run("simulate --recording run --json").output);
  EXPECT_GT(again["step_time_ns"], 21'205'000);
  EXPECT_LT(again["step_time_ns"], 21'400'000);
  // Where the profile has no rate of its own both kinds are as fast: twice 5.592 ms by PCIe 4.
  const Json other =
      Json::parse(workplace_.run("simulate --recording run --cluster a100_80gb --json").output);
  EXPECT_GT(other["step_time_ns"], 11'180'000);
  EXPECT_LT(other["step_time_ns"], 11'500'000);
}

// The order of frees without anything between them follows from addresses of the host. What waits
// for a stream stays in its place.
TEST_F(Record, BlocksThatAreGivenBackTogetherHaveOneOrder) {
  const auto log_of = [&](const std::string& order) {
    const Outcome outcome = workplace_.run("record -o " + order + " --json --cluster h100_sxm -- " +
                                           cuda_user + " --give-back " + order);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return read_whole(workplace_.path() / order / "events.txt");
  };
  const std::string log = log_of("213");
  EXPECT_EQ(log_of("321"), log);
  const auto line = [](const char* what, char number) {
    return std::string("0\t") + what + "\t" + number + "000\t512\t0\n";
  };
  std::string back;
  for (const char number : {'1', '2', '3'}) back += line("free", number) + line("freed", number);
  EXPECT_THAT(log, HasSubstr(back + line("free", '4')));
  EXPECT_THAT(log, Not(HasSubstr(line("free", '4') + line("freed", '4'))));
}

// A second pass: the same command with other costs.
TEST_F(Record, ASecondPassSaysWhetherTheOrderIsTheSame) {
  ASSERT_EQ(workplace_.run("record -o run --json --cluster h100_sxm -- " + cuda_user).code, 0);
  const std::string second = "record --beside run --json --cluster a100_80gb --time model -o ";
  const Outcome same = workplace_.run(second + "second -- " + cuda_user);
  ASSERT_EQ(same.code, 0) << same.errors;
  const Json order = Json::parse(same.output)["beside"]["ranks"][0];
  EXPECT_EQ(order["same_order"], true);
  EXPECT_EQ(order["difference"], nullptr);
  const Outcome other = workplace_.run(second + "third -- " + cuda_user + " --give-back 123");
  ASSERT_EQ(other.code, 0) << other.errors;
  EXPECT_EQ(Json::parse(other.output)["beside"]["ranks"][0]["same_order"], false);
  EXPECT_EQ(workplace_.run(second + "run -- " + cuda_user).code, 2);
  EXPECT_EQ(workplace_.run("record --beside nowhere -- " + cuda_user).code, 2);
}

TEST_F(Record, RanksThatAreRecordedTogetherHearEachOther) {
  const Outcome outcome = workplace_.run(
      "record -o run --json --cluster h100_sxm --world 2 --ranks 1,0 -- " + cuda_user + " --talk");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json answer = Json::parse(outcome.output);
  EXPECT_EQ(answer["recording"]["rank"], 1);
  ASSERT_EQ(answer["ranks"].size(), 2u);
  EXPECT_EQ(answer["ranks"][1]["rank"], 0);
  const Outcome other = workplace_.run("simulate --recording run --rank 0 --json");
  ASSERT_EQ(other.code, 0) << other.errors;
  EXPECT_EQ(Json::parse(other.output)["recording"]["rank"], 0);
  EXPECT_EQ(workplace_.run("simulate --recording run --rank 2").code, 2);
}

TEST_F(Record, AChildOfForkIsRecordedToItsEnd) {
  const Outcome outcome =
      workplace_.run("record -o run --json --cluster h100_sxm -- " + cuda_user + " --child");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_TRUE(Json::parse(outcome.output)["recording"]["ended"]);
}

// A recording says what ran, whichever runtime it was: a profile is laid beside it by operators and
// collectives. These two are of different models, so that not all has a counterpart.
TEST_F(Record, AProfileIsComparedWithARecording) {
  const std::string data = SOURCE_ROOT "/tests/data/";
  std::filesystem::create_directory(workplace_.path() / "run");
  workplace_.write(
      "run/recording.json",
      R"({"schema": "shardscope.recording/1", "command": ["python"], "world": 4, "rank": 1,
                       "time": "zero", "cluster": "h100_sxm", "exit_code": 0, "tokens_per_step": 0})");
  std::filesystem::copy_file(data + "recordings/fsdp2_rank1_of_4.txt",
                             workplace_.path() / "run/events.txt");
  ASSERT_EQ(workplace_.run("simulate --recording run --cluster h100_sxm -o predicted").code, 0);
  const Outcome outcome = workplace_.run("compare --predicted predicted --json --trace " + data +
                                         "kineto/fsdp2_gpt2/rank0.pt.trace.json.gz");
  EXPECT_EQ(outcome.code, 1) << outcome.errors;
  const Json answer = Json::parse(outcome.output);
  EXPECT_EQ(answer["ranks"][0]["match"]["runtime"]["unmatched"], Json::array());
}

// A model may be exported there; nothing is left but what the command left.
TEST_F(Record, ModelOnlyKeepsNothing) {
  const Outcome outcome = workplace_.run("record --model-only -- " + cuda_user);
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_TRUE(workplace_.files().empty());
  EXPECT_EQ(workplace_.run("record --model-only -- " + cuda_user + " --crash").code, 3);
  const Outcome refused = workplace_.run("record --model-only -o run -- " + cuda_user);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("nothing is recorded with it"));
}

TEST_F(Record, BadUseIsOneLine) {
  for (const char* arguments :
       {"record", "record --", "record --world 0 -- true", "record --world 4 --rank 4 -- true",
        "record --time fast -- true", "record --world 4 --ranks 0,4 -- true",
        "record --world 4 --ranks 0,x -- true", "record --world 4 --rank 1 --ranks 0,1 -- true",
        "record --cluster nowhere -- true", "record python train.py",
        "simulate --recording nowhere --cluster h100_sxm", "simulate --recording nowhere",
        "simulate --recording run --model gpt2", "simulate --recording run --explain"}) {
    SCOPED_TRACE(arguments);
    const Outcome outcome = workplace_.run(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.errors;
    EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
  }
  EXPECT_THAT(workplace_.run("simulate --recording nowhere").errors,
              HasSubstr("nowhere: no recording is there"));
  const Outcome missing = workplace_.run("record --cluster h100_sxm -- no_such_program");
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.errors, HasSubstr("no_such_program: cannot be started"));
  const Outcome idle = workplace_.run("record --cluster h100_sxm -o idle -- true");
  EXPECT_EQ(idle.code, 1);
  EXPECT_THAT(idle.errors, HasSubstr("used no CUDA device"));
}

// What the command said itself stands above the one line.
TEST_F(Record, ACommandThatEndsBeforeItUsesADeviceIsOneLine) {
  const Outcome failed = workplace_.run("record --cluster h100_sxm -o run -- false");
  EXPECT_EQ(failed.code, 3);
  EXPECT_EQ(lines_of(failed.errors), 1u) << failed.errors;
  EXPECT_THAT(failed.errors, HasSubstr("the command ended with exit code 1 before it used a CUDA"));
  if (std::system("python3 -c 0 > /dev/null 2>&1") != 0) GTEST_SKIP() << "no python3 here";
  workplace_.write("train.py", "import torch\n");
  for (const auto& [version, said] :
       {std::pair{"cuda, hip = None, None", "torch 2.15.0 was built without CUDA"},
        std::pair{"cuda, hip = None, '6.4'", "torch 2.15.0 was built for ROCm"}}) {
    SCOPED_TRACE(said);
    workplace_.write("torch.py",
                     std::string("__version__ = '2.15.0'\nclass version:\n    ") + version + "\n");
    const Outcome refused = workplace_.run("record --cluster h100_sxm -o run -- python3 train.py");
    EXPECT_EQ(refused.code, 3);
    EXPECT_EQ(lines_of(refused.errors), 1u) << refused.errors;
    EXPECT_THAT(refused.errors, HasSubstr(said));
  }
}

/// Python with a torch that was built for CUDA; empty: there is none here.
std::string python_with_torch() {
  const char* told = std::getenv("SHARDSCOPE_TORCH_PYTHON");
  const std::string python = told == nullptr ? "python3" : told;
  const std::string asks = python +
                           " -c 'import torch, sys; sys.exit(torch.version.cuda is None)'"
                           " > /dev/null 2>&1";
  return std::system(asks.c_str()) == 0 ? python : std::string();
}

TEST_F(Record, ATrainingScriptHasItsOperatorsModulesAndMemory) {
  const std::string python = python_with_torch();
  if (python.empty())
    GTEST_SKIP() << "no torch for CUDA here; SHARDSCOPE_TORCH_PYTHON names a Python that has one";
  workplace_.write("train.py", R"(
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(3):
    x, y = torch.randn(32, 64, device="cuda"), torch.randint(0, 10, (32,), device="cuda")
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
print("indices", torch.arange(10, device="cuda").nonzero().shape[0])
)");
  const Outcome outcome = workplace_.run("record -o run --json --cluster h100_sxm -- " + python +
                                         " train.py > out.txt");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const std::string output = workplace_.read("out.txt");
  EXPECT_THAT(output, HasSubstr("indices 9\n"));  // 0 is not one: the device's answer was true
  const Json answer = Json::parse(output.substr(output.find("\n{") + 1));
  EXPECT_EQ(answer["recording"]["steps"], 3);
  EXPECT_EQ(answer["recording"]["unknown_functions"], Json::array());
  EXPECT_EQ(answer["invented"], Json::array());
  EXPECT_EQ(answer["memory"]["peak_allocated_bytes"],
            answer["recording"]["peaks"]["allocated_bytes"]);
  EXPECT_EQ(answer["memory"]["peak_reserved_bytes"],
            answer["recording"]["peaks"]["reserved_bytes"]);
  // 64 x 256 + 256 + 256 x 10 + 10 float32, in blocks of 512 bytes: 65536 + 1024 + 10240 + 512.
  EXPECT_EQ(answer["memory"]["at_peak"]["parameters_bytes"], 77312);
}

// As a base under LoRA: no optimizer names it.
TEST_F(Record, WhatAModelHoldsAndDoesNotTrainAreParameters) {
  const std::string python = python_with_torch();
  if (python.empty())
    GTEST_SKIP() << "no torch for CUDA here; SHARDSCOPE_TORCH_PYTHON names a Python that has one";
  workplace_.write("train.py", R"(
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 10)).cuda()
model.register_buffer("frequencies", torch.ones(1000, device="cuda"))
model[0].requires_grad_(False)
optimizer = torch.optim.AdamW(model[2].parameters())
for step in range(2):
    model(torch.randn(32, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
)");
  const Outcome outcome =
      workplace_.run("record -o run --json --cluster h100_sxm -- " + python + " train.py");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  // As above, and a buffer of 4000 bytes.
  EXPECT_EQ(Json::parse(outcome.output)["memory"]["at_peak"]["parameters_bytes"], 77312 + 4096);
}

// The same script with and without expandable segments: torch reserves less with them, and the
// prediction reserves what torch said.
TEST_F(Record, TheSettingsOfTorchsAllocatorArePlayed) {
  const std::string python = python_with_torch();
  if (python.empty())
    GTEST_SKIP() << "no torch for CUDA here; SHARDSCOPE_TORCH_PYTHON names a Python that has one";
  workplace_.write("train.py", R"(
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(3):
    model(torch.randn(64, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
)");
  std::vector<std::int64_t> reserved;
  for (const std::string expandable : {"True", "False"}) {
    const Outcome outcome = workplace_.run(
        "record -o " + expandable + " --json --cluster h100_sxm -- env PYTORCH_CUDA_ALLOC_CONF=" +
        "expandable_segments:" + expandable + " " + python + " train.py");
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    const Json answer = Json::parse(outcome.output);
    EXPECT_EQ(answer["recording"]["allocator"], "expandable_segments:" + expandable);
    EXPECT_EQ(answer["memory"]["peak_allocated_bytes"],
              answer["recording"]["peaks"]["allocated_bytes"]);
    EXPECT_EQ(answer["memory"]["peak_reserved_bytes"],
              answer["recording"]["peaks"]["reserved_bytes"]);
    reserved.push_back(answer["memory"]["peak_reserved_bytes"]);
  }
  EXPECT_LT(reserved.front(), reserved.back());
}

// The script launches kernels until an event is over: how many is a matter of the device's speed.
TEST_F(Record, AScriptThatAsksForTimesIsAnsweredAgainInASecondPass) {
  const std::string python = python_with_torch();
  if (python.empty())
    GTEST_SKIP() << "no torch for CUDA here; SHARDSCOPE_TORCH_PYTHON names a Python that has one";
  workplace_.write("poll.py", R"(
import torch
large, small = torch.zeros(8192, 8192, device="cuda"), torch.zeros(8, device="cuda")
event, side = torch.cuda.Event(), torch.cuda.Stream()
large @ large
event.record()
with torch.cuda.stream(side):
    while not event.query():
        small.add_(1)
)");
  const std::string command = " -- " + python + " poll.py";
  const Outcome first = workplace_.run("record -o run --json --cluster h100_sxm" + command);
  ASSERT_EQ(first.code, 0) << first.errors;
  EXPECT_EQ(Json::parse(first.output)["recording"]["timed_answers"], 1);
  const Outcome again = workplace_.run("simulate --recording run --cluster a100_80gb");
  EXPECT_THAT(again.errors + again.output,
              HasSubstr("asked the device 1 time whether work was over"));
  const Outcome second = workplace_.run(
      "record --beside run -o second --json --cluster a100_80gb --time model" + command);
  ASSERT_EQ(second.code, 0) << second.errors;
  const Json answer = Json::parse(second.output);
  EXPECT_GT(answer["recording"]["timed_answers"], 2);
  EXPECT_EQ(answer["beside"]["ranks"][0]["same_order"], false);
  EXPECT_THAT(answer["assumed"].dump(), Not(HasSubstr("whether work was over")));
}

// Large floats are not computed. What asks for them must not see what their memory held before, or
// a loop that draws until nothing is out of bounds never ends.
TEST_F(Record, AQuestionToValuesThatNobodyComputedIsAnsweredAsForZeros) {
  const std::string python = python_with_torch();
  if (python.empty())
    GTEST_SKIP() << "no torch for CUDA here; SHARDSCOPE_TORCH_PYTHON names a Python that has one";
  workplace_.write("draw.py", R"(
import torch
for _ in range(8):
    stale = [torch.ones(512 * 512, dtype=torch.bool, device="cuda") for _ in range(4)]
del stale
drawn, again = torch.randn(512, 512, device="cuda"), 0
while again < 5 and ((drawn < -2) | (drawn > 2)).any():
    drawn, again = torch.randn(512, 512, device="cuda"), again + 1
ones = torch.ones_like(drawn, dtype=torch.int64).sum().item()
print("again", again, "finite", torch.isfinite(drawn).all().item(), "ones", ones)
)");
  const Outcome outcome =
      workplace_.run("record -o run --json --cluster h100_sxm -- " + python + " draw.py > out.txt");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const std::string output = workplace_.read("out.txt");
  EXPECT_THAT(output, HasSubstr("again 0 finite True ones 262144\n"));
  const Json answer = Json::parse(output.substr(output.find("\n{") + 1));
  EXPECT_THAT(answer["invented"],
              Contains("aten.lt.Scalar, read by aten._local_scalar_dense.default"));
}

// torch.compile traces tensors whose sizes are symbols.
TEST_F(Record, TensorsWithoutKnownSizesAreNoError) {
  const std::string python = python_with_torch();
  if (python.empty())
    GTEST_SKIP() << "no torch for CUDA here; SHARDSCOPE_TORCH_PYTHON names a Python that has one";
  workplace_.write("dynamic.py", R"(
import torch
compiled = torch.compile(lambda x: x.detach() * 2 + 1, dynamic=True, backend="aot_eager")
for rows in (70, 130):
    compiled(torch.randn(rows, 64, device="cuda", requires_grad=True))
)");
  const Outcome outcome = workplace_.run("record -o run --json --cluster h100_sxm -- " + python +
                                         " dynamic.py > out.txt");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, Not(HasSubstr("Exception in RecordFunction")));
}

// Transforms, factorizations, sparse gradients, and a graph that is launched twice: each kernel is
// of an operator, and the script reads sizes that are right.
TEST_F(Record, LibrariesBesideProductsAreSimulated) {
  const std::string python = python_with_torch();
  if (python.empty())
    GTEST_SKIP() << "no torch for CUDA here; SHARDSCOPE_TORCH_PYTHON names a Python that has one";
  workplace_.write("libraries.py", R"(
import torch
x = torch.randn(64, 64, device="cuda")
y = torch.fft.irfft2(torch.fft.rfft2(x) @ torch.randn(33, 33, dtype=torch.cfloat, device="cuda"))
torch.cholesky_solve(x, torch.linalg.cholesky(x @ x.T + 64 * torch.eye(64, device="cuda")))
torch.linalg.svd(x), torch.linalg.eigh(x @ x.T), torch.linalg.qr(x), torch.linalg.solve(x, x)
bag = torch.nn.EmbeddingBag(100, 8, sparse=True).cuda()
optimizer = torch.optim.SparseAdam(bag.parameters())
bag(torch.tensor([[3, 5, 3], [7, 3, 5]], device="cuda")).sum().backward()
print("rows", bag.weight.grad.coalesce().indices().shape[1])
optimizer.step()
big = torch.randn(512, 512, device="cuda")
torch.mm(big, big), torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    torch.mm(big, big).relu_()
graph.replay(), graph.replay()
bag(torch.tensor([[3, 5, 3]], device="cuda")).sum().backward()
optimizer.step()
)");
  const Outcome outcome = workplace_.run("record -o run --json --cluster h100_sxm -- " + python +
                                         " libraries.py > out.txt");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const std::string output = workplace_.read("out.txt");
  EXPECT_THAT(output, HasSubstr("rows 3\n"));
  const Json answer = Json::parse(output.substr(output.find("\n{") + 1));
  EXPECT_EQ(answer["recording"]["kernels_of_no_operator"], 0);
  EXPECT_THAT(answer["recording"]["unknown_functions"], IsEmpty());
}

}  // namespace
}  // namespace shardscope::testing
