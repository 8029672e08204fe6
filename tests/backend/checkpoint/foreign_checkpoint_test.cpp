// What the real libraries saved (tests/data/pytorch_checkpoints/README.md has the values).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "backend/checkpoint/checkpoint_reader.h"
#include "backend/checkpoint/foreign_reader.h"
#include "backend/checkpoint/rewrite.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/model/read_model.h"
#include "tests/backend/train/temporary_folder.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const fs::path recorded = fs::path(SOURCE_ROOT) / "tests/data/pytorch_checkpoints";
const fs::path saved_config = recorded / "config.json";

Model saved_model() {
  return read_model(saved_config, {.class_name = {}, .dtype = Dtype::float32});
}

/// Parameter n has n + i / 256 at element i, exp_avg minus that, exp_avg_sq twice that.
float saved_value(std::string_view state, std::size_t parameter, std::size_t element) {
  const float value = static_cast<float>(parameter) + static_cast<float>(element) / 256;
  return state == "exp_avg" ? -value : state == "exp_avg_sq" ? 2 * value : value;
}

/// The first element that is not as it was saved.
std::string first_difference(Checkpoint& checkpoint, const std::string& state, std::size_t number,
                             const Parameter& parameter) {
  const std::string name = tensor_name(state, parameter.name);
  if (!checkpoint.find(name)) return name + " is not there";
  std::vector<float> values(static_cast<std::size_t>(elements_of(parameter.shape)));
  // In two parts, so that one begins inside of a tensor.
  const std::size_t half = values.size() / 2;
  checkpoint.read(name, 0, std::span(values).first(half));
  checkpoint.read(name, static_cast<std::int64_t>(half), std::span(values).subspan(half));
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != saved_value(state, number, i)) return name + " at " + std::to_string(i);
  return "";
}

ForeignReader reader_of(const fs::path& folder) {
  return ForeignReader(open_foreign(folder), {.config = saved_config, .next_token = 40});
}

std::string refusal_of(const fs::path& folder) {
  try {
    ForeignReader reader = reader_of(folder);
    for (const Checkpoint::Tensor& tensor : reader.tensors()) {
      std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
      reader.read(tensor.name, 0, values);
    }
    return "nothing";
  } catch (const Error& error) {
    return error.what();
  }
}

struct Saved {
  const char* folder;
  const char* format;
  const char* strategy;
  bool has_all_states = true;  ///< else not of wpe and ln_f
};

class RealCheckpoint : public ::testing::TestWithParam<Saved> {};

TEST_P(RealCheckpoint, HasEveryValueThatWasSaved) {
  const fs::path folder = recorded / GetParam().folder;
  ASSERT_TRUE(is_foreign_checkpoint(folder));
  const ForeignCheckpoint opened = open_foreign(folder);
  EXPECT_EQ(opened.format, GetParam().format);
  EXPECT_EQ(opened.strategy, GetParam().strategy);
  ForeignReader reader = reader_of(folder);
  EXPECT_EQ(reader.index().progress.step, 3);
  EXPECT_EQ(reader.index().progress.next_token, 40);
  EXPECT_THAT(reader.states(), ElementsAre("exp_avg", "exp_avg_sq", "parameters"));
  const Model model = saved_model();
  ASSERT_EQ(model.parameters.size(), 16u);
  for (const char* state : {"parameters", "exp_avg", "exp_avg_sq"})
    for (std::size_t number = 0; number < model.parameters.size(); ++number) {
      const Parameter& parameter = model.parameters[number];
      const bool is_frozen = !GetParam().has_all_states && state != parameters_state &&
                             (parameter.name.find("wpe") != std::string::npos ||
                              parameter.name.find("ln_f") != std::string::npos);
      if (is_frozen)
        EXPECT_FALSE(reader.find(tensor_name(state, parameter.name))) << parameter.name;
      else
        EXPECT_EQ(first_difference(reader, state, number, parameter), "");
    }
}

TEST_P(RealCheckpoint, BecomesOneOfOurs) {
  const TemporaryFolder place;
  ForeignReader reader = reader_of(recorded / GetParam().folder);
  reshard(reader, 3, place.path() / "ours");
  CheckpointReader ours(place.path() / "ours");
  EXPECT_EQ(ours.index().files.size(), 3u);
  EXPECT_THAT(ours.verify(2), ::testing::IsEmpty());
  const Model model = saved_model();
  for (std::size_t number = 0; number < model.parameters.size(); ++number)
    EXPECT_EQ(first_difference(ours, "parameters", number, model.parameters[number]), "");
}

INSTANTIATE_TEST_SUITE_P(
    All, RealCheckpoint,
    ::testing::Values(Saved{"accelerate_fsdp1_sharded", "accelerate", "fsdp"},
                      Saved{"accelerate_fsdp2_full", "accelerate", "fsdp"},
                      Saved{"accelerate_ddp", "accelerate", ""},
                      Saved{"deepspeed_zero1", "deepspeed", "zero1"},
                      Saved{"deepspeed_zero2", "deepspeed", "zero2"},
                      Saved{"deepspeed_zero3", "deepspeed", "zero3"},
                      Saved{"deepspeed_zero2_frozen", "deepspeed", "zero2", false},
                      Saved{"deepspeed_zero3_frozen", "deepspeed", "zero3", false}),
    [](const auto& one) { return std::string(one.param.folder); });

class ForeignCheckpoints : public ::testing::Test {
 protected:
  fs::path copy(const std::string& name) const {
    const fs::path folder = place_.path() / name;
    fs::remove_all(folder);
    fs::copy(recorded / name, folder, fs::copy_options::recursive);
    return folder;
  }
  TemporaryFolder place_;
};

TEST_F(ForeignCheckpoints, AFolderOfOneTagIsReadByItself) {
  EXPECT_EQ(refusal_of(recorded / "deepspeed_zero3/global_step3"), "nothing");
}

TEST_F(ForeignCheckpoints, AModelAloneIsNone) {
  const fs::path folder = copy("accelerate_ddp");
  fs::remove(folder / "optimizer.bin");
  EXPECT_FALSE(is_foreign_checkpoint(folder));
  EXPECT_FALSE(is_foreign_checkpoint(place_.path()));
}

TEST_F(ForeignCheckpoints, AMissingRankIsNamed) {
  const fs::path folder = copy("deepspeed_zero2");
  fs::remove(folder / "global_step3/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt");
  EXPECT_THAT(refusal_of(folder), HasSubstr("has optimizer states of 1 ranks, and 2 saved it"));
  fs::remove(folder / "global_step3/mp_rank_00_model_states.pt");
  EXPECT_THAT(refusal_of(folder), HasSubstr("mp_rank_00_model_states.pt"));
}

TEST_F(ForeignCheckpoints, TensorParallelismIsRefused) {
  const fs::path folder = copy("deepspeed_zero2");
  fs::rename(folder / "global_step3/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
             folder / "global_step3/bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt");
  EXPECT_THAT(refusal_of(folder), HasSubstr("parallelism, which is not read"));
}

TEST_F(ForeignCheckpoints, LatestStaysInItsFolder) {
  const fs::path folder = copy("deepspeed_zero1");
  write_atomically(folder / "latest", "../deepspeed_zero1/global_step3");
  EXPECT_FALSE(is_foreign_checkpoint(folder));
  write_atomically(folder / "latest", "global_step3\n");
  EXPECT_EQ(refusal_of(folder), "nothing");
}

TEST_F(ForeignCheckpoints, AFlippedBitIsFound) {
  const fs::path folder = copy("deepspeed_zero3");
  const fs::path file = folder / "global_step3/zero_pp_rank_0_mp_rank_00_optim_states.pt";
  std::string bytes = read_whole(file);
  // -(2 + 1 / 256), the second exp_avg of parameter 2.
  const std::size_t at = bytes.find(std::string("\x00\x40\x00\xc0", 4));
  ASSERT_NE(at, std::string::npos);
  bytes[at] = '\x01';
  write_atomically(file, bytes);
  EXPECT_THAT(refusal_of(folder), HasSubstr("is damaged: its checksum is"));
}

TEST_F(ForeignCheckpoints, WhatIsCutOffIsRefused) {
  const fs::path folder = copy("deepspeed_zero2");
  for (const char* name : {"global_step3/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
                           "global_step3/mp_rank_00_model_states.pt"}) {
    const std::string whole = read_whole(recorded / "deepspeed_zero2" / name);
    for (std::size_t bytes = 0; bytes < whole.size(); bytes += 397) {
      write_atomically(folder / name, whole.substr(0, bytes));
      EXPECT_NE(refusal_of(folder), "nothing") << name << " " << bytes;
    }
    write_atomically(folder / name, whole);
  }
}

TEST_F(ForeignCheckpoints, PartsOfOneRankAreRefused) {
  const fs::path folder = copy("accelerate_fsdp2_full");
  fs::rename(folder / "pytorch_model_fsdp.bin", folder / "pytorch_model_fsdp_rank0.bin");
  EXPECT_THAT(refusal_of(folder), HasSubstr("save with SHARDED_STATE_DICT"));
}

TEST_F(ForeignCheckpoints, AnotherModelIsRefused) {
  std::string text = read_whole(saved_config);
  text.replace(text.find("\"n_embd\": 6"), 11, "\"n_embd\": 8");
  write_atomically(place_.path() / "config.json", text);
  try {
    const ForeignReader reader(open_foreign(recorded / "deepspeed_zero1"),
                               {.config = place_.path() / "config.json"});
    FAIL() << reader.folder();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("transformer.wte.weight has the shape [15, 6], and the "
                                        "model's [15, 8]"));
  }
}

// Numbers of an optimizer say whose states they are only where it has all parameters.
TEST_F(ForeignCheckpoints, NumbersOfOtherGroupsAreRefused) {
  ForeignCheckpoint opened = open_foreign(recorded / "accelerate_ddp");
  EXPECT_THAT(opened.group_sizes, ElementsAre(16));
  opened.group_sizes = {15};
  EXPECT_THROW(ForeignReader(std::move(opened), {.config = saved_config}), Error);
}

// transformers' Trainer: weights that decay first, then biases and norms. wte, wpe, the four
// matrices of the block are 0 to 5; wte is 15 x 6.
TEST_F(ForeignCheckpoints, TwoGroupsHaveTheMatricesFirst) {
  ForeignCheckpoint opened{.folder = "trainer", .format = "accelerate", .group_sizes = {6, 10}};
  const Model model = saved_model();
  std::vector<std::size_t> order;
  for (const bool matrices : {true, false})
    for (std::size_t p = 0; p < model.parameters.size(); ++p)
      if ((model.parameters[p].shape.size() >= 2) == matrices) order.push_back(p);
  ASSERT_EQ(order.size(), 16u);
  for (std::size_t number = 0; number < order.size(); ++number) {
    const Parameter& parameter = model.parameters[order[number]];
    const auto filled = [&](float value) {
      return ForeignTensor{.shape = parameter.shape,
                           .read = [value](std::int64_t, std::span<float> out) {
                             std::fill(out.begin(), out.end(), value);
                           }};
    };
    opened.tensors.emplace(parameter.name, filled(0));
    opened.tensors.emplace("state." + std::to_string(number) + ".exp_avg",
                           filled(static_cast<float>(number)));
  }
  ForeignReader reader(std::move(opened), {.config = saved_config});
  float value = -1;
  reader.read("exp_avg/transformer.h.0.attn.c_attn.weight", 0, {&value, 1});
  EXPECT_EQ(value, 2);
  reader.read("exp_avg/transformer.h.0.ln_1.weight", 0, {&value, 1});
  EXPECT_EQ(value, 6);
}

}  // namespace
}  // namespace shardscope
